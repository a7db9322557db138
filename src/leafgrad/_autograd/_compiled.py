"""What the code that `torch.compile` made calls what it saved."""

from __future__ import annotations

from typing import Any

from torch.autograd.graph import Node

from leafgrad._autograd._node import forward_class


def names_in_compiled_code(node: Node) -> tuple[str, ...]:
    """Name the tensors that a compiled function saved, in order; none where that is not kept.

    The graph of its backward takes the sizes that were saved, the tensors, and then the gradients.
    """
    compiled: Any = node
    lazy = getattr(forward_class(node), "_lazy_backward_info", None)
    graph = getattr(getattr(lazy, "bw_module", None), "graph", None)
    if graph is None:
        return ()
    inputs = [place.name for place in graph.nodes if place.op == "placeholder"]
    return tuple(inputs[len(compiled.symints) :])
