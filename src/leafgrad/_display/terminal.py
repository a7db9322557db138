"""A terminal: how wide it is, and how many of its columns a text takes."""

import os
import sys
import unicodedata

WIDTH = 80
LEAST_WIDTH = 60
GAP = "..."


def terminal_width() -> int:
    """Return the width of the terminal that output goes to, 80 where it goes elsewhere."""
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (AttributeError, OSError, ValueError):  # no output, no file behind it, no terminal
        return WIDTH
    return max(columns or WIDTH, LEAST_WIDTH)


def checked_width(width: object) -> int:
    """Return a width that was asked for, that of the terminal for None."""
    if width is None:
        return terminal_width()
    if not isinstance(width, int) or isinstance(width, bool):
        raise TypeError(
            f"width must be an int, not {type(width).__name__}; None is for that of the terminal"
        )
    if width < LEAST_WIDTH:
        raise ValueError(
            f"width must be {LEAST_WIDTH} or more, not {width}; a line has no room for less"
        )
    return width


def cells(text: str) -> int:
    """Return how many columns a text takes: two for a wide letter, none for a mark above one."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of_one, text))


def _cells_of_one(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def elided(text: str, width: int) -> str:
    """Leave out the middle of a text that is too long; its end tells more than its start."""
    if cells(text) <= width:
        return text
    head = (width - len(GAP)) // 3
    start, end = text[:head], text[head + len(GAP) - width :]
    while cells(start) > head:
        start = start[:-1]
    while cells(end) > width - len(GAP) - head:
        end = end[1:]
    return f"{start}{GAP}{end}"
