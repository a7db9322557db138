"""A walk over the nodes of a graph that leaves the graph safe to free, however deep it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.autograd.graph import Node

from leafgrad._autograd._node import Successors, next_functions, node_name
from leafgrad._autograd._tensor import plain


def grad_fn_name(tensor: torch.Tensor) -> str | None:
    """Name the node that recorded the tensor, or give None for a leaf.

    Looking at a node leaves a trace in it: see `keep_successors`.
    """
    node = plain(tensor, "grad_fn")
    if node is None:
        return None
    keep_successors(node, next_functions(node))
    return node_name(node)


def walk(roots: Iterable[Node]) -> dict[Node, Successors]:
    """Map every node that `roots` lead to onto its successors, predecessors first.

    Whoever looks at a whole graph does it through here, so that the graph can be freed later on:
    see `_break_fall`. The mapping keeps the nodes alive; drop it when the facts are read.
    """
    roots = [*roots]
    graph: dict[Node, Successors] = {}

    def look(node: Node) -> Successors:
        return graph.setdefault(node, next_functions(node))

    try:
        finished = list(_depth_first(roots, look))
        _break_fall(finished, graph)
    except BaseException:  # an interrupted walk leaves a graph that is to be freed as well
        _break_fall(_depth_first(roots, lambda node: graph.get(node, ())), graph)
        raise
    return {node: graph[node] for node in reversed(finished)}


def _depth_first(roots: Iterable[Node], successors: Callable[[Node], Successors]) -> Iterator[Node]:
    """Yield each node after all its successors, which are entered from the last to the first."""
    seen: set[Node] = set()
    path: list[tuple[Node | None, Iterator[tuple[Node | None, int]]]]
    path = [(None, reversed([(root, 0) for root in roots]))]
    while path:
        node, ahead = path[-1]
        for successor, _ in ahead:
            if successor is not None and successor not in seen:
                seen.add(successor)
                path.append((successor, reversed(successors(successor))))
                break
        else:
            path.pop()
            if node is not None:
                yield node


_LONGEST_FALL = 500


def _break_fall(finished: Iterable[Node], graph: Mapping[Node, Successors]) -> None:
    """Make a graph that Python has looked at safe to free, however deep it is.

    PyTorch frees a graph in a loop, but a node that Python has seen is freed by its Python object,
    and its successors from within that call, and so on down until the stack overflows. So
    wherever more than `_LONGEST_FALL` such calls could pile up, `_KeptSuccessors` breaks the fall.
    As every node is still held by its predecessors alone, nothing lives longer and no cycle
    arises, and a graph that is not that deep stays as it is.
    """
    fall: dict[Node, int] = {}
    for node in finished:
        successors = graph.get(node, ())
        falls = (fall[successor] for successor, _ in successors if successor is not None)
        longest = max(falls, default=0)
        if longest == _LONGEST_FALL:
            keep_successors(node, successors)
            longest = 0
        fall[node] = longest + 1


_KEPT = "leafgrad: successors"


def keep_successors(node: Any, successors: Successors) -> None:
    """Let the node hold its successors once more, so that they are freed after it, not within."""
    if _KEPT not in node.metadata:
        node.metadata[_KEPT] = _KeptSuccessors(successors)


class _Waiting(threading.local):
    """What is to be freed in this thread, and whether a loop is at it."""

    def __init__(self) -> None:
        self.queue: list[Successors] = []
        self.is_emptied = False


class _KeptSuccessors:
    """Holds a node's successors while it lives; then frees them in one loop, not each in the next.

    A node drops its edges before its metadata, so this is the last to hold them.
    """

    waiting = _Waiting()

    def __init__(self, successors: Successors) -> None:
        self.successors = successors

    def __del__(self) -> None:
        waiting = self.waiting
        waiting.queue.append(self.successors)
        del self.successors
        if waiting.is_emptied:
            return
        waiting.is_emptied = True
        try:
            while waiting.queue:
                waiting.queue.pop()
        finally:  # an interrupt must not leave the queue shut
            waiting.is_emptied = False
