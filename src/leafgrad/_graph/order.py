"""The order in which a backward goes through a traced graph."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedNode


def in_backward_order(trace: Graph) -> Iterator[TracedNode]:
    """Yield the nodes as PyTorch's engine takes them, on one device and in one thread.

    Of the nodes whose gradients are complete, leaves come first, then the one that was made last.
    """
    waiting = [0] * len(trace.nodes)
    for edge in trace.edges:
        if edge.target is not None:
            waiting[edge.target] += 1
    ready = [_priority(node) for node in trace.nodes if not waiting[node.index]]
    heapify(ready)
    while ready:
        node = trace.nodes[heappop(ready)[1]]
        yield node
        for edge in node.edges:
            if edge.target is not None:
                waiting[edge.target] -= 1
                if not waiting[edge.target]:
                    heappush(ready, _priority(trace.nodes[edge.target]))


def _priority(node: TracedNode) -> tuple[float, int]:
    return float("-inf") if node.created is None else -node.created, node.index
