"""Layered drawings: from the sizes of boxes and the edges between them to coordinates.

The longest path is a straight trunk at x = 0. Every other path is a straight column beside it. An
arrow that passes layers runs straight down in its own lane, so that no arrow crosses a box.

The steps are: the layer of each box (`layers`), the columns of paths and lanes, called tracks
(`tracks`), the x of each track (`x_coordinates`), and the points of each arrow (`routes`). They
follow Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System
Structures" (IEEE Transactions on Systems, Man, and Cybernetics 11 (2), 1981). One step of theirs
is missing, the search for an order with few crossings: here the tracks decide the order.
"""

from collections.abc import Sequence

from leafgrad._picture.layout.geometry import Edge, Extent, Layout, Point, Position
from leafgrad._picture.layout.layers import assign_layers
from leafgrad._picture.layout.routes import Router
from leafgrad._picture.layout.tracks import tracks_of
from leafgrad._picture.layout.x_coordinates import x_coordinates

__all__ = ["Edge", "Extent", "Layout", "Point", "Position", "flip_layout", "lay_out"]


def lay_out(boxes: Sequence[Extent], edges: Sequence[Edge]) -> Layout:
    """Return the position of each box and the path of each arrow between them.

    Each edge must lead to a box with a higher number. Time and memory grow linearly with the number
    of layers that tracks cover.
    """
    layers = assign_layers(boxes, edges)
    tracks = tracks_of(boxes, edges, layers)
    xs = x_coordinates(edges, tracks)
    return Router(boxes, edges, layers, tracks, xs).layout()


def flip_layout(boxes: Sequence[Extent], layout: Layout) -> Layout:
    """Return a layout upside down: the root at the bottom, and each path reversed."""
    return layout._replace(
        positions=tuple(
            at._replace(top=layout.height - at.top - box.height)
            for at, box in zip(layout.positions, boxes, strict=True)
        ),
        paths=tuple(
            tuple((x, layout.height - y) for x, y in reversed(points)) for points in layout.paths
        ),
    )
