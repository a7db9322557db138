"""What a result was made of, where one tensor after another led to it."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd


class Origin(NamedTuple):
    """The one leaf that a result was made of, step by step.

    Attributes:
        leaf: The leaf.
        operation: The first operation on it, as it is called in code.
        is_same: Whether the result has the leaf's numbers, but for their type and their order.
    """

    leaf: Tensor
    operation: str
    is_same: bool


def origin_of(tensor: Tensor) -> Origin | None:
    """Return the leaf that a result was made of, None where there is none or several."""
    steps: list[str] = []
    for node in _nodes_behind(tensor):
        leaf = _autograd.leaf_variable(node)
        if leaf is not None and steps:
            return Origin(leaf, steps[-1], is_same={*steps} <= _KEEPING)
        steps.append(operation_of(node))
    return None


def edges_behind(tensor: Tensor) -> Iterator[_autograd.Edge]:
    """Yield where the gradient of a copy or a part of a tensor goes on to."""
    for node in _nodes_behind(tensor):
        if operation_of(node) not in _KEEPING:
            return
        yield from _edges(node)


def _nodes_behind(tensor: Tensor) -> Iterator[Node]:
    """Yield the nodes that led to a tensor, as long as each was given one tensor with a graph."""
    node = _autograd.plain(tensor, "grad_fn")
    for _ in range(MAX_STEPS):
        if node is None:
            return
        yield node
        edges = _edges(node)
        node = edges[0][0] if len(edges) == 1 else None


def _edges(node: Node) -> list[_autograd.Edge]:
    edges = _autograd.next_functions(node)
    return [(after, number) for after, number in edges if after is not None]


MAX_STEPS = 20


def operation_of(node: Node) -> str:
    """Return what the operation of a node is called in code, as far as its name tells."""
    name = _autograd.stem(_autograd.node_name(node))
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return _WORDS.get(word, word)


_WORDS = {
    **dict.fromkeys(("to_copy", "to_copy_slices"), "to"),
    **dict.fromkeys(("unsafe_view", "reshape_alias", "view"), "view"),
    **dict.fromkeys(("select", "slice", "index"), "indexing"),
}
_MOVING = "view to clone t transpose permute squeeze unsqueeze expand alias contiguous unfold"
_KEEPING = {*_MOVING.split(), "indexing", "split", "unbind", "diagonal", "as_strided"}
