"""Layered drawings: the extents of boxes and the edges between them in, coordinates out.

The longest path is a straight trunk at x = 0. Every other path is a straight column beside it, and
an edge that passes layers by runs straight down in a lane of its own, so that no edge meets a box.

The steps are: the layer of each box (`layers`), the paths and lanes that share an x (`tracks`),
that x (`x_coordinates`), and the points that each edge passes (`routes`). They are those of
Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures"
(IEEE Transactions on Systems, Man, and Cybernetics 11 (2), 1981), but for the one that gives their
drawings few crossings: here the order within a layer follows from the tracks.
"""

from collections.abc import Sequence

from leafgrad._picture.layout.geometry import Edge, Extent, Layout, Point, Position
from leafgrad._picture.layout.layers import assign_layers
from leafgrad._picture.layout.routes import Router
from leafgrad._picture.layout.tracks import tracks_of
from leafgrad._picture.layout.x_coordinates import x_coordinates

__all__ = ["Edge", "Extent", "Layout", "Point", "Position", "flip_layout", "lay_out"]


def lay_out(boxes: Sequence[Extent], edges: Sequence[Edge]) -> Layout:
    """Place boxes and route edges; each edge must lead to a box of a higher number.

    Time and memory grow with the layers that the tracks cover, which is linear where what is made
    is used soon.
    """
    layers = assign_layers(boxes, edges)
    tracks = tracks_of(boxes, edges, layers)
    xs = x_coordinates(edges, tracks)
    return Router(boxes, edges, layers, tracks, xs).layout()


def flip_layout(boxes: Sequence[Extent], layout: Layout) -> Layout:
    """Turn a layout upside down: each y becomes ``height - y``, and each path is reversed."""
    return layout._replace(
        positions=tuple(
            at._replace(top=layout.height - at.top - box.height)
            for at, box in zip(layout.positions, boxes, strict=True)
        ),
        paths=tuple(
            tuple((x, layout.height - y) for x, y in reversed(points)) for points in layout.paths
        ),
    )
