"""What a page takes out of other files."""

import dataclasses
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from sphinx_claims._page import (
    Cell,
    Claim,
    Doctest,
    Escape,
    Heading,
    Include,
    Inline,
    Item,
    Page,
    Problem,
    Stated,
)
from sphinx_claims._reading.languages import language_of_file
from sphinx_claims._reading.rst import rst_problems
from sphinx_claims._reading.snippet import snippet_problems

Files = tuple[Path, ...]
"""The file of a page, and those that include one another from there on."""

Parse = Callable[[str, Files], Page]
Found = Iterator[Item | Problem]

ENDLESS = "a file must not include itself"
"""What is said of a file that no one could read to its end."""


def included(name: str, options: Mapping[str, Any], line: int, files: Files, parse: Parse) -> Found:
    """Yield what `{include} name`, on `line`, brings into a page."""
    try:
        file, text = _taken(name, options, files[0])
    except ValueError as error:
        yield Problem(line, str(error))
        return
    if "literal" in options or "code" in options:
        yield from snippet_problems(text, str(options.get("code") or ""), line)
    elif "parser" in options or file.suffix == ".rst":
        problems = (problem.message for problem in rst_problems(text, 1))
        yield from (Problem(line, f"{name} is included: {message}") for message in problems)
    elif file in files:
        yield Problem(line, f"{ENDLESS}, and {name} does")
    else:
        yield from _as_markdown(parse(text, (*files, file)), name, file, line)


def literally_included(name: str, options: Mapping[str, Any], line: int, files: Files) -> Found:
    """Yield what `{literalinclude} name`, on `line`, shows of a file."""
    try:
        file, text = _taken(name, {}, files[0])
    except ValueError as error:
        yield Problem(line, str(error))
        return
    language = options.get("language") or language_of_file(file)
    yield from snippet_problems(text, str(language), line)


def unjudged(page: Page, judged: Callable[[], Container[Path]]) -> Iterator[Problem]:
    """Yield a problem for each file whose examples `page` shows and nobody judges.

    `judged` lists all that is, for which few pages ask.
    """
    for include in page.of(Include):
        if include.file not in judged():
            name = include.file.name
            rule = "what a page includes must be judged too"
            yield Problem(include.line, f"{rule}, and {name} is not: name it among the pages")


def _as_markdown(page: Page, name: str, file: Path, line: int) -> Found:
    """Yield what the page that was made of an included file means for the one that includes it."""
    for problem in page.problems:
        message = f"{name}:{problem.line} is included: {problem.message}"
        yield Problem(line, message, snippet=problem.snippet)
    if any(isinstance(item, Cell | Claim | Inline) for item in page.items):
        rule = "an included file must hold no cells, claims or roles"
        yield Problem(line, f"{rule}, and {name} does: they belong to its own page, so link to it")
    if any(isinstance(item, Heading) for item in page.items):
        yield Heading(line=line)
    if any(isinstance(item, Doctest) for item in page.items):
        yield Include(line=line, file=file)
    for item in page.items:
        if isinstance(item, Escape | Include | Stated):
            yield dataclasses.replace(item, line=line)


def _taken(name: str, options: Mapping[str, Any], page: Path) -> tuple[Path, str]:
    """Return the file that `name` means on `page`, and its text: blank lines for what is left out.

    Raises:
        ValueError: There is no such file, or no such text in it.
    """
    folder = page.parent
    if name.startswith("/"):  # that of conf.py
        folder = next((above for above in page.parents if (above / "conf.py").is_file()), folder)
    file = (folder / name.lstrip("/")).resolve()
    try:
        text = file.read_text(encoding="utf-8-sig") if file.is_file() else None
    except (OSError, ValueError) as error:
        raise ValueError(f"a file that a page shows must be text: {name}: {error}") from error
    if text is None:
        raise ValueError(f"a file that a page shows must exist, and {name} does not")
    return file, _selected(text, options)


def _selected(text: str, options: Mapping[str, Any]) -> str:
    """Return the part that the options name, under as many lines as stand above it."""
    lines = text.split("\n")
    first, last = (_number(options, key) for key in ("start-line", "end-line"))
    above, kept = lines[:first] if first else [], "\n".join(lines[first:last])
    if after := options.get("start-after"):
        skipped, kept = _split(kept, str(after), "start-after")
        above += skipped.split("\n")[1:]
    if before := options.get("end-before"):
        kept, _ = _split(kept, str(before), "end-before")
    return "\n" * len(above) + kept


def _number(options: Mapping[str, Any], key: str) -> int | None:
    value = options.get(key)
    if value is None or isinstance(value, int):
        return value
    raise ValueError(f":{key}: must be the number of a line, not {value!r}")


def _split(text: str, mark: str, key: str) -> tuple[str, str]:
    before, found, after = text.partition(mark)
    if not found:
        raise ValueError(f":{key}: must be in the file, and {mark!r} is not")
    return before, after
