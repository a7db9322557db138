"""What raw HTML shows as code, in a table or as a headline, and what its comments hide."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser

from sphinx_claims._page import Problem, Stated
from sphinx_claims._reading.headline import headline
from sphinx_claims._reading.tables import Entry, results
from sphinx_claims._reading.typed_results import by_hand, holds_roles, shown_result
from sphinx_claims._reading.unexecuted_code import holds_cells, unexecuted

_CODE = re.compile(r"pre|textarea|xmp|listing|code|samp|tt|kbd|py-\w+")
_SPANS = frozenset({"code", "samp", "tt", "kbd"})
_MONOSPACE = re.compile(r"font(?:-family)?\s*:[^;]*mono", re.IGNORECASE)
_PLACES = dict.fromkeys((f"h{level}" for level in range(1, 7)), "heading") | {
    "alt": "text for a picture",
    "caption": "caption",
    "figcaption": "caption",
    "summary": "title",
    "text": "picture",
    "title": "title",
}
_CELLS = frozenset({"td", "th"})

Found = Problem | Stated


@dataclasses.dataclass(kw_only=True)
class _Part:
    """What stands in an element that begins on a line, from 0."""

    tag: str
    kind: str
    below: int
    text: str = ""
    depth: int = 1


def read_html(source: str, line: int) -> Iterator[Found]:
    """Yield what is wrong with HTML that begins on `line` of a page, and the numbers it states."""
    whole, comment = _without_open_comment(source)
    reader = _Reader()
    try:
        reader.feed(_without_open_tag(whole))
        reader.close()
    except AssertionError as error:  # as Python's parser tells of a declaration without a name
        yield Problem(line, f"this HTML cannot be read: {error}")
    if comment:
        yield from comment_problems(comment, line + whole.count("\n"))
    for part in reader.parts:
        yield from _found(part, line + part.below)
    for rows in reader.tables:
        entries = [
            [Entry(text=part.text.strip(), line=line + part.below) for part in row]
            for row in rows
            if _holds_values(row)
        ]
        heads = [part.text for row in rows if not _holds_values(row) for part in row]
        yield from results(heads, entries)


def _without_open_comment(source: str) -> tuple[str, str]:
    """Split off a comment that never ends, which the parser would look at again and again."""
    start = source.find("<!--", source.rfind("-->") + 1)
    return (source, "") if start < 0 else (source[:start], source[start:])


def _without_open_tag(source: str) -> str:
    """Write what begins a tag that never ends as text, as the parser would read on from each."""
    end = source.rfind(">") + 1
    return source[:end] + source[end:].replace("<", "&lt;")


def html_problems(source: str, line: int) -> Iterator[Problem]:
    """Yield what is wrong with HTML that begins on `line` of a page."""
    return (found for found in read_html(source, line) if isinstance(found, Problem))


def comment_problems(text: str, line: int) -> Iterator[Problem]:
    """Yield a problem if a comment, from `line` of a page on, hides something to be proven."""
    if holds_cells(text) or holds_roles(text):
        message = "nobody executes what stands in a comment: take it out of there"
        yield Problem(line, message, snippet=text.strip())


def _holds_values(row: Sequence[_Part]) -> bool:
    return any(part.tag == "td" for part in row)


def _found(part: _Part, line: int) -> Iterator[Found]:
    text = part.text.strip("\n")
    if part.kind == "!--":
        yield from comment_problems(text, line)
        return
    if part.kind in _PLACES:
        yield from headline(" ".join(text.split()), line, _PLACES[part.kind])
    is_in_sentence = part.kind in _SPANS and "\n" not in text
    node = None if is_in_sentence else shown_result(text)
    reason = None
    if part.kind not in _PLACES and not is_in_sentence:
        reason = unexecuted(text, "python" if part.kind.startswith("py-") else "")
    if reason or node:
        yield Problem(line, reason or by_hand(node or ""), snippet=text.strip())


class _Reader(HTMLParser):
    """Gathers comments, the outermost blocks of code, headlines and the cells of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[_Part] = []
        self.tables: list[list[list[_Part]]] = [[]]
        self._block: _Part | None = None
        self._cell: _Part | None = None
        self._since_span = "x"

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Begin what is gathered."""
        given = {name: value or "" for name, value in attrs}
        if "alt" in given:
            self._add("alt", given["alt"])
        if tag in {"table", "tr", *_CELLS}:
            self._begin_cell(tag)
        kind = "pre" if _MONOSPACE.search(given.get("style", "")) else tag
        if self._block is not None:
            self._block.depth += tag == self._block.tag and not _CODE.fullmatch(tag)
        elif _CODE.fullmatch(kind) or kind in _PLACES:
            self._block = _Part(tag=tag, kind=kind, below=self._below)
        if tag == "br":
            self.handle_data("\n")

    def handle_endtag(self, tag: str) -> None:
        """End what began with such a tag."""
        if tag in {"table", "tr", *_CELLS}:
            self._cell = None
        if self._block is not None and self._block.tag == tag:
            self._block.depth -= 1
            if self._block.depth == 0:
                self._end(self._block)

    def handle_data(self, data: str) -> None:
        """Add text to all that is open."""
        for part in filter(None, (self._block, self._cell)):
            part.text += data
        if self._block is None:
            self._since_span += data

    def handle_comment(self, data: str) -> None:
        """Note a comment."""
        self._add("!--", data)

    def close(self) -> None:
        """End what is still open."""
        super().close()
        if self._block is not None:
            self._end(self._block)

    @property
    def _below(self) -> int:
        return self.getpos()[0] - 1

    def _add(self, kind: str, text: str) -> None:
        if self._block is None:
            self.parts.append(_Part(tag="", kind=kind, below=self._below, text=text))

    def _begin_cell(self, tag: str) -> None:
        self._cell = None
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" or not self.tables[-1]:
            self.tables[-1].append([])
        if tag in _CELLS:
            self._cell = _Part(tag=tag, kind=tag, below=self._below)
            self.tables[-1][-1].append(self._cell)

    def _end(self, block: _Part) -> None:
        """Keep a block; a span of code on the line below another continues it."""
        last = self.parts[-1] if self.parts else None
        is_span = block.kind in _SPANS
        goes_on = "\n" in self._since_span and not self._since_span.strip()
        if last is not None and is_span and last.kind in _SPANS and goes_on:
            last.text += f"\n{block.text}"
        else:
            self.parts.append(block)
        self._block, self._since_span = None, ""
