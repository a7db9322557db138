"""Which graphs are alive, as far as Python can reach them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.autograd.graph import Node

from leafgrad._autograd.engine import alive
from leafgrad._autograd.sequence import sequence_nr
from leafgrad._autograd.tensor import base, held_grad, is_view, plain, unobserved, version
from leafgrad._autograd.traversal import survey
from leafgrad._autograd.wrapper import is_wrapped, unwrapped


def living_graph() -> tuple[list[Node], set[int]]:
    """Find the nodes that some tensor leads to, and the numbers of these nodes and of all tensors.

    Numbers are those of a `Skeleton`: a node's own, and one below 0 for a tensor.
    """
    with unobserved():
        tensors = alive()
        nodes, _ = survey([node for tensor in tensors for node in _nodes_at(tensor)])
    numbers = {number for number in map(sequence_nr, nodes) if number is not None}
    return [*nodes], numbers.union([~id(tensor) for tensor in tensors])


def _nodes_at(tensor: torch.Tensor) -> Iterator[Node]:
    """Yield the nodes that made a tensor, what it is a view of, and the gradient that it holds.

    To ask a view that may have been written into would make PyTorch record a node.
    """
    while is_wrapped(tensor):
        tensor = unwrapped(tensor)
    for one in (tensor, base(tensor), held_grad(tensor)):
        if one is not None and not (is_view(one) and version(one)):
            node = plain(one, "grad_fn")
            if node is not None:
                yield node
