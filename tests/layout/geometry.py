"""What a drawing must not do, whatever it shows."""

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from leafgrad._layout import Box, Drawing, Point

NEARLY = 1e-6
STEPS = 12


def rectangles(boxes: Sequence[Box], drawing: Drawing) -> list[tuple[float, float, float, float]]:
    """The left, upper, right and lower edge of each box."""
    return [
        (place.x - box.width / 2, place.top, place.x + box.width / 2, place.top + box.height)
        for box, place in zip(boxes, drawing.places, strict=True)
    ]


def curve(path: Sequence[Point]) -> Iterator[Point]:
    """Points along a path as it is drawn: straight down, or a Bézier curve with upright ends."""
    for (x, y), (u, v) in pairwise(path):
        for step in range(STEPS + 1):
            t = step / STEPS
            bent = t * t * (3 - 2 * t)
            down = 1.5 * t * (1 - t) * (1 - t) + 1.5 * t * t * (1 - t) + t * t * t
            yield x + (u - x) * bent, y + (v - y) * down


def overlaps(boxes: Sequence[Box], drawing: Drawing) -> list[tuple[int, int]]:
    """Pairs of boxes that share more than an edge."""
    found = []
    for (m, a), (n, b) in combinations(enumerate(rectangles(boxes, drawing)), 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        found += [] if apart else [(m, n)]
    return found


def collisions(boxes: Sequence[Box], drawing: Drawing) -> list[tuple[int, int]]:
    """Links that pass the inside of a box."""
    edges = rectangles(boxes, drawing)
    return [
        (number, box)
        for number, path in enumerate(drawing.paths)
        for x, y in curve(path)
        for box, (left, top, right, bottom) in enumerate(edges)
        if left + NEARLY < x < right - NEARLY and top + NEARLY < y < bottom - NEARLY
    ]
