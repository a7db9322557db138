"""A walk over the nodes of a graph that leaves the graph safe to free, however deep it is."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Wiring:
    """Who leads to whom in a graph, in numbers that outlive it.

    A number is a place in the order in which the nodes were found.

    Attributes:
        order: The numbers of the nodes, each one before those of its successors.
        starts: Where the edges of each node start, and last of all where they end.
        targets: Where each edge leads to, node by node; None where an input needed no gradient.
        input_nrs: Which output of that node each edge leads to.
    """

    order: list[int]
    starts: list[int]
    targets: list[int | None]
    input_nrs: list[int]

    def edges(self) -> Iterator[list[tuple[int | None, int]]]:
        """Yield the edges of each node, both in order: a place in that order, and an input_nr."""
        places: dict[int | None, int] = {number: place for place, number in enumerate(self.order)}
        for number in self.order:
            edges = slice(self.starts[number], self.starts[number + 1])
            targets = map(places.get, self.targets[edges])
            yield [*zip(targets, self.input_nrs[edges], strict=True)]


def walk(roots: Iterable[Node]) -> dict[Node, Successors]:
    """Map every node that `roots` lead to onto its successors, predecessors first.

    Whoever looks at a whole graph does it through here, `survey` or `walk_to`, so that the graph
    can be freed later on: see `_break_fall`. The mapping keeps the nodes alive; drop it when the
    facts are read.
    """
    return {node: next_functions(node) for node in survey(roots)[0]}


def survey(roots: Iterable[Node]) -> tuple[list[Node], Wiring]:
    """List every node that `roots` lead to, predecessors first, and tell who leads to whom.

    This is to `walk` what a column is to a row: it makes a few lists, however many nodes there are.
    """
    roots = [*roots]
    try:
        return _surveyed(roots)
    except BaseException:  # an interrupted walk leaves a graph that is to be freed as well
        _surveyed(roots)
        raise


def _surveyed(roots: list[Node]) -> tuple[list[Node], Wiring]:
    numbers, finished, starts, ends = _depth_first(roots)
    nodes = [*numbers]
    targets = [*map(numbers.get, ends[0])]
    order = finished[::-1]
    wiring = Wiring(order=order, starts=starts, targets=targets, input_nrs=ends[1])
    _break_fall(nodes, wiring)
    return [*map(nodes.__getitem__, order)], wiring


Ends = tuple[list[Node | None], list[int]]


def _depth_first(roots: list[Node]) -> tuple[dict[Any, int], list[int], list[int], Ends]:
    """Number the nodes as they are found, finish each after its successors, and list the edges.

    What waits on the stack is a node to be entered or, as its number, a node to be finished.
    """
    numbers: dict[Any, int] = {}
    finished, starts, successors, input_nrs = [], [0], [], []
    ahead: list[Any] = [*roots]
    while ahead:
        node = ahead.pop()
        if node.__class__ is int:
            finished.append(node)
        elif node not in numbers:
            number = numbers[node] = len(numbers)
            edges = node.next_functions
            (ahead if edges else finished).append(number)
            for successor, input_nr in edges:
                successors.append(successor)
                input_nrs.append(input_nr)
                if successor is not None and successor not in numbers:
                    ahead.append(successor)
            starts.append(len(successors))
    return numbers, finished, starts, (successors, input_nrs)


Edge = tuple[Node, int]


def walk_to(target: Edge | torch.Tensor, root: Node) -> tuple[dict[Node, Successors], Edge | None]:
    """Map each node on a path from `root` to an edge or a leaf onto its successors, these first.

    Gives the edge as well, None for a leaf tensor that the graph does not lead to.
    """
    seen: dict[Node, Successors] = {}
    try:
        return _leading(target, root, seen)
    finally:
        if len(seen) > _LONGEST_FALL:
            survey([root])


_LEAF: Any = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]


def _leading(
    target: Edge | torch.Tensor, root: Node, seen: dict[Node, Successors]
) -> tuple[dict[Node, Successors], Edge | None]:
    """Enter each node, and finish it after its successors: it leads on where one of them does."""
    edge: Any = target if isinstance(target, tuple) else None
    leading: dict[Node, Successors] = {}
    ahead = [root]
    while ahead:
        node = ahead.pop()
        successors = seen.get(node)
        if successors is None:
            seen[node] = successors = node.next_functions
            ahead.append(node)
            for successor in successors:
                s: Any = successor[0]
                if s.__class__ is _LEAF:
                    if s.variable is target:
                        edge = successor
                elif s is not None and s not in seen:
                    ahead.append(s)
        elif node not in leading:
            for successor in successors:
                if successor[0] in leading or successor == edge:
                    leading[node] = successors
                    break
    return leading, edge


_LONGEST_FALL = 500


def _break_fall(nodes: list[Node], wiring: Wiring) -> None:
    """Make a graph that Python has looked at safe to free, however deep it is.

    PyTorch frees a graph in a loop, but a node that Python has seen is freed by its Python object,
    and its successors from within that call, and so on down until the stack overflows. So
    wherever more than `_LONGEST_FALL` such calls could pile up, `_KeptSuccessors` breaks the fall.
    As every node is still held by its predecessors alone, nothing lives longer and no cycle
    arises, and a graph that is not that deep stays as it is.
    """
    starts, targets = wiring.starts, wiring.targets
    leading_on = len(set(starts)) - 1
    if leading_on < _LONGEST_FALL:  # no path has more nodes than these and an end
        return
    falls = [1] * len(nodes)
    for number in reversed(wiring.order):
        edge, stop = starts[number], starts[number + 1]
        longest = 0
        while edge < stop:  # at two thirds of what slicing takes
            target = targets[edge]
            if target is not None and falls[target] > longest:
                longest = falls[target]
            edge += 1
        if longest == _LONGEST_FALL:
            keep_successors(nodes[number], next_functions(nodes[number]))
            longest = 0
        falls[number] = longest + 1


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
