"""Format expected and actual text for a report. Long texts start at the first difference."""

from collections.abc import Sequence

_LINES = 8
_WIDTH = 160
_BEFORE = 40
"""How many characters of a long line are shown before the first difference."""


def difference(expected: str, actual: str) -> str:
    """Return lines that show `expected` and `actual`. Long texts start at the first difference."""
    texts = expected.rstrip().split("\n"), actual.rstrip().split("\n")
    first = _first_difference(*texts)
    skipped = first if max(map(len, texts)) > _LINES else 0
    column = _first_difference(*(text[first] if first < len(text) else "" for text in texts))
    place = f" (from line {skipped + 1} on)" if skipped else ""
    shown = [_cut(text[skipped:], column) for text in texts]
    return f"    expected{place}:{shown[0]}\n    got{place}:{shown[1]}"


def _first_difference(first: Sequence[str], second: Sequence[str]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _cut(lines: list[str], column: int) -> str:
    """Return the lines as text, at most `_LINES` of them. Long lines are cut around `column`."""
    start = max(column - _BEFORE, 0)
    kept = [
        line if len(line) <= _WIDTH else f"{'...' * bool(start)}{line[start : start + _WIDTH]}..."
        for line in lines[:_LINES]
    ]
    kept += [f"... ({len(lines) - _LINES} more lines)"] * (len(lines) > _LINES)
    return f" {kept[0]}" if len(kept) == 1 else "".join(f"\n        {line}" for line in kept)
