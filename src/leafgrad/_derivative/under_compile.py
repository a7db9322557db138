"""Derivatives within code that `torch.compile` compiles, as a part of its graph."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.arguments import Function


def traceable(differentiate: Callable[..., Any]) -> Callable[..., Any]:
    """Return what `torch.compile` traces in place of a function of outputs and inputs.

    What computes the outputs is traced as if the caller had called it, and the derivatives are a
    node of the same graph, as `node_of_compiled_code` says. Where no caller is traced, and nothing
    could run instead of the node, the function runs as it is.
    """
    outside = _autograd.outside_compiled_code(differentiate)
    derivatives = _autograd.node_of_compiled_code(differentiate)
    leaf = _autograd.node_of_compiled_code(_copy_that_requires_grad)

    def call(outputs: Tensor | Function, inputs: Tensor, *order: Any, **options: Any) -> Any:
        if _autograd.is_compiled_alone():
            return outside(outputs, inputs, *order, **options)
        if isinstance(outputs, Tensor):
            return derivatives(outputs, inputs, *order, **options)
        # The compiler takes no argument by name.
        with torch.inference_mode(False), torch.enable_grad():  # noqa: FBT003
            if not inputs.requires_grad:
                inputs = leaf(inputs)
            return derivatives(outputs(inputs), inputs, *order, **options)

    return call


def _copy_that_requires_grad(inputs: Tensor) -> Tensor:
    return inputs.clone().detach().requires_grad_()
