"""Frames around the boxes of a module."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from leafgrad._display.markup import Markup, element, text
from leafgrad._display.text_width import shorten, width
from leafgrad._picture.box import View
from leafgrad._picture.layout import Band, Edge, Extent, Layout, Point
from leafgrad._picture.picture_style import PictureStyle
from leafgrad._picture.svg.style import FACT_SIZE

MOST_LETTERS = 44
ABOVE = 17.0
"""The room over the boxes, in which the title stands."""

AROUND = 6.0
INSIDE = 7.0
BASELINE = 12.0
CORNER = 8.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnFrame:
    """The sides of a frame, its title, and the x at which the title starts."""

    title: str
    start: float
    left: float
    right: float
    top: float
    bottom: float

    def draw(self) -> Markup:
        """Draw the frame and its title."""
        wide, high = self.right - self.left, self.bottom - self.top
        at = {"x": self.left, "y": self.top, "width": wide, "height": high, "rx": CORNER}
        return element(
            "g",
            element("rect", class_="frame", **at),
            element("text", text(self.title), class_="start", x=self.start, y=self.top + BASELINE),
        )


def bands(view: View, style: PictureStyle) -> list[Band]:
    """Return the bands that the layout reserves for frames and their titles."""
    above, below = (AROUND, ABOVE) if style.is_forward else (ABOVE, AROUND)
    return [Band(boxes=frame.boxes, above=above, below=below) for frame in view.frames]


def frames(
    view: View,
    boxes: Sequence[Extent],
    layout: Layout,
    edges: Sequence[Edge],
    paths: Sequence[Sequence[Point]],
) -> Iterator[DrawnFrame]:
    """Yield the frames, each around its boxes and the arrows between, and as wide as its title.

    The title stands between the arrows from above.
    """
    for frame in view.frames:
        inside = [(layout.positions[place], boxes[place]) for place in frame.boxes]
        lanes = [*_within({*frame.boxes}, edges, paths)]
        left = min([at.x - box.width / 2 for at, box in inside] + lanes) - AROUND
        right = max([at.x + box.width / 2 for at, box in inside] + lanes) + AROUND
        top = min(at.top for at, _ in inside) - ABOVE
        title = shorten(frame.title, MOST_LETTERS)
        room = width(title, FACT_SIZE) + 2 * INSIDE
        start = _start(left, right, room, sorted(_crossing(paths, top + ABOVE / 2)))
        yield DrawnFrame(
            title=title,
            start=start + INSIDE,
            left=min(left, start),
            right=max(right, start + room),
            top=top,
            bottom=max(at.top + box.height for at, box in inside) + AROUND,
        )


def _within(
    places: Container[int], edges: Sequence[Edge], paths: Sequence[Sequence[Point]]
) -> Iterator[float]:
    """Yield the x of all points of arrows between these boxes."""
    for edge, points in zip(edges, paths, strict=True):
        if edge.source in places and edge.target in places:
            yield from (x for x, _ in points)


def _start(left: float, right: float, room: float, arrows: Sequence[float]) -> float:
    """Return the x of a title: between two arrows, where the frame grows least for it."""
    gaps = pairwise([-inf, *arrows, inf])
    starts = [min(max(left, a), b - room) for a, b in gaps if b - a >= room]
    return min(starts, key=lambda start: max(left - start, 0) + max(start + room - right, 0))


def _crossing(paths: Sequence[Sequence[Point]], y: float) -> Iterator[float]:
    """Yield the x of the arrows at a height at which none bends."""
    for points in paths:
        yield from (x for (x, above), (_, below) in pairwise(points) if above < y < below)
