"""Read a `{code-cell}` fence into a `Cell`: its language, its options and what they declare."""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sphinx_claims._page import Cell, Doctest, Problem
from sphinx_claims._python import parse_python
from sphinx_claims._reading.fence import has_examples

TAGS = frozenset({"hide-input", "hide-output", "hide-cell", "remove-input"})
"""Tags that change only how a cell looks, not what it proves."""

OPTIONS = frozenset({"checks", "exception-to", "may-print", "raises", "tags", "warns"})
_PAIRS = {"checks": "a claim's id and its digest", "exception-to": "a claim's id and a name"}
_NO_MESSAGE = "\N{SNOWMAN}" * 9
"""A text that no program prints."""

_LANGUAGES = frozenset({"", "python", "python3", "py", "ipython", "ipython3"})


def read_cell(
    language: str, source: str, options: Mapping[str, Any], *, fence: int, line: int
) -> Iterator[Cell | Doctest | Problem]:
    """Yield the cell whose `source` begins on `line`, examples in its docstrings, and problems."""
    if language.lower() not in _LANGUAGES:
        yield Problem(fence, f"a cell must be Python, not {language}")
        return
    tags = _tags(options)
    for kind, used, known in (("options", options, OPTIONS), ("tags", tags, TAGS)):
        for name in sorted(set(used) - known):
            yield Problem(fence, f"a cell's {kind} are {', '.join(sorted(known))}, not {name!r}")
    declared: dict[str, str | None] = {"raises": None, "warns": None, "may-print": None}
    for key in declared.keys() & options.keys():
        text = str(options[key])
        try:
            if wrong := _unusable(key, text):
                yield Problem(fence, f":{key}: {wrong}")
            declared[key] = text
        except (re.error, OverflowError, RecursionError) as error:
            yield Problem(fence, f":{key}: must hold a regular expression: {error}")
    pairs = {key: _pair(str(options.get(key) or "")) for key in _PAIRS}
    for key in [key for key in _PAIRS if key in options and pairs[key] is None]:
        yield Problem(fence, f":{key}: must hold {_PAIRS[key]}, not {options[key]!r}")
    yield Cell(
        line=line,
        fence=fence,
        source=source,
        raises=declared["raises"],
        warns=declared["warns"],
        may_print=declared["may-print"],
        tags=tuple(tag for tag in tags if tag in TAGS),
        checks=pairs["checks"],
        exception_to=pairs["exception-to"],
    )
    yield from _docstrings(source, line)


def _docstrings(source: str, line: int) -> Iterator[Doctest]:
    """Yield the `>>>` examples in docstrings of functions and classes that a cell defines.

    The cell begins on `line`.
    """
    tree = parse_python(source) if has_examples(source) else None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node, clean=False) or ""
            if has_examples(text):
                yield Doctest(line=line + node.body[0].lineno - 1, source=text)


def _pair(text: str) -> tuple[str, str] | None:
    identifier, _, rest = text.partition(" ")
    return (identifier, rest.strip()) if rest.strip() else None


def _unusable(key: str, text: str) -> str | None:
    """Return why the declaration `text` is invalid, or None if it is valid.

    `key` is the option that contains the declaration, such as `raises`. The text must read `Type:
    pattern`, and the pattern must not match every message. For `may-print`, the text is only a
    pattern.
    """
    name, _, pattern = (part.strip() for part in text.partition(":"))
    if key == "may-print":
        pattern = text
    elif not re.fullmatch(r"[A-Za-z_][\w.]*", name):
        return f'must read "Type: pattern", not {text!r}'
    if re.search(pattern, _NO_MESSAGE):
        return f"must hold a pattern that not every message matches: {text!r}"
    return None


def _tags(options: Mapping[str, Any]) -> list[str]:
    value = options.get("tags") or []
    if isinstance(value, str):
        return value.split()
    return [str(tag) for tag in (value if isinstance(value, list) else [value])]
