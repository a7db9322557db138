"""What compiled code saves and hands on, and how to be a part of it, or to stay out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
from torch._compile import _disable_dynamo
from torch.autograd.graph import Node

from leafgrad._autograd.node import forward_class


def names_in_compiled_code(node: Node) -> tuple[str, ...]:
    """Return the names of what a compiled function saved, in order; none where they are not kept.

    The graph of its backward takes the sizes that were saved, the tensors, and then the gradients.
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
    """Return what calls a function as it is where `torch.compile` traces the caller.

    What `torch.compiler.disable` does, but without the compiler, which takes seconds to import,
    where nobody compiles.
    """
    disabled = _disable_dynamo(function)

    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        torch._dynamo.graph_break(msg=_OUTSIDE)
        return disabled(*args, **kwargs)

    return call


def _run_by_the_compiler(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Mark what runs while its caller is traced, as ``assume_constant_result`` does.

    But without the compiler, as above.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@_run_by_the_compiler
def is_compiled_alone() -> bool:
    """Return whether `torch.compile` traces a function of leafgrad by itself, and no caller."""
    tracer = torch._dynamo.symbolic_convert.InstructionTranslator.current_tx()
    return Path(tracer.f_code.co_filename).is_relative_to(_LEAFGRAD)


_LEAFGRAD = Path(__file__).parents[1]


def node_of_compiled_code(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return what calls a function as one node of the graph that `torch.compile` makes of a caller.

    What compiles the graph traces the operations within, and those of their backward. Before, the
    node runs on fake tensors: where it raises there, the graph ends before the outermost call that
    led to it, so that this runs as it is, and any error is its own.
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
    """Return whether a tensor stands for one while code is compiled, and holds no numbers."""
    return type(tensor) is not torch.Tensor and isinstance(tensor, torch._subclasses.FakeTensor)


def _end_graph(reason: Exception) -> None:
    """Let `torch.compile` run what cannot be traced as it is, or tell why where it may not."""
    why = next(iter(str(reason).splitlines()), type(reason).__name__)
    torch._dynamo.exc.unimplemented(
        gb_type="call of leafgrad that cannot be traced",
        context="",
        explanation=f"leafgrad cannot be traced here, {_UNCOMPILED}; without values it says: {why}",
        hints=[],
    )
