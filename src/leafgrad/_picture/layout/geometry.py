"""What goes into a layout, and what comes out.

In: for n boxes numbered in a topological order, n `Extent`, and an `Edge` for each arrow.
Out: a `Layout` of n positions, and for each edge the points of a polyline, in units of the picture
with y growing downwards.
"""

from typing import NamedTuple

Point = tuple[float, float]


class Extent(NamedTuple):
    """The size of a box to place.

    Attributes:
        width: How wide it is.
        height: How high it is.
    """

    width: float
    height: float


class Edge(NamedTuple):
    """An edge from the bottom of one box to the top of another.

    Attributes:
        source: The number of the box that it leads from.
        target: The number of the box that it leads to, which is higher.
    """

    source: int
    target: int


class Position(NamedTuple):
    """Where a box is.

    Attributes:
        x: Its middle, from left to right.
        top: Its upper side; y grows downwards.
        layer: Its layer, counted from the top.
    """

    x: float
    top: float
    layer: int


class Layout(NamedTuple):
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
