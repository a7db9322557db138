"""What the code that `torch.compile` made calls what it saved, and what it hands on."""

from __future__ import annotations

from typing import Any

from torch.autograd.graph import Node

from leafgrad._autograd._node import forward_class


def names_in_compiled_code(node: Node) -> tuple[str, ...]:
    """Name the tensors that a compiled function saved, in order; none where that is not kept.

    The graph of its backward takes the sizes that were saved, the tensors, and then the gradients.
    """
    compiled: Any = node
    graph = _graph_of_backward(node)
    if graph is None:
        return ()
    inputs = [place.name for place in graph.nodes if place.op == "placeholder"]
    return tuple(inputs[len(compiled.symints) :])


def compiled_gradients(node: Node) -> tuple[bool, ...] | None:
    """Say which inputs of a compiled function get a gradient; None where that is not kept."""
    graph = _graph_of_backward(node)
    return None if graph is None else tuple(one is not None for one in graph.output_node().args[0])


def _graph_of_backward(node: Node) -> Any:
    lazy = getattr(forward_class(node), "_lazy_backward_info", None)
    return getattr(getattr(lazy, "bw_module", None), "graph", None)
