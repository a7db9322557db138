"""Layer assignment: how far down each box stands.

Each edge leads to a box of a higher number, so that the numbers of the boxes are a topological
order. One pass up and one down give, for n boxes, two arrays of n::

    height[v] = max(height[w] + 1 for each edge v -> w), or 0
    layer[v] = max(layer[u] + 1 for each edge u -> v), or max(height) - height[v]

This is longest-path layering, in which a box that nothing leads to stands as low as it can. Where
there are bands, these stand one below the other instead.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leafgrad._graph.order import topological_order
from leafgrad._picture.layout.geometry import Band, Edge, Extent


@dataclass(frozen=True, kw_only=True, slots=True)
class Layers:
    """The layer of each box, and what it follows from.

    Attributes:
        layer: The layer of each box, counted from the top.
        height: The number of edges on the longest path on from each box.
        edges_from: The numbers of the edges that leave each box, in their order.
        edges_to: The numbers of the edges that arrive at each box.
        count: How many layers there are.
        above: How much room there is above the boxes of a layer that begins a band.
        below: How much below those of one that ends a band.
    """

    layer: list[int]
    height: list[int]
    edges_from: list[list[int]]
    edges_to: list[list[int]]
    count: int
    above: dict[int, float]
    below: dict[int, float]


def assign_layers(boxes: Sequence[Extent], edges: Sequence[Edge], bands: Sequence[Band]) -> Layers:
    """Put each box directly under the lowest box that leads to it, roots as low as possible."""
    edges_from: list[list[int]] = [[] for _ in boxes]
    edges_to: list[list[int]] = [[] for _ in boxes]
    for number, edge in enumerate(edges):
        edges_from[edge.source].append(number)
        edges_to[edge.target].append(number)
    # From the bottom up: the longest path on from each box.
    height = [0] * len(boxes)
    for box in reversed(range(len(boxes))):
        for number in edges_to[box]:
            source = edges[number].source
            height[source] = max(height[source], height[box] + 1)
    # From the top down: a root right above its nearest successor, others below their sources.
    deepest = max(height)
    layer: list[int] = []
    for box, arriving in enumerate(edges_to):
        above = [layer[edges[number].source] for number in arriving]
        layer.append(max(above) + 1 if above else deepest - height[box])
    if bands:
        layer = _in_bands(edges, edges_to, bands)
    return Layers(
        layer=layer,
        height=height,
        edges_from=edges_from,
        edges_to=edges_to,
        count=max(layer) + 1,
        above={min(layer[box] for box in band.boxes): band.above for band in bands},
        below={max(layer[box] for box in band.boxes): band.below for band in bands},
    )


def _in_bands(
    edges: Sequence[Edge], edges_to: Sequence[Sequence[int]], bands: Sequence[Band]
) -> list[int]:
    """Return layers in which each band has layers to itself, below everything before it."""
    layer = [0] * len(edges_to)
    lowest = 0  # the first layer below everything so far
    taken: set[int] = set()  # the layers of bands
    for boxes, is_band in _in_order(len(edges_to), edges, bands):
        # A box goes below its sources, and skips the layers of bands.
        for box in boxes:
            above = [layer[edges[number].source] + 1 for number in edges_to[box]]
            layer[box] = max([lowest if is_band else 0, *above])
            while layer[box] in taken:
                layer[box] += 1
        first, lowest = lowest, max(lowest, *(layer[box] + 1 for box in boxes))
        if is_band:
            taken.update(range(first, lowest))
    return layer


def _in_order(
    count: int, edges: Sequence[Edge], bands: Sequence[Band]
) -> Iterator[tuple[Sequence[int], bool]]:
    """Yield the boxes of each band together and other boxes alone, in topological order."""
    banded = {box for band in bands for box in band.boxes}
    items = [*(sorted(band.boxes) for band in bands)]
    items += [[box] for box in range(count) if box not in banded]
    place_of = {box: place for place, item in enumerate(items) for box in item}
    successors: list[list[int]] = [[] for _ in items]
    for edge in edges:
        source, target = place_of[edge.source], place_of[edge.target]
        if source != target:
            successors[source].append(target)
    order = topological_order(successors, [item[0] for item in items])
    return ((items[place], place < len(bands)) for place in order)
