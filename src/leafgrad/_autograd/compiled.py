"""Read nodes that `torch.compile` made, and decide how leafgrad runs inside compiled code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
from torch._compile import _disable_dynamo
from torch.autograd.graph import Node

from leafgrad._autograd.node import forward_class


def names_in_compiled_code(node: Node) -> tuple[str, ...]:
    """Return the names that compiled code uses for the tensors saved by its node, in order.

    Return nothing if PyTorch has not kept the backward graph. The inputs of that graph are the
    saved sizes, the saved tensors and then the gradients.
    """
    compiled: Any = node
    lazy = getattr(forward_class(node), "_lazy_backward_info", None)
    graph = getattr(getattr(lazy, "bw_module", None), "graph", None)
    if graph is None:
        return ()
    inputs = [place.name for place in graph.nodes if place.op == "placeholder"]
    return tuple(inputs[len(compiled.symints) :])


Given = ParamSpec("Given")
Result = TypeVar("Result")

_UNCOMPILED = (
    "so it runs uncompiled, between the compiled parts of a function: leave out fullgraph=True"
)
_OUTSIDE = f"leafgrad reads the graph that PyTorch records, {_UNCOMPILED}"


def outside_compiled_code(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return a function that breaks the compiled graph and then calls `function` uncompiled.

    `torch.compiler.disable` does the same, but it imports the compiler, which takes seconds even if
    nobody compiles.
    """
    disabled = _disable_dynamo(function)

    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        torch._dynamo.graph_break(msg=_OUTSIDE)
        return disabled(*args, **kwargs)

    return call


def _run_by_the_compiler(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Mark a function so that the compiler calls it while it traces the caller.

    `torch._dynamo.assume_constant_result` does the same, but it imports the compiler.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@_run_by_the_compiler
def is_compiled_alone() -> bool:
    """Return whether `torch.compile` compiles a leafgrad function directly, not a caller of it."""
    tracer = torch._dynamo.symbolic_convert.InstructionTranslator.current_tx()
    return Path(tracer.f_code.co_filename).is_relative_to(_LEAFGRAD)


_LEAFGRAD = Path(__file__).parents[1]


def node_of_compiled_code(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return a function that `torch.compile` adds to the caller's graph as a single node.

    The backend later traces the operations inside it and their backward. Before that, the compiler
    calls the function on fake tensors. If that raises an error, the compiler ends the graph before
    the line of the compiled function that led here. That line then runs uncompiled, and the
    function raises its own error.
    """

    def node(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if any(isinstance(one, torch._subclasses.FakeTensor) for one in args):
                _end_graph(error)
            raise

    @_run_by_the_compiler
    def allow() -> None:
        torch.compiler.allow_in_graph(node)

    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        allow()
        return node(*args, **kwargs)

    return call


def is_without_values(tensor: torch.Tensor) -> bool:
    """Return whether the tensor is a fake tensor, which has no values (used during compilation)."""
    return type(tensor) is not torch.Tensor and isinstance(tensor, torch._subclasses.FakeTensor)


def _end_graph(reason: Exception) -> None:
    """End the compiled graph here, or raise an error with the reason if `fullgraph=True`."""
    why = next(iter(str(reason).splitlines()), type(reason).__name__)
    torch._dynamo.exc.unimplemented(
        gb_type="call of leafgrad that cannot be traced",
        context="",
        explanation=f"leafgrad cannot be traced here, {_UNCOMPILED}; without values it says: {why}",
        hints=[],
    )
