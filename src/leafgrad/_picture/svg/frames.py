"""Frames around the boxes of a module, and brackets beside repeated boxes."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from leafgrad._display.markup import Markup, coordinate, element, path, text
from leafgrad._display.text_width import shorten, width
from leafgrad._messages import message
from leafgrad._picture.box import View
from leafgrad._picture.layout import Band, Edge, Extent, Layout, Point
from leafgrad._picture.picture_style import PictureStyle
from leafgrad._picture.svg.boxes import MeasuredBox
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


GAP = 14.0
TICK = 6.0
APART = 28.0
NEAR_THE_TOP = 160.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Brackets:
    """The brackets to the left of a picture, and their width."""

    markup: Markup
    width: float


def brackets(view: View, measured: Sequence[MeasuredBox], layout: Layout) -> Brackets:
    """Draw a bracket beside each stretch that repeats in a row, the shortest nearest."""
    spans = {
        one.box.node.index: (position.top, position.top + one.extent().height)
        for one, position in zip(measured, layout.positions, strict=True)
    }
    rows = [r for r in view.repeats if r.in_a_row and len(r.members) > 1]
    rows.sort(key=lambda repeat: len(repeat.members))
    markup: list[Markup] = []
    for place, repeat in enumerate(rows):
        kept = [spans[member] for member in repeat.members if member in spans]
        top, bottom = min(top for top, _ in kept), max(bottom for _, bottom in kept)
        x = layout.left - GAP - place * APART
        markup += _bracket(message("box.in-a-row", count=repeat.copies), x, top, bottom)
    return Brackets(
        markup=element("g", *markup, class_="brackets"),
        width=GAP + APART * len(rows) if rows else 0.0,
    )


def _bracket(words: str, x: float, top: float, bottom: float) -> tuple[Markup, Markup]:
    line = path((x, top), f"h{-TICK:g}", f"V{coordinate(bottom)}", f"h{TICK:g}")
    seen = min((top + bottom) / 2, top + NEAR_THE_TOP)  # its middle may be screens away
    middle, beside = coordinate(seen), coordinate(x - TICK - 5)
    turned = f"translate({beside} {middle}) rotate(-90)"
    return (
        element("path", class_="stub", d=line),
        element("text", text(words), class_="name", transform=turned),
    )
