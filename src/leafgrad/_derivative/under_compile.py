"""Support for derivatives inside code that is compiled by `torch.compile`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.arguments import Function


def traceable(differentiate: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `differentiate` so that `torch.compile` can trace its calls.

    `differentiate` takes outputs and inputs. If the outputs are passed as a function, the compiler
    traces this function like the caller's own code. The derivatives are one node of the same graph
    (see `node_of_compiled_code`). If `differentiate` itself is passed to `torch.compile`, it runs
    uncompiled.
    """
    outside = _autograd.outside_compiled_code(differentiate)
    derivatives = _autograd.node_of_compiled_code(differentiate)
    leaf = _autograd.node_of_compiled_code(_copy_that_requires_grad)

    def call(outputs: Tensor | Function, inputs: Tensor, *order: Any, **options: Any) -> Any:
        if _autograd.is_compiled_alone():
            return outside(outputs, inputs, *order, **options)
        if isinstance(outputs, Tensor):
            return derivatives(outputs, inputs, *order, **options)
        # The compiler cannot trace this with `mode=` as a keyword.
        with torch.inference_mode(False), torch.enable_grad():  # noqa: FBT003
            if not inputs.requires_grad:
                inputs = leaf(inputs)
            return derivatives(outputs(inputs), inputs, *order, **options)

    return call


def _copy_that_requires_grad(inputs: Tensor) -> Tensor:
    return inputs.clone().detach().requires_grad_()
