"""Topological orders of nodes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from math import inf

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedNode


def topological_order(
    successors: Sequence[Sequence[int]], priorities: Sequence[float]
) -> Iterator[int]:
    """Yield every index before those of its successors, by Kahn's algorithm.

    Of the places that may come next, that of the lowest priority does, and the first of equals.
    """
    waiting = Counter(chain.from_iterable(successors))
    ready = [(priorities[place], place) for place in range(len(successors)) if not waiting[place]]
    heapify(ready)
    while ready:
        _, place = heappop(ready)
        yield place
        for successor in successors[place]:
            waiting[successor] -= 1
            if not waiting[successor]:
                heappush(ready, (priorities[successor], successor))


def in_backward_order(graph: Graph) -> Iterator[TracedNode]:
    """Yield the nodes as PyTorch's engine takes them, on one device and in one thread.

    Of the nodes whose gradients are complete, leaves come first, then the one that was made last.
    """
    successors = [
        [edge.target for edge in node.edges if edge.target is not None] for node in graph.nodes
    ]
    priorities = [-inf if node.created is None else -node.created for node in graph.nodes]
    return (graph.nodes[place] for place in topological_order(successors, priorities))
