"""The names of the functions whose backwards the nodes are."""

import re

from leafgrad._graph.nodes import TracedNode

BACKWARD = re.compile(r"Backward\d*$")
WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])|(?<=[0-9][A-Z])(?=[A-Z])")


def forward_name(node: TracedNode) -> str:
    """Return what was called: a function of PyTorch, or the class of a custom one.

    PyTorch makes ``MaxPool2DWithIndicesBackward0`` of ``max_pool2d_with_indices``.
    """
    if node.custom_function is not None:
        return node.custom_function.name.rpartition(".")[2]
    stem = BACKWARD.sub("", node.name)
    if stem == node.name:
        return node.name
    return WORD.sub("_", stem).lower()
