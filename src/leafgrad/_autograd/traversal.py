"""Walk over the nodes of a graph, so that even a very deep graph can be freed afterwards."""

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
    """Return the name of the tensor's ``grad_fn``, None for a leaf.

    The node gets an entry in its ``metadata``: see `keep_successors`.
    """
    node = plain(tensor, "grad_fn")
    if node is None:
        return None
    keep_successors(node, next_functions(node))
    return node_name(node)


def numbered_output(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return the sequence number of the tensor's node, and which output of that node it is.

    Return None for a leaf or an invalid view. The node gets an entry in its ``metadata``: see
    `keep_successors`.
    """
    node = None if is_invalid_view(tensor) else plain(tensor, "grad_fn")
    if node is None:
        return None
    keep_successors(node, next_functions(node))
    number = sequence_nr(node)
    return None if number is None else (number, plain(tensor, "output_nr"))


def walk(roots: Iterable[Node]) -> dict[Node, Successors]:
    """Return all nodes that `roots` lead to with their successors; each node before its successors.

    Only this function and `walk_to` may visit a whole graph: they make it safe to free, see
    `_break_fall`. The result keeps the nodes alive.
    """
    roots = dict.fromkeys(roots)
    try:
        return _walked(roots)
    except BaseException:  # only a complete walk makes the graph safe to free, so repeat it
        _walked(roots)
        raise


def _walked(roots: Iterable[Node]) -> dict[Node, Successors]:
    """Return the nodes and successors for `walk`, by a depth-first search without recursion.

    A node stays on the stack below its successors, and is finished after them. A node that was
    pushed twice is finished twice, which does not change its place in the dict.
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
    """Return the nodes on all paths from `root` to a target, and the edge of the target.

    The nodes are returned with their successors, and each node comes after its successors. The edge
    is None if the graph does not lead to the target.

    Args:
        target: An edge, or a leaf tensor.
        root: The node where the search starts.
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


_LONGEST_FALL = 1_000  # nested calls of up to 300 bytes: they fit any stack (512 KiB or more)


def _break_fall(graph: Mapping[Node, Successors]) -> None:
    """Make a graph that Python has visited safe to free, however deep it is.

    PyTorch frees a graph in a loop. But a node with a Python object is freed by that object, which
    frees its successors in a nested call. A deep graph would overflow the stack. Therefore a
    `_KeptSuccessors` object is attached wherever more than `_LONGEST_FALL` nested calls could
    occur. It extends no lifetime and creates no cycle, because each node is still held by its
    predecessors only.

    Args:
        graph: The nodes with their successors; each node comes after its successors.
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
    """Store a node's successors in its ``metadata``, so that they are freed in a loop, not nested.

    See `_break_fall`.
    """
    if _KEPT not in node.metadata:
        node.metadata[_KEPT] = _KeptSuccessors(successors)


class _Waiting(threading.local):
    """The successors that this thread still has to free, and whether a loop is freeing them now."""

    def __init__(self) -> None:
        self.queue: list[Successors] = []
        self.is_emptied = False


class _KeptSuccessors:
    """Holds a node's successors while the node lives, then frees them in one loop.

    A node drops its edges before its metadata, so this object is the last to hold the successors.
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
        finally:  # later calls must work after an interrupt
            waiting.is_emptied = False
