"""Files that a page includes."""

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
)

ENDLESS = "a file must not include itself"
"""The message of a page that has no end."""


@dataclasses.dataclass(frozen=True)
class Context:
    """The file of a page, the files that include one another from there, and the table's choice."""

    files: tuple[Path, ...]
    python_fences: str = "show"


Parse = Callable[[str, str, Context], Page]
Found = Iterator[Item | Problem]


def read_include(
    name: str, options: Mapping[str, Any], line: int, context: Context, parse: Parse
) -> Found:
    """Yield what `{include} name`, on `line`, brings into a page."""
    try:
        file, text = text_of(name, options, context.files[0])
    except ValueError as error:
        yield Problem(line, str(error))
        return
    if {"literal", "code", "parser"} & options.keys() or file.suffix == ".rst":
        return
    if file in context.files:
        yield Problem(line, f"{ENDLESS}, and {name} does")
        return
    within = dataclasses.replace(context, files=(*context.files, file))
    page = parse(text, file.name, within)
    for problem in page.problems:
        yield Problem(line, f"{name}:{problem.line} is included: {problem.message}")
    if any(isinstance(item, Cell | Claim | Inline) for item in page.items):
        rule = "an included file must hold no cells, claims or roles"
        yield Problem(line, f"{rule}, and {name} does: link to its page instead")
    if any(isinstance(item, Heading) for item in page.items):
        yield Heading(line=line)
    if any(isinstance(item, Doctest) for item in page.items):
        yield Include(line=line, file=file)
    for item in page.items:
        if isinstance(item, Escape | Include):
            yield dataclasses.replace(item, line=line)


def unjudged_includes(page: Page, judged: Callable[[], Container[Path]]) -> Iterator[Problem]:
    """Yield a problem for each file whose examples `page` shows and that is not judged itself."""
    for include in page.of(Include):
        if include.file not in judged():
            name = include.file.name
            rule = "an included file must be judged itself"
            yield Problem(include.line, f"{rule}, and {name} is not: name it among the pages")


def text_of(name: str, options: Mapping[str, Any], page: Path) -> tuple[Path, str]:
    """Return the file that `name` means on `page`, and its selected text under blank lines.

    Raises:
        ValueError: There is no such file, or no such text in it.
    """
    folder = page.parent
    if name.startswith("/"):  # the folder of conf.py
        folder = next((above for above in page.parents if (above / "conf.py").is_file()), folder)
    file = (folder / name.lstrip("/")).resolve()
    try:
        text = file.read_text(encoding="utf-8-sig") if file.is_file() else None
    except (OSError, ValueError) as error:
        raise ValueError(f"an included file must be text: {name}: {error}") from error
    if text is None:
        raise ValueError(f"an included file must exist, and {name} does not")
    return file, _select_lines(text, options)


def _select_lines(text: str, options: Mapping[str, Any]) -> str:
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
