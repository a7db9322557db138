"""Read the facts about a node: its name, its operation, its outputs and the nodes that follow."""

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
    """The shape, dtype and device of one output of a node's forward operation."""

    shape: tuple[int | str, ...] | None
    dtype: torch.dtype
    device: torch.device


def node_name(node: Node) -> str:
    """Return PyTorch's name of the node without the C++ namespace, such as ``"MulBackward0"``.

    The method of the type is called, because a custom function may store an attribute `name` on its
    ``ctx``.
    """
    return type(node).name(node).rpartition("::")[2]


def has_lasting_type(node: Node) -> bool:
    """Return whether the node's type belongs to one operation of PyTorch and exists forever.

    Facts about these types can be cached. Custom functions may be deleted, and other C++ classes
    share one type.
    """
    return type(node) in _OWN_TYPES


_OWN_TYPES = frozenset(
    kind for kind in vars(torch._C._functions).values() if isinstance(kind, type)
)


def types_of_nodes(*operations: str) -> frozenset[type[Node]]:
    """Return the node types of operations, such as ``"Mul"``, as far as this PyTorch has them.

    Of an operation with overloads, this is the type of the first one: ``"Add"`` means
    ``AddBackward0``. Write ``"AddBackward1"`` for the second.
    """
    names = (name if "Backward" in name else f"{name}Backward0" for name in operations)
    found = (getattr(torch._C._functions, name, None) for name in names)
    return frozenset(kind for kind in found if kind is not None)


def next_functions(node: Node) -> Successors:
    """Return, for each forward input, the node that computed it and which of its outputs it was.

    The node is None for an input that needs no gradient.
    """
    return node.next_functions


def forward_outputs(node: Node) -> tuple[ForwardOutput, ...]:
    """Return a copy of the shape, dtype and device of each output of the node's operation."""
    outputs = getattr(node, "_input_metadata")  # noqa: B009 (the class does not declare it)
    return tuple([ForwardOutput(_output_shape(one), one.dtype, one.device) for one in outputs])


def _output_shape(output: Any) -> tuple[int | str, ...] | None:
    """Return the shape of a forward output, None for a strided nested tensor."""
    try:
        return extents(output.shape)
    except RuntimeError:
        return None


def is_of_its_own_type(node: Node) -> bool:
    """Return whether all nodes of the node's Python type have the same name.

    Each operation of PyTorch and each custom function has its own type. Other C++ nodes share one.
    """
    return type(node).__name__ != "CppFunction"


def is_leaf_node(node: Node) -> bool:
    """Return whether the node accumulates gradients into a leaf tensor."""
    return isinstance(node, ACCUMULATE_GRAD)


def leaf_variable(node: Node) -> torch.Tensor | None:
    """Return the leaf tensor that the node accumulates into, None for any other node."""
    leaf: Any = node
    return leaf.variable if is_leaf_node(node) else None


def is_leaf_with_history(node: Node) -> bool:
    """Return whether the leaf of the node is no longer a leaf after an in-place write.

    This happens if `requires_grad` was switched off for the write. Backward refuses such a leaf.
    """
    leaf = leaf_variable(node)
    return leaf is not None and not is_invalid_view(leaf) and not plain(leaf, "is_leaf")


def forward_class(node: Node) -> type[torch.autograd.Function] | None:
    """Return the custom `torch.autograd.Function` that made the node, None for any other node."""
    if not issubclass(type(node), torch._C._FunctionBase):
        return None  # This is faster than looking for an attribute that most nodes lack.
    return getattr(type(node), "_forward_cls", None)


_OF_NO_OPERATION = 2**64 - 1


def sequence_nr(node: Node) -> int | None:
    """Return the node's sequence number, None for the node of a leaf.

    Backward runs the nodes with the highest numbers first.
    """
    number: int = node._sequence_nr()
    return None if number == _OF_NO_OPERATION else number


# This returns the number that the next node of this thread will get. It is not wrapped, because it
# is called often.
next_sequence_nr: Callable[[], int] = torch._C._autograd._get_sequence_nr


_BACKWARD = re.compile(r"Backward\d*$")
_OWN_BACKWARD = re.compile(r"Backward(\d+|s)$")  # names of custom functions end with `Backward`
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])|(?<=[0-9][A-Z])(?=[A-Z])")


def stem(node_name: str) -> str:
    """Return the operation in a node's name: ``"Mul"`` for ``"MulBackward0"``."""
    return _BACKWARD.sub("", node_name)


def own_stem(node_name: str) -> str:
    """Return the operation in the name of a PyTorch node; other names are returned unchanged."""
    return _OWN_BACKWARD.sub("", node_name)


def operator_name(node_name: str) -> str | None:
    """Return the operator behind a node name: ``"avg_pool2d"`` for ``"AvgPool2DBackward0"``.

    Return None for a name without ``Backward`` at the end.
    """
    name = stem(node_name)
    return None if name == node_name else _WORD.sub("_", name).lower()
