"""The width of text: in columns of a terminal, and in pixels of a picture."""

import re
import textwrap
import unicodedata

from leafgrad._messages import WIDE

WIDTH = 80
GAP = "..."


def cells(text: str) -> int:
    """Return how many terminal columns a text takes: two for a wide letter, none for an accent."""
    if text.isascii():
        return len(text)
    spacing = (one for one in text if not unicodedata.combining(one))
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in spacing)


_WORD = re.compile(
    f" *[\uff08\u201c]*(?:[\u4e00-\u9fff]|[^ {WIDE[1:]}+)?(?:(?![\uff08\u4e00-\u9fff]){WIDE})*"
)
"""A word or a Chinese character, with the punctuation that must stay on its line."""


def wrap(text: str, width: int, indent: str = "", **options: bool) -> list[str]:
    """Return a text as lines of at most `width` columns, broken between words.

    Args:
        text: The text, in English or Chinese.
        width: The greatest number of columns.
        indent: The text before each line but the first.
        options: Options of ``textwrap.wrap``, for a text without Chinese.
    """
    if cells(text) == len(text):
        return textwrap.wrap(text, width, subsequent_indent=indent, **options)  # type: ignore[arg-type]
    lines = [""]
    for word in _WORD.findall(text.replace("\n", " ")):
        if lines[-1] and cells(lines[-1] + word) > width:
            lines.append(indent)
        lines[-1] += word.lstrip() if lines[-1] == indent else word
    return lines


_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d.]*(?:e[-+]?\d+)?")


def elide(text: str, width: int) -> str:
    """Shorten a text to a width: replace its middle by "...", and keep more of its end.

    A number that the cut would split is left out: its rest would look like another number.
    """
    if cells(text) <= width:
        return text
    head = (width - len(GAP)) // 3
    start, end = text[:head], text[head + len(GAP) - width :]
    while cells(start) > head:
        start = start[:-1]
    while cells(end) > width - len(GAP) - head:
        end = end[1:]
    cut = len(text) - len(end)
    for number in _NUMBER.finditer(text):
        if number.start() < len(start) < number.end():
            start = text[: number.start()]
        if number.start() < cut < number.end():
            end = text[number.end() :]
    return f"{start}{GAP}{end}"


OF_LATIN = 0.63
"""The width of a Latin letter as a share of the font size; monospaced fonts have 0.55 to 0.62."""


def width(text: str, size: float) -> float:
    """Return an upper estimate of the width of a text in pixels, in a monospaced font.

    `size` is the font size in pixels.
    """
    return size * OF_LATIN * cells(text)
