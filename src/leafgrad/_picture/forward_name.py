"""The names of the functions whose backwards the nodes are."""

from leafgrad import _autograd
from leafgrad._graph.nodes import TracedNode


def forward_name(node: TracedNode) -> str:
    """Return what was called: a function of PyTorch, or the class of a custom one."""
    if node.custom_function is not None:
        return node.custom_function.name.rpartition(".")[2]
    return _autograd.operator_name(node.name) or node.name
