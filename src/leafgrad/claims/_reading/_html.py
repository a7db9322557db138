"""What raw HTML shows as code or in a table, and what its comments hide."""

import bisect
import html
import re
from collections.abc import Iterator

from leafgrad.claims._page import Problem
from leafgrad.claims._reading._census import holds_cells, unexecuted
from leafgrad.claims._reading._stated import by_hand, holds_roles, is_result, plain, shown_result

_BLOCK = re.compile(
    r"<!--|-->|<(/?)(pre|textarea|xmp|listing|code|samp|py-\w+)\b([^<>]*)>", re.IGNORECASE
)
_CELL = re.compile(r"<(/?)(tr|td|table)\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_SPANS = frozenset({"code", "samp"})

Part = tuple[int, str]
"""The line, from 0, on which a text begins, and the text."""


def html_problems(source: str, line: int) -> Iterator[Problem]:
    """Yield what is wrong with HTML that begins on `line` of a page."""
    for name, (below, text) in _blocks(source):
        if name == "<!--":
            yield from comment_problems(text, line + below)
        else:
            yield from _code_problems(name, text, line + below)
    for below, text in _cells(source):
        if is_result(text):
            yield Problem(line + below, by_hand(text), snippet=plain(text))


def comment_problems(text: str, line: int) -> Iterator[Problem]:
    """Yield a problem if a comment, from `line` of a page on, hides something to be proven."""
    if holds_cells(text) or holds_roles(text):
        message = "nobody executes what stands in a comment: take it out of there"
        yield Problem(line, message, snippet=text.strip())


def _code_problems(name: str, text: str, line: int) -> Iterator[Problem]:
    if name in _SPANS and "\n" not in text.strip():
        return  # as in a sentence
    node = shown_result(text)
    reason = unexecuted(text, "python" if name.startswith("py-") else "")
    if reason or node:
        yield Problem(line, reason or by_hand(node or ""), snippet=text.strip())


def _blocks(source: str) -> Iterator[tuple[str, Part]]:
    """Yield comments and the outermost blocks of code, each by the name of what opens it."""
    breaks = _breaks(source)
    opened: tuple[str, int] | None = None
    for tag in _BLOCK.finditer(source):
        name = (tag[2] or tag[0]).lower()
        if opened is None:
            opened = None if tag[1] or name == "-->" else (name, tag.end())
        elif name == {"<!--": "-->"}.get(opened[0], opened[0]) and (tag[1] or name == "-->"):
            yield opened[0], _part(source, breaks, opened[1], tag.start())
            opened = None


def _cells(source: str) -> Iterator[Part]:
    """Yield the cells of tables, but for the first of each row."""
    breaks, column, start = _breaks(source), 0, None
    for tag in _CELL.finditer(source):
        if start is not None and column > 1:
            yield _part(source, breaks, start, tag.start())
        is_cell = not tag[1] and tag[2].lower() == "td"
        column = column + is_cell if tag[2].lower() == "td" else 0
        start = tag.end() if is_cell else None


def _breaks(source: str) -> list[int]:
    return [found.start() for found in re.finditer("\n", source)]


def _part(source: str, breaks: list[int], start: int, end: int) -> Part:
    text = html.unescape(_TAG.sub("", source[start:end]))
    return bisect.bisect_left(breaks, start), text.strip("\n")
