"""Tables of text with aligned columns."""

from collections.abc import Sequence

from leafgrad._display.text_width import cells, elide

BETWEEN = "  "
STEPS = (32, 24, 16, 12, 7)
"""The widths to which columns are cut, in turn, until a table fits."""


def table(
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
    width: int | None = None,
    least: int = STEPS[-1],
) -> list[str]:
    """Return the lines of a table; the first row is its heading, and empty columns are left out.

    Args:
        rows: The cells of each row.
        right: The columns to align to the right; these are never cut.
        whole: Other columns that are never cut.
        width: The maximum width of the table. To fit, cells lose their middle, in the last columns
            first.
        least: The minimum width of a column that is cut.
    """
    columns = {
        number: column for number, column in enumerate(zip(*rows, strict=True)) if any(column[1:])
    }
    widths = {number: max(map(cells, column)) for number, column in columns.items()}
    if width is not None:
        shrinking = [number for number in reversed(columns) if number not in (*right, *whole)]
        _fit(widths, shrinking, width - len(BETWEEN) * (len(widths) - 1), least)
    aligned = [
        [_align(cell, widths[number], is_right=number in right) for cell in column]
        for number, column in columns.items()
    ]
    return [BETWEEN.join(row).rstrip() for row in zip(*aligned, strict=True)]


def _fit(widths: dict[int, int], shrinking: Sequence[int], room: int, least: int) -> None:
    """Narrow the columns in `shrinking`, one after the other, until all widths fit into `room`.

    Each round cuts them to the next smaller width in `STEPS`, but never below `least`.
    """
    for step in STEPS:
        for number in shrinking:
            excess = sum(widths.values()) - room
            if excess > 0:
                narrowest = max(step, least)
                widths[number] = min(widths[number], max(narrowest, widths[number] - excess))


def _align(cell: str, width: int, *, is_right: bool) -> str:
    """Return a cell padded with spaces, or cut, to the width of its column."""
    shown = elide(cell, width)
    padding = " " * (width - cells(shown))
    return padding + shown if is_right else shown + padding
