"""What a node of the graph is: its name, its neighbours and its operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    kind = type(node)
    name = _NAMES.get(kind)
    if name is None:
        name = kind.name(node).rpartition("::")[2]
        if kind in _OWN_TYPES:
            _NAMES[kind] = name
    return name


def has_lasting_type(node: Node) -> bool:
    """Return whether the node's type is there for good, and tells its name and what that implies.

    So it is with PyTorch's own operations; custom functions go, and other C++ classes share a type.
    """
    return type(node) in _OWN_TYPES


_OWN_TYPES = frozenset(
    kind for kind in vars(torch._C._functions).values() if isinstance(kind, type)
)
_NAMES: dict[type[Node], str] = {}


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


Outputs = tuple[tuple[tuple[int | str, ...] | None, ...], torch.dtype, torch.device]


def outputs_of(nodes: Iterable[Any]) -> list[Outputs]:
    """Return for each node the shapes of all outputs, and dtype and device of the first one.

    What is the same becomes one value.
    """
    known = _Known()
    found = []
    for node in nodes:
        try:
            (copy,) = node._input_metadata
            found.append(known[tuple(_shape(copy)), _dtype(copy), _device(copy)])
        except (RuntimeError, TypeError, ValueError):  # nested, sizes without a hash, several
            outputs = forward_outputs(node)
            shapes = tuple([output.shape for output in outputs])
            told = shapes, outputs[0].dtype, outputs[0].device
            found.append(known.setdefault(told, told))
    return found


class _Known(dict[tuple[Any, ...], Outputs]):
    """What nodes told before, by what it is.

    A size that is no number has no hash or, in a ragged tensor, equals no number.
    """

    def __missing__(self, told: tuple[Any, ...]) -> Outputs:
        sizes, dtype, device = told
        return self.setdefault(told, ((extents(sizes),), dtype, device))


# Calling what reads an attribute takes less time than reading the attribute.
_metadata: Any = torch._C._autograd._InputMetadata  # type: ignore[attr-defined]
_shape, _dtype, _device = (getattr(_metadata, n).fget for n in ("shape", "dtype", "device"))


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


def leaf_variables(nodes: Sequence[Any], types: Iterable[type]) -> dict[int, torch.Tensor]:
    """Return what `leaf_variable` does of many nodes, by the places of those that have a leaf."""
    kinds = enumerate(types)
    return {place: nodes[place].variable for place, kind in kinds if kind is ACCUMULATE_GRAD}


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


def sequence_nrs(nodes: Iterable[Node]) -> list[int | None]:
    """Return what `sequence_nr` does of many nodes."""
    numbers = [node._sequence_nr() for node in nodes]
    return [None if number == _OF_NO_OPERATION else number for number in numbers]


# The number that the next node of this thread will get. As it is: a recording asks all the time.
next_sequence_nr: Callable[[], int] = torch._C._autograd._get_sequence_nr
