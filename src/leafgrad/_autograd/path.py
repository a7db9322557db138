"""Find the node where the gradient of a tensor arrives, and the path from outputs to inputs."""

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
    """Return the node where the tensor's gradient arrives, and the number of its output; or None.

    None means that no gradient can arrive. PyTorch may create the node of a leaf for this.
    """
    node = plain(tensor, "grad_fn")
    if node is not None:
        return node, plain(tensor, "output_nr")
    leaf_node = _gradient_target(tensor) if plain(tensor, "requires_grad") else None
    return None if leaf_node is None else (leaf_node, 0)


def edge_by_use(tensor: torch.Tensor) -> Edge | None:
    """Return the node where the tensor's gradient arrives, and the number of its output; or None.

    None means that no gradient can arrive. For a leaf this is much faster than `gradient_edge`, but
    it runs an operation, so autograd creates a node in this thread.
    """
    if (node := plain(tensor, "grad_fn")) is not None:
        return node, plain(tensor, "output_nr")
    with torch.enable_grad():
        use = plain(tensor, "view_as")(tensor).grad_fn
    node, output_nr = (None, 0) if use is None else use.next_functions[0]
    return None if node is None else (node, output_nr)


def has_accumulator(leaf: torch.Tensor) -> bool:
    """Return whether the gradient of a leaf that requires grad can be stored.

    It cannot for a view that only requires grad because its base does.
    """
    return not is_view(leaf) or _gradient_target(leaf) is not None


def _gradient_target(leaf: torch.Tensor) -> Node | None:
    """Return the node that accumulates the gradient of `leaf`, found by an operation on it.

    The operation runs in a new thread, so that it changes no sequence number and calls no mode or
    hook of this thread. Return None if no gradient can arrive.
    """
    found: list[Node | None] = []

    def record() -> None:
        # The operation on a nested tensor fails, but its node exists.
        with unobserved(), suppress(RuntimeError):
            _Use.apply(leaf, found)  # type: ignore[no-untyped-call]

    thread = threading.Thread(target=record)
    thread.start()
    thread.join()
    return found[0]


class _Use(torch.autograd.Function):
    """An operation that only stores the node of its input in `found`."""

    @staticmethod
    def forward(ctx: Any, _: torch.Tensor, found: list[Node | None]) -> None:
        found.append(ctx.next_functions[0][0])


class Path(NamedTuple):
    """The nodes between inputs and outputs.

    Attributes:
        nodes: Each node with its successors. A node comes after its successors.
        start: The edge where the gradient of the inputs arrives.
        end: The edge where the gradient of the outputs arrives.
    """

    nodes: dict[Node, Successors]
    start: Edge
    end: Edge


def path_between(outputs: torch.Tensor, inputs: torch.Tensor) -> Path | None:
    """Return the nodes on every path from `outputs` to `inputs`, None if there is no path."""
    root = edge_by_use(outputs)
    if root is None:
        return None
    if outputs is inputs:
        return Path({}, root, root)
    node = plain(inputs, "grad_fn")
    target = inputs if node is None else (node, plain(inputs, "output_nr"))
    nodes, start = walk_to(target, root[0])
    return Path(nodes, start, root) if start and (nodes or root == start) else None
