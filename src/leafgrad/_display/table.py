"""Columns of text, aligned."""

from collections.abc import Sequence

WIDTH = 80


def clipped(line: str) -> str:
    """Cut a line that is too long for a terminal of 80 columns, and show that it was."""
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."


def table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """Align cells in columns, those numbered in `right` to the right; empty columns vanish.

    The first row is the heading, which alone does not keep a column.
    """
    columns = [
        [cell.rjust(width) if number in right else cell.ljust(width) for cell in column]
        for number, column in enumerate(zip(*rows, strict=True))
        if any(column[1:])
        for width in [max(map(len, column))]
    ]
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
