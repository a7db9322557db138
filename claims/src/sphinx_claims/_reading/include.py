"""Read the files that a page includes."""

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
"""The message for a page that includes itself."""


@dataclasses.dataclass(frozen=True)
class Context:
    """The files that are being read, and the setting `python_fences`.

    `files` begins with the file of the page. Each file includes the next one. The last one is read
    now.
    """

    files: tuple[Path, ...]
    python_fences: str = "show"


_PARTS = {"end-before", "end-line", "start-after", "start-line"}
Parse = Callable[[str, str, Context], Page]
Found = Iterator[Item | Problem]


def read_include(
    name: str, options: Mapping[str, Any], line: int, context: Context, parse: Parse
) -> Found:
    """Yield the items and problems that `{include} name`, on `line`, adds to a page."""
    try:
        file, text = text_of(name, context.files[0])
    except ValueError as error:
        yield Problem(line, str(error))
        return
    if {"literal", "code", "parser"} & options.keys() or file.suffix == ".rst":
        return
    parts = sorted(_PARTS & options.keys())
    yield from (Problem(line, f"an included file must be whole, without :{key}:") for key in parts)
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
    """Yield a problem for each included file with examples that is not judged itself.

    `judged` returns the files that are judged.
    """
    for include in page.of(Include):
        if include.file not in judged():
            name = include.file.name
            rule = "an included file must be judged itself"
            yield Problem(include.line, f"{rule}, and {name} is not: name it among the pages")


def text_of(name: str, page: Path) -> tuple[Path, str]:
    """Return the file to which `name` refers on the page `page`, and its text.

    Raises:
        ValueError: If there is no such file or it is not text.
    """
    folder = page.parent
    if name.startswith("/"):  # It is relative to the folder of conf.py.
        folder = next((above for above in page.parents if (above / "conf.py").is_file()), folder)
    file = (folder / name.lstrip("/")).resolve()
    try:
        text = file.read_text(encoding="utf-8-sig") if file.is_file() else None
    except (OSError, ValueError) as error:
        raise ValueError(f"an included file must be text: {name}: {error}") from error
    if text is None:
        raise ValueError(f"an included file must exist, and {name} does not")
    return file, text
