"""A walk over the nodes of a graph that leaves the graph safe to free, however deep it is."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

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


class Wiring(NamedTuple):
    """Who leads to whom in a graph, in numbers that outlive it.

    A number is a place in the order in which the nodes were found, the roots first of all.

    Attributes:
        roots: How many roots there are.
        starts: Where the edges of each node start, and last of all where they end.
        targets: Where each edge leads to, node by node; None where an input needed no gradient.
        input_nrs: Which output of that node each edge leads to.
        sequence_nrs: The number that PyTorch gave each node, a leaf the highest that there is.
    """

    roots: int
    starts: list[int]
    targets: list[int | None]
    input_nrs: list[int]
    sequence_nrs: list[int]

    def order(self) -> list[int]:
        """Order the numbers of the nodes, each one before those of its successors.

        What waits on the stack is a node to be entered or, as its complement, one to be finished.
        """
        starts, targets = self.starts, self.targets
        finished: list[int] = []
        entered: set[int | None] = {None}
        ahead: list[Any] = [*range(self.roots)]
        while ahead:
            number = ahead.pop()
            if number in entered:
                continue
            if number < 0:
                finished.append(~number)
            else:
                entered.add(number)
                ahead.append(~number)
                ahead += targets[starts[number] : starts[number + 1]]
        return finished[::-1]


def walk(roots: Iterable[Node]) -> dict[Node, Successors]:
    """Map every node that `roots` lead to onto its successors, predecessors first.

    Whoever looks at a whole graph does it through here, `survey` or `walk_to`, so that the graph
    can be freed later on: see `_break_fall`. The mapping keeps the nodes alive; drop it when the
    facts are read.
    """
    numbers, wiring = survey(roots)
    nodes = map([*numbers].__getitem__, wiring.order())
    return {node: next_functions(node) for node in nodes}


def survey(roots: Iterable[Node]) -> tuple[dict[Node, int], Wiring]:
    """Number every node that `roots` lead to, as they are found, and tell who leads to whom.

    This is to `walk` what a column is to a row: it makes a few lists, however many nodes there are.
    """
    roots = dict.fromkeys(roots)
    try:
        return _surveyed(roots)
    except BaseException:  # an interrupted walk leaves a graph that is to be freed as well
        _surveyed(roots)
        raise


def _surveyed(roots: Collection[Node]) -> tuple[dict[Any, int], Wiring]:
    """Collect the successors of each node that was found, until there is none left."""
    nodes: list[Any] = [*roots]
    found = len(nodes)
    numbers: dict[Any, Any] = dict(zip(nodes, range(found), strict=True))
    numbers[None] = None  # where an input needed no gradient
    starts, targets, input_nrs = [0], [], []
    for node in nodes:
        for successor, input_nr in node.next_functions:
            target = numbers.setdefault(successor, found)
            if target is found:
                nodes.append(successor)
                found += 1
            targets.append(target)
            input_nrs.append(input_nr)
        starts.append(len(targets))
    del numbers[None]
    wiring = Wiring(
        roots=len(roots),
        starts=starts,
        targets=targets,
        input_nrs=input_nrs,
        sequence_nrs=[node._sequence_nr() for node in nodes],
    )
    _break_fall(nodes, wiring)
    return numbers, wiring


Edge = tuple[Node, int]


def walk_to(target: Edge | torch.Tensor, root: Node) -> tuple[dict[Node, Successors], Edge | None]:
    """Map each node on a path from `root` to an edge or a leaf onto its successors, these first.

    Returns the edge as well, None for a leaf tensor that the graph does not lead to.
    """
    seen: dict[Any, Successors] = {}
    try:
        return _leading(target, root, seen)
    finally:
        if len(seen) > _LONGEST_FALL:
            survey([root])


def _leading(
    target: Edge | torch.Tensor, root: Node, seen: dict[Any, Successors]
) -> tuple[dict[Node, Successors], Edge | None]:
    """Enter each node, and finish it after its successors: it leads on where one of them does."""
    edge: Any = target if isinstance(target, tuple) else None
    leading: dict[Any, Successors] = {}
    ahead: list[Any] = [root]
    while ahead:
        node = ahead[-1]
        if node not in seen:
            seen[node] = successors = node.next_functions
            for successor in successors:
                s: Any = successor[0]
                if s.__class__ is ACCUMULATE_GRAD:
                    if s.variable is target:
                        edge = successor
                elif s is not None and s not in seen:
                    ahead.append(s)
            if ahead[-1] is not node:
                continue
        ahead.pop()
        for successor in seen[node]:
            if successor[0] in leading or successor == edge:
                leading[node] = seen[node]
                break
    return leading, edge


_LONGEST_FALL = 1_000  # steps of up to 300 bytes, on a stack that has 512 KiB or more


def _break_fall(nodes: Sequence[Node], wiring: Wiring) -> None:
    """Make a graph that Python has looked at safe to free, however deep it is.

    PyTorch frees a graph in a loop, but a node that Python has seen is freed by its Python object,
    and its successors from within that call, and so on down until the stack overflows. So
    wherever more than `_LONGEST_FALL` such calls could pile up, `_KeptSuccessors` breaks the fall.
    As every node is still held by its predecessors alone, nothing lives longer and no cycle
    arises, and a graph that is not that deep stays as it is.
    """
    if len(nodes) <= _LONGEST_FALL:
        return
    try:
        deep = _deep(reversed(range(len(nodes))), wiring)
    except TypeError:  # nodes were found before others that lead to them as well
        deep = _deep(reversed(wiring.order()), wiring)
    for number in deep:
        keep_successors(nodes[number], next_functions(nodes[number]))


def _deep(order: Iterable[int], wiring: Wiring) -> list[int]:
    """Return the nodes at which falls are to be broken; `order` has each after its successors.

    A TypeError says that it has not.
    """
    starts, targets = wiring.starts, wiring.targets
    falls: list[Any] = [None] * (len(starts) - 1)
    deep = []
    for number in order:
        edge, stop = starts[number], starts[number + 1]
        longest = 0
        while edge < stop:  # at two thirds of what slicing takes
            target = targets[edge]
            if target is not None and falls[target] > longest:
                longest = falls[target]
            edge += 1
        if longest == _LONGEST_FALL:
            deep.append(number)
            longest = 0
        falls[number] = longest + 1
    return deep


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
