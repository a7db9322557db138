"""What a node of the graph is: its name, its neighbours and its operation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import Node

from leafgrad._autograd.tensor import extents, is_invalid_view, plain

ACCUMULATE_GRAD: Any = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]

Successors = tuple[tuple[Node | None, int], ...]


class ForwardOutput(NamedTuple):
    """What a node knows of one tensor that its operation made."""

    shape: tuple[int | str, ...] | None
    dtype: torch.dtype
    device: torch.device


def node_name(node: Node) -> str:
    """Return PyTorch's name of the node, without the C++ namespace (``type(node)`` may lie).

    A custom function may keep something under the attribute `name` of its ctx.
    """
    return type(node).name(node).rpartition("::")[2]


def has_lasting_type(node: Node) -> bool:
    """Return whether the node's type is there for good, and tells its name and what that implies.

    So it is with PyTorch's own operations; custom functions go, and other C++ classes share a type.
    """
    return type(node) in _OWN_TYPES


_OWN_TYPES = frozenset(
    kind for kind in vars(torch._C._functions).values() if isinstance(kind, type)
)


def types_of_nodes(*operations: str) -> frozenset[type[Node]]:
    """Return the types of the nodes that operations record, such as ``Mul``, as far as they exist.

    Of an operation with overloads, it is that of the first one, unless a type is named.
    """
    names = (name if "Backward" in name else f"{name}Backward0" for name in operations)
    found = (getattr(torch._C._functions, name, None) for name in names)
    return frozenset(kind for kind in found if kind is not None)


def next_functions(node: Node) -> Successors:
    """Return each forward input's node (None where it needed no gradient) and its output number."""
    return node.next_functions


def forward_outputs(node: Node) -> tuple[ForwardOutput, ...]:
    """Return shape, dtype and device of each tensor that the node's operation made."""
    outputs = getattr(node, "_input_metadata")  # noqa: B009 (the class does not declare it)
    return tuple([ForwardOutput(_output_shape(one), one.dtype, one.device) for one in outputs])


def _output_shape(output: Any) -> tuple[int | str, ...] | None:
    """Return the shape of a forward output, None where it was a strided nested tensor."""
    try:
        return extents(output.shape)
    except RuntimeError:
        return None


def is_of_its_own_type(node: Node) -> bool:
    """Return whether all nodes of the Python type have this node's name.

    PyTorch's own operations have a type each, and so have custom functions; what is defined
    elsewhere in C++ shares one.
    """
    return type(node).__name__ != "CppFunction"


def is_leaf_node(node: Node) -> bool:
    """Return whether the node accumulates into a leaf tensor."""
    return isinstance(node, ACCUMULATE_GRAD)


def leaf_variable(node: Node) -> torch.Tensor | None:
    """Return the leaf tensor that the node accumulates into, None for any other node."""
    leaf: Any = node
    return leaf.variable if is_leaf_node(node) else None


def is_leaf_with_history(node: Node) -> bool:
    """Return whether the leaf that the node accumulates into became a result, by a write in place.

    That needs `requires_grad` to be switched off for the write. Backward refuses such a leaf.
    """
    leaf = leaf_variable(node)
    return leaf is not None and not is_invalid_view(leaf) and not plain(leaf, "is_leaf")


def forward_class(node: Node) -> type[torch.autograd.Function] | None:
    """Return the custom `torch.autograd.Function` that made the node, None for any other node."""
    if not issubclass(type(node), torch._C._FunctionBase):
        return None  # and no look for an attribute that nearly all nodes do not have
    return getattr(type(node), "_forward_cls", None)


_OF_NO_OPERATION = 2**64 - 1


def sequence_nr(node: Node) -> int | None:
    """Return the node's number, by which backward goes; None for a node that stands for a leaf."""
    number: int = node._sequence_nr()
    return None if number == _OF_NO_OPERATION else number


# The number that the next node of this thread will get. As it is: a recording asks all the time.
next_sequence_nr: Callable[[], int] = torch._C._autograd._get_sequence_nr


_BACKWARD = re.compile(r"Backward\d*$")
_OWN_BACKWARD = re.compile(r"Backward(\d+|s)$")  # which no custom function's node ends in
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])|(?<=[0-9][A-Z])(?=[A-Z])")


def stem(node_name: str) -> str:
    """Return what a node's name says of its operation, ``Mul`` of ``MulBackward0``."""
    return _BACKWARD.sub("", node_name)


def own_stem(node_name: str) -> str:
    """Return what the name of a node of PyTorch's own says of its operation, else all of it."""
    return _OWN_BACKWARD.sub("", node_name)


def operator_name(node_name: str) -> str | None:
    """Return the operator behind one of PyTorch's own formulas, None for other nodes.

    PyTorch makes ``MaxPool2DWithIndicesBackward0`` of ``max_pool2d_with_indices``.
    """
    name = stem(node_name)
    return None if name == node_name else _WORD.sub("_", name).lower()
