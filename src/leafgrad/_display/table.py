"""Columns of text, aligned."""

from collections.abc import Sequence

from leafgrad._display.text_width import cells, elide

BETWEEN = "  "
STEPS = (32, 24, 16, 12, 7)
"""Widths that columns are cut to, one after the other, until a table fits."""


def table(
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
    width: int | None = None,
    least: int = STEPS[-1],
) -> list[str]:
    """Align cells in columns, those in `right` to the right; empty columns vanish.

    The first row is the heading, which alone does not keep a column. Where the table is wider than
    `width`, cells lose their middle, those of the last column first, but for numbers to the right
    and for columns that are to stay `whole`. No column gets narrower than `least` by that.
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
    """Narrow the columns in turn until they fit, a step at a time."""
    for step in STEPS:
        for number in shrinking:
            excess = sum(widths.values()) - room
            if excess > 0:
                narrowest = max(step, least)
                widths[number] = min(widths[number], max(narrowest, widths[number] - excess))


def _align(cell: str, width: int, *, is_right: bool) -> str:
    shown = elide(cell, width)
    padding = " " * (width - cells(shown))
    return padding + shown if is_right else shown + padding
