"""Overlaps and collisions in a drawing."""

from bisect import bisect_left as bisect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

NEARLY = 1e-6
STEPS = 12


Point = tuple[float, float]
Sides = tuple[float, float, float, float]
"""The left, upper, right and lower side of a box."""


def rectangles(boxes: Sequence[Any], drawing: Any) -> list[Sides]:
    return [
        (place.x - box.width / 2, place.top, place.x + box.width / 2, place.top + box.height)
        for box, place in zip(boxes, drawing.positions, strict=True)
    ]


def curve(path: Sequence[Point]) -> Iterator[Point]:
    """Yield points along a path: straight lines, or Bézier curves with vertical ends."""
    for (x, y), (u, v) in pairwise(path):
        steps = STEPS if x != u else int((v - y) / 10) + 1
        for step in range(steps + 1):
            t = step / steps
            bent = t * t * (3 - 2 * t)
            down = 1.5 * t * (1 - t) * (1 - t) + 1.5 * t * t * (1 - t) + t * t * t
            yield x + (u - x) * bent, y + (v - y) * down


def overlaps(boxes: Sequence[Sides]) -> list[tuple[int, int]]:
    """Return the pairs of boxes that overlap."""
    by_top = sorted(enumerate(boxes), key=lambda entry: entry[1][1])
    found = []
    for place, (m, a) in enumerate(by_top):
        for n, b in by_top[place + 1 :]:
            if b[1] >= a[3]:
                break
            found += [] if a[2] <= b[0] or b[2] <= a[0] else [(m, n)]
    return found


def collisions(boxes: Sequence[Sides], paths: Sequence[Sequence[Point]]) -> list[tuple[int, int]]:
    """Return a pair for each place where an arrow crosses a box: the numbers of both.

    `paths` has the points of each arrow.
    """
    edges = sorted(boxes, key=lambda edge: edge[1])
    tops = [edge[1] for edge in edges]
    tallest = max(bottom - top for _, top, _, bottom in boxes)
    found = []
    for number, path in enumerate(paths):
        for x, y in curve(path):
            for box in range(bisect(tops, y - tallest), bisect(tops, y - NEARLY)):
                left, _, right, bottom = edges[box]
                if left + NEARLY < x < right - NEARLY and y < bottom - NEARLY:
                    found.append((number, box))
    return found
