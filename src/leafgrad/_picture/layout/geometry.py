"""What goes into a layout, and what comes out.

In: for n boxes numbered in a topological order, n `Extent`, and an `Edge` for each arrow; and a
`Band` for each group of boxes that keeps its layers to itself. Out: a `Layout` of n positions, and
for each edge the points of a polyline, in units of the picture with y growing downwards.
"""

from dataclasses import dataclass

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Extent:
    """The size of a box to place.

    Attributes:
        width: How wide it is.
        height: How high it is.
        clear: How much of each end of its lower side edges keep clear of.
    """

    width: float
    height: float
    clear: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """An edge from the bottom of one box to the top of another.

    Attributes:
        source: The number of the box that it leads from.
        target: The number of the box that it leads to, which is higher.
    """

    source: int
    target: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """Boxes that get layers of their own, so that no other box stands between them.

    Attributes:
        boxes: Their numbers. No box is in two bands, and no path leads out of one and back into it.
        above: How much room there is above them in which no edge bends.
        below: How much below them.
    """

    boxes: tuple[int, ...]
    above: float
    below: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """Where a box is.

    Attributes:
        x: Its middle, from left to right.
        top: Its upper side; y grows downwards.
        layer: Its layer, counted from the top.
    """

    x: float
    top: float
    layer: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Where everything is.

    Attributes:
        positions: Where each box is.
        paths: The points that each edge passes, from the source to the target: straight down
            where two share x, in a curve without overhang where not. One point where it ends.
        left: The least x of anything.
        right: The greatest x.
        height: The greatest y; the least is 0.
    """

    positions: tuple[Position, ...]
    paths: tuple[tuple[Point, ...], ...]
    left: float
    right: float
    height: float
