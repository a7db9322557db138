"""Tensors and custom functions that tests share."""

from collections.abc import Callable
from typing import Any

import torch


def leaf(*shape: int) -> torch.Tensor:
    """Return a leaf of ones that requires grad."""
    return torch.ones(*shape, requires_grad=True)


def holding(*values: float) -> torch.Tensor:
    """Return a leaf that has these values and requires grad."""
    return torch.tensor(values, requires_grad=True)


def node_of(tensor: torch.Tensor) -> Any:
    """Return the node of a result."""
    assert tensor.grad_fn is not None
    return tensor.grad_fn


def outcome_of(function: Any, *inputs: Any) -> Any:
    """Apply a custom function."""
    return function.apply(*inputs)


class Doubled(torch.autograd.Function):
    """Saves its input, and keeps a mask on ctx."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mask = x > 0
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


class Cube(torch.autograd.Function):
    """Has no Taylor rule, and a backward that autograd tracks completely."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * gradients[0]


def custom(backward: Callable[..., Any]) -> Any:
    """Return a custom function that copies its input and has this backward."""
    methods = {
        "forward": staticmethod(lambda _, x: x.clone()),
        "backward": staticmethod(lambda _, *gradients: backward(*gradients)),
    }
    function: Any = type("Custom", (torch.autograd.Function,), methods)
    return function.apply
