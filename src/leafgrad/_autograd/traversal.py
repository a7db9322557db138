"""A walk over the nodes of a graph that leaves the graph safe to free, however deep it is."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.autograd.graph import Node

from leafgrad._autograd.node import (
    ACCUMULATE_GRAD,
    Successors,
    next_functions,
    node_name,
    sequence_nr,
)
from leafgrad._autograd.tensor import is_invalid_view, plain

Edge = tuple[Node, int]
LiveGraph = Mapping[Node, Successors]


def grad_fn_name(tensor: torch.Tensor) -> str | None:
    """Return the name of the node that recorded the tensor, None for a leaf.

    Looking at a node leaves a trace in it: see `keep_successors`.
    """
    node = plain(tensor, "grad_fn")
    if node is None:
        return None
    keep_successors(node, next_functions(node))
    return node_name(node)


def numbered_output(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return which output of the node with which number the tensor is, None for one that is none.

    Looking at a node leaves a trace in it: see `keep_successors`.
    """
    node = None if is_invalid_view(tensor) else plain(tensor, "grad_fn")
    if node is None:
        return None
    keep_successors(node, next_functions(node))
    number = sequence_nr(node)
    return None if number is None else (number, plain(tensor, "output_nr"))


def walk(roots: Iterable[Node]) -> dict[Node, Successors]:
    """Map every node that `roots` lead to onto its successors, predecessors first.

    Whoever looks at a whole graph does it through here or `walk_to`, so that the graph can be freed
    later on: see `_break_fall`. The mapping keeps the nodes alive; drop it when the facts are read.
    """
    roots = dict.fromkeys(roots)
    try:
        return _walked(roots)
    except BaseException:  # an interrupted walk leaves a graph that is to be freed as well
        _walked(roots)
        raise


def _walked(roots: Iterable[Node]) -> dict[Node, Successors]:
    """Enter each node once, and finish it after its successors.

    A node waits on the stack to be entered, and below its successors to be finished. Where it
    waited more than once it is finished again, which changes nothing: a key of a dict keeps its
    place.
    """
    entered: dict[Any, Successors] = {}
    finished: dict[Any, Successors] = {}
    ahead: list[Any] = [*roots]
    while ahead:
        node = ahead.pop()
        if node in entered:
            finished[node] = entered[node]
            continue
        entered[node] = successors = node.next_functions
        ahead.append(node)
        for successor, _ in successors:
            if successor is not None:
                ahead.append(successor)
    _break_fall(finished)
    return dict(reversed(finished.items()))


def walk_to(target: Edge | torch.Tensor, root: Node) -> tuple[dict[Node, Successors], Edge | None]:
    """Map each node on a path from `root` to an edge or a leaf onto its successors, these first.

    Returns the edge as well, None for a leaf tensor that the graph does not lead to.

    Each node is entered, and finished after its successors: it leads on where one of them does.
    """
    edge: Any = target if isinstance(target, tuple) else None
    seen: dict[Any, Successors] = {}
    leading: dict[Any, Successors] = {}
    ahead: list[Any] = [root]
    try:
        while ahead:
            node = ahead[-1]
            if node not in seen:
                seen[node] = node.next_functions
                for successor in seen[node]:
                    s: Any = successor[0]
                    if s.__class__ is ACCUMULATE_GRAD:
                        if s.variable is target:
                            edge = successor
                    elif s is not None and s not in seen:
                        ahead.append(s)
                if ahead[-1] is not node:
                    continue
            ahead.pop()
            if any(after[0] in leading or after == edge for after in seen[node]):
                leading[node] = seen[node]
    finally:
        if len(seen) > _LONGEST_FALL:
            walk([root])
    return leading, edge


_LONGEST_FALL = 1_000  # steps of up to 300 bytes, on a stack that has 512 KiB or more


def _break_fall(graph: Mapping[Node, Successors]) -> None:
    """Make a graph that Python has looked at safe to free, however deep it is.

    PyTorch frees a graph in a loop, but a node that Python has seen is freed by its Python object,
    and its successors from within that call, and so on down until the stack overflows. So
    wherever more than `_LONGEST_FALL` such calls could pile up, `_KeptSuccessors` breaks the fall.
    As every node is still held by its predecessors alone, nothing lives longer and no cycle
    arises, and a graph that is not that deep stays as it is.

    Each node of the graph comes after its successors.
    """
    if len(graph) <= _LONGEST_FALL:
        return
    falls: dict[Node | None, int] = {None: 0}
    for node, successors in graph.items():
        longest = 0
        for successor, _ in successors:
            longest = max(longest, falls[successor])
        if longest == _LONGEST_FALL:
            keep_successors(node, successors)
            longest = 0
        falls[node] = longest + 1


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
