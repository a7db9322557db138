"""What compiled code saves and hands on, and how to stay out of such code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch._compile import _disable_dynamo
from torch.autograd.graph import Node

from leafgrad._autograd.node import forward_class


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


Given = ParamSpec("Given")
Result = TypeVar("Result")

_OUTSIDE = (
    "leafgrad reads the graph that PyTorch records, so it runs uncompiled, between the compiled "
    "parts of a function: leave out fullgraph=True"
)


def outside_compiled_code(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return what calls a function as it is where `torch.compile` traces the caller.

    What `torch.compiler.disable` does, but without the compiler, which takes seconds to import,
    where nobody compiles.
    """
    disabled = _disable_dynamo(function)

    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        torch._dynamo.graph_break(msg=_OUTSIDE)
        return disabled(*args, **kwargs)

    return call
