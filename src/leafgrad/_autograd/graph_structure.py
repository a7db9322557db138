"""Store which nodes lead to which, as numbers that remain valid after the graph is freed."""

from __future__ import annotations

from collections import defaultdict

import torch
from torch.autograd.graph import Node

from leafgrad._autograd.node import leaf_variable, next_functions, node_name, sequence_nr
from leafgrad._autograd.tensor import base, is_invalid_view, is_view, plain
from leafgrad._autograd.traversal import keep_successors


def number_of(tensor: torch.Tensor) -> int:
    """Return a number that identifies the tensor's node; it is negative for a leaf."""
    node = plain(_source(tensor), "grad_fn")
    return ~id(_source(tensor)) if node is None else _number(node)


def number_if_valid(tensor: torch.Tensor) -> int | None:
    """Return `number_of(tensor)`, or None for a view that PyTorch cannot place in the graph."""
    return None if is_invalid_view(tensor) else number_of(tensor)


def _source(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor that has a place in the graph: the tensor itself, or the base of a view.

    A view that was taken under `no_grad()` has no node of its own. PyTorch raises an error when it
    is asked for the node of such a view after a write.
    """
    shown = base(tensor)
    if shown is None:
        return tensor
    is_placed = not is_invalid_view(tensor) and plain(tensor, "grad_fn") is not None
    return tensor if is_placed else shown


def _number(node: Node) -> int:
    """Return the number of a node; for a leaf's node, the number of the leaf tensor."""
    number = sequence_nr(node)
    return ~id(leaf_variable(node)) if number is None else number


def numbers_after(node: Node) -> tuple[int, ...]:
    """Return the numbers of the nodes and leaves that a node passes gradients to."""
    successors = [after for after, _ in next_functions(node) if after is not None]
    return tuple(map(_number, successors))


def numbers_after_refusal(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the numbers of the nodes behind a result that has no derivative.

    Return nothing for any other tensor, and for views: reading the node of a written view would
    create a node.
    """
    if is_view(tensor):
        return ()
    node = plain(tensor, "grad_fn")
    is_one = node is not None and node_name(node) == "NotImplemented"
    return numbers_after(node) if is_one else ()


class GraphStructure:
    """The edges of a growing graph, as numbers.

    Attributes:
        successors: The numbers of the nodes and leaves that each node passes gradients to.
    """

    def __init__(self) -> None:
        self.successors: dict[int, tuple[int, ...]] = {}

    def add(self, tensor: torch.Tensor) -> int:
        """Add the graph behind a tensor, as far as it is new. Return its `number_of(tensor)`."""
        node = plain(_source(tensor), "grad_fn")
        ahead = [] if node is None else [node]
        while ahead:
            node = ahead.pop()
            number = _number(node)
            if number not in self.successors:
                successors = [after for after, _ in next_functions(node) if after is not None]
                keep_successors(node, next_functions(node))
                self.successors[number] = tuple(map(_number, successors))
                ahead += successors
        return number_of(tensor)

    def depend_on(self, tensor: torch.Tensor) -> set[int]:
        """Return the numbers of all nodes whose gradient reaches the tensor, its own included."""
        predecessors = defaultdict[int, list[int]](list)
        for number, successors in self.successors.items():
            for successor in successors:
                predecessors[successor].append(number)
        found: set[int] = set()
        ahead = [number_of(tensor)]
        while ahead:
            number = ahead.pop()
            if number not in found:
                found.add(number)
                ahead += predecessors[number]
        return found
