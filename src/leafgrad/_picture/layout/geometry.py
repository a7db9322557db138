"""The input of a layout (sizes of boxes, edges) and its output (positions, paths of arrows).

All lengths are in units of the picture; y grows downwards. Boxes are numbered in topological order.
"""

from typing import NamedTuple

Point = tuple[float, float]


class Extent(NamedTuple):
    """The width and height of a box to place."""

    width: float
    height: float


class Edge(NamedTuple):
    """An edge between two boxes by number; the target has the higher number."""

    source: int
    target: int


class Position(NamedTuple):
    """The place of a box: its centre `x`, its top edge, and its layer counted from the top."""

    x: float
    top: float
    layer: int


class Layout(NamedTuple):
    """The places of all boxes and the paths of all arrows.

    Attributes:
        positions: The place of each box.
        paths: For each edge, the points of its polyline from source to target.
        left: The least x.
        right: The greatest x.
        height: The greatest y; the least is 0.
    """

    positions: tuple[Position, ...]
    paths: tuple[tuple[Point, ...], ...]
    left: float
    right: float
    height: float
