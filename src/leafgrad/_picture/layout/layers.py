"""Layer assignment: in which row of the drawing each box is.

Each edge leads to a box with a higher number, so the numbers are a topological order. For n boxes,
one pass up and one pass down compute two arrays of length n::

    height[v] = max(height[w] + 1 for each edge v -> w), or 0
    layer[v] = max(layer[u] + 1 for each edge u -> v), or max(height) - height[v]

This is longest-path layering, except that a box without incoming edges is as low as possible.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from leafgrad._picture.layout.geometry import Edge, Extent


@dataclass(frozen=True, kw_only=True, slots=True)
class Layers:
    """The layer of each box, with the edges at each box.

    Attributes:
        layer: The layer of each box, counted from the top.
        height: The number of edges on the longest path that starts at each box.
        edges_from: The numbers of the edges that leave each box, in their order.
        edges_to: The numbers of the edges that arrive at each box.
        count: The number of layers.
    """

    layer: list[int]
    height: list[int]
    edges_from: list[list[int]]
    edges_to: list[list[int]]
    count: int


def assign_layers(boxes: Sequence[Extent], edges: Sequence[Edge]) -> Layers:
    """Return the layer of each box: directly below the lowest box with an edge to it.

    A box without incoming edges is placed as low as possible.
    """
    edges_from: list[list[int]] = [[] for _ in boxes]
    edges_to: list[list[int]] = [[] for _ in boxes]
    for number, edge in enumerate(edges):
        edges_from[edge.source].append(number)
        edges_to[edge.target].append(number)
    height = [0] * len(boxes)
    for box in reversed(range(len(boxes))):
        for number in edges_to[box]:
            source = edges[number].source
            height[source] = max(height[source], height[box] + 1)
    deepest = max(height)
    layer: list[int] = []
    for box, arriving in enumerate(edges_to):
        above = [layer[edges[number].source] for number in arriving]
        layer.append(max(above) + 1 if above else deepest - height[box])
    return Layers(
        layer=layer,
        height=height,
        edges_from=edges_from,
        edges_to=edges_to,
        count=max(layer) + 1,
    )
