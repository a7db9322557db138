"""Where the gradient of a tensor arrives, and the path that it takes there."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import Node

from leafgrad._autograd.node import Successors
from leafgrad._autograd.tensor import is_view, plain, unobserved
from leafgrad._autograd.traversal import Edge, walk_to


def gradient_edge(tensor: torch.Tensor) -> tuple[Node, int] | None:
    """Return the node at which the tensor's gradient arrives, and which output of it this is.

    None where no gradient can arrive. A leaf's node may be made for the occasion.
    """
    node = plain(tensor, "grad_fn")
    if node is not None:
        return node, plain(tensor, "output_nr")
    leaf_node = _gradient_target(tensor) if plain(tensor, "requires_grad") else None
    return None if leaf_node is None else (leaf_node, 0)


def edge_by_use(tensor: torch.Tensor) -> Edge | None:
    """Return the node at which the tensor's gradient arrives, None where no gradient can.

    For a leaf, this thread records a use of it: `gradient_edge` leaves no trace, at many times the
    cost.
    """
    if (node := plain(tensor, "grad_fn")) is not None:
        return node, plain(tensor, "output_nr")
    with torch.enable_grad():
        use = plain(tensor, "view_as")(tensor).grad_fn
    node, output_nr = (None, 0) if use is None else use.next_functions[0]
    return None if node is None else (node, output_nr)


def has_accumulator(leaf: torch.Tensor) -> bool:
    """Return whether a gradient has somewhere to go at a leaf that says that it requires grad.

    A view says so as soon as its base does, with or without a flag of its own.
    """
    return not is_view(leaf) or _gradient_target(leaf) is not None


def _gradient_target(leaf: torch.Tensor) -> Node | None:
    """Return the node that a gradient of `leaf` goes to, by recording a use of it.

    In a thread of its own: modes, hooks and sequence numbers of the caller's stay out of it.
    """
    found: list[Node | None] = []

    def record() -> None:
        with unobserved(), suppress(RuntimeError):  # nested tensors fail, after they were recorded
            _Use.apply(leaf, found)  # type: ignore[no-untyped-call]

    thread = threading.Thread(target=record)
    thread.start()
    thread.join()
    return found[0]


class _Use(torch.autograd.Function):
    """Uses a tensor without an operation on it, and shows where its gradient would go."""

    @staticmethod
    def forward(ctx: Any, _: torch.Tensor, found: list[Node | None]) -> None:
        found.append(ctx.next_functions[0][0])


class Path(NamedTuple):
    """The way from inputs to outputs.

    Attributes:
        nodes: Each with its successors, in the order of the operations: what a node's inputs come
            from stands before it.
        start: Where the gradient of the inputs arrives.
        end: Where the gradient of the outputs arrives.
    """

    nodes: dict[Node, Successors]
    start: Edge
    end: Edge


def path_between(outputs: torch.Tensor, inputs: torch.Tensor) -> Path | None:
    """Return the nodes on every path from `outputs` to `inputs`, None where there is no path."""
    root = edge_by_use(outputs)
    if root is None:
        return None
    if outputs is inputs:
        return Path({}, root, root)
    node = plain(inputs, "grad_fn")
    target = inputs if node is None else (node, plain(inputs, "output_nr"))
    nodes, start = walk_to(target, root[0])
    return Path(nodes, start, root) if start and (nodes or root == start) else None
