"""What the operation is called, and given, whose backward a node is."""

import re
from functools import cache
from typing import Any, NamedTuple

import torch

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


class Arguments(NamedTuple):
    """The tensors that an operator takes, by their names.

    Attributes:
        by_edge: Those that the edges of its node stand for, the first ones of these at least.
        known: All of them.
    """

    by_edge: tuple[str, ...]
    known: frozenset[str]


@cache
def tensor_arguments(node_name: str, edges: int) -> Arguments:
    """Return the tensors that the operation of a node with so many edges takes.

    Where an overload takes as many tensors as there are edges, each has an edge. Of others that
    much is clear of the first one only: what is no number for a gradient has no edge.
    """
    packet: Any = getattr(torch.ops.aten, f"{operator_name(node_name)}", None)
    if packet is None:
        return Arguments((), frozenset())
    overloads = [_tensors_of(getattr(packet, one)._schema) for one in packet.overloads()]
    by_edge = next((names for names in overloads if len(names) == edges), overloads[0][:1])
    return Arguments(by_edge, frozenset(name for names in overloads for name in names))


def _tensors_of(schema: Any) -> tuple[str, ...]:
    """Return the names of the single tensors that an overload takes."""
    kinds = {"Tensor", "Optional[Tensor]"}
    given = (one for one in schema.arguments if not one.is_out)
    return tuple(one.name for one in given if str(one.type) in kinds)
