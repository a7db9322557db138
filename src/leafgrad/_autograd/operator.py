"""What the operation is called whose backward a node is."""

import re

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
