"""Who leads to whom in graphs that may be gone, in numbers that outlive them."""

from __future__ import annotations

from collections import defaultdict

import torch
from torch.autograd.graph import Node

from leafgrad._autograd.node import leaf_variable, next_functions, node_name, sequence_nr
from leafgrad._autograd.tensor import base, is_invalid_view, is_view, plain
from leafgrad._autograd.traversal import keep_successors


def number_of(tensor: torch.Tensor) -> int:
    """Return a number for the tensor's place in the graph: the node's, below 0 for a leaf."""
    node = plain(_source(tensor), "grad_fn")
    return ~id(_source(tensor)) if node is None else _number(node)


def number_if_valid(tensor: torch.Tensor) -> int | None:
    """Return the same, None for a view of which PyTorch refuses to tell its place."""
    return None if is_invalid_view(tensor) else number_of(tensor)


def _source(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor itself, or what a view shows that was taken while nothing was recorded.

    PyTorch refuses to say whether a view has a node if it was written into since.
    """
    shown = base(tensor)
    if shown is None:
        return tensor
    is_placed = not is_invalid_view(tensor) and plain(tensor, "grad_fn") is not None
    return tensor if is_placed else shown


def _number(node: Node) -> int:
    """Number a node: a leaf's as the leaf itself."""
    number = sequence_nr(node)
    return ~id(leaf_variable(node)) if number is None else number


def numbers_after(node: Node) -> tuple[int, ...]:
    """Return the numbers of the nodes that a node leads to, and of leaves."""
    successors = [after for after, _ in next_functions(node) if after is not None]
    return tuple(map(_number, successors))


def numbers_after_refusal(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return those behind the node of a result that has no derivative; nothing for any other."""
    if is_view(tensor):
        return ()  # to ask one that was written into would record a node
    node = plain(tensor, "grad_fn")
    is_one = node is not None and node_name(node) == "NotImplemented"
    return numbers_after(node) if is_one else ()


class GraphStructure:
    """Grows by the graph behind a tensor, each node of which it looks at only once."""

    def __init__(self) -> None:
        self.successors: dict[int, tuple[int, ...]] = {}

    def add(self, tensor: torch.Tensor) -> int:
        """Copy what the tensor depends on, as far as it is new, and number the tensor."""
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
        """Return all the numbers whose gradient would go on to the tensor's, its own included."""
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
