"""A `{code-cell}` fence -> Cell: its language, its options and what they declare."""

import ast
import builtins
import difflib
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sphinx_claims._page import Cell, Doctest, Problem
from sphinx_claims._python import parsed, parts
from sphinx_claims._reading.typed_results import comments, unchecked
from sphinx_claims._reading.unexecuted_code import has_examples

TAGS = frozenset({"hide-input", "hide-output", "hide-cell", "remove-input"})
"""Tags that change how a cell looks and nothing about what it proves."""

OPTIONS = frozenset({"family", "may-print", "raises", "tags", "warns"})
_LANGUAGES = frozenset({"", "python", "python3", "py", "ipython", "ipython3"})
_ERRORS = tuple(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)


def read_cell(
    language: str, source: str, options: Mapping[str, Any], *, fence: int, line: int
) -> Iterator[Cell | Doctest | Problem]:
    """Yield the cell whose `source` begins on `line`, and what is wrong with its fence."""
    if language.lower() not in _LANGUAGES:
        message = f"a cell is Python, and nobody executes {language}"
        yield Problem(fence, message, snippet=source.strip())
        return
    yield from _misused(options, fence)
    declared: dict[str, str | None] = {"raises": None, "warns": None}
    for key in declared.keys() & options.keys():
        try:
            declared[key] = _declaration(str(options[key]))
        except ValueError as error:
            yield Problem(fence, f":{key}: {error}")
    types = {str(text).partition(":")[0].strip() for text in declared.values() if text}
    if "may-print" in options:
        pattern = str(options["may-print"] or "")
        if wrong := _is_no_pattern(pattern):
            yield Problem(fence, f":may-print: must hold a regular expression: {wrong}")
        else:
            declared["may_print"] = pattern
    for below, text in comments(source):
        if not any(map(text.startswith, types)):
            yield Problem(line + below, unchecked(text))
    tags = tuple(tag for tag in _tags(options) if tag in TAGS)
    family = tuple(_families(options))
    for name in family:
        if not name.isidentifier() or keyword.iskeyword(name):
            yield Problem(fence, f":family: must name collections, as in a, b, not {name!r}")
    yield Cell(line=line, fence=fence, source=source, **declared, tags=tags, family=family)
    yield from _documented(source, line)


def _documented(source: str, line: int) -> Iterator[Doctest]:
    """Yield the examples in the docstrings of what a cell defines."""
    for node in parts(source) if has_examples(source) else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node, clean=False) or ""
            if has_examples(text):
                yield Doctest(line=line + node.body[0].lineno - 1, source=text)


def nothing_executed(cells: Sequence[Cell]) -> Iterator[Problem]:
    """Yield a problem of a page whose cells hold comments and not one statement."""
    trees = [parsed(cell.source) for cell in cells]
    if any(cell.source.strip() for cell in cells) and all(
        tree is not None and not tree.body for tree in trees
    ):
        message = "no cell of this page holds anything but comments: nothing on it is executed"
        yield Problem(cells[0].line, message)


def _misused(options: Mapping[str, Any], fence: int) -> Iterator[Problem]:
    for key in sorted(set(options) - OPTIONS):
        yield Problem(fence, f"a cell's options are {_listed(OPTIONS)}, not {key!r}")
    for tag in sorted(set(_tags(options)) - TAGS):
        yield Problem(fence, f"a cell's tags are {_listed(TAGS)}, not {tag!r}")


def _declaration(text: str) -> str:
    name, _, pattern = (part.strip() for part in text.partition(":"))
    if not re.fullmatch(r"[A-Za-z_][\w.]*", name):
        raise ValueError(f'must read "Type: pattern", not {text!r}')
    if meant := _misspelt(name):
        raise ValueError(f"must name a type that exists, not {name}: is {meant} meant?")
    if wrong := _is_no_pattern(pattern):
        raise ValueError(f"must hold a regular expression after the type: {wrong}")
    return text


def _is_no_pattern(text: str) -> Exception | None:
    """Return what keeps `text` from being a regular expression; None where it is one."""
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return error
    return None


def _misspelt(name: str) -> str | None:
    """Return the builtin error that `name` is nearly; None where it may be a type of its own."""
    if "." in name or any(error in name for error in _ERRORS):
        return None
    close = difflib.get_close_matches(name, _ERRORS, n=1, cutoff=0.85)
    return close[0] if close else None


def _tags(options: Mapping[str, Any]) -> list[str]:
    value = options.get("tags") or []
    if isinstance(value, str):
        return value.split()
    return [str(tag) for tag in (value if isinstance(value, list) else [value])]


def _families(options: Mapping[str, Any]) -> list[str]:
    """List what `:family:` names; one text that is no name where it names nothing."""
    if "family" not in options:
        return []
    value = options["family"]
    return [name.strip() for name in ("" if value is None else str(value)).split(",")]


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
