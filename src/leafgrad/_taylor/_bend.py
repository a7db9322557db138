"""tanh and the logistic function of a series, which differ in how their slope depends on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from leafgrad._taylor._contract import applied, contract, summed_to
from leafgrad._taylor._plans import Level, Recursion
from leafgrad._taylor._strips import Rows, accumulate


def tanh(plan: Recursion, value: Tensor, argument: Tensor) -> Tensor:
    """Give the coefficients of tanh, which is `value` at order 0, of a series."""
    result: Tensor = applied(_Bend, plan, _tanh_slope, value, argument)
    return result


def sigmoid(plan: Recursion, value: Tensor, argument: Tensor) -> Tensor:
    """Give the coefficients of the logistic function, `value` at order 0, of a series."""
    result: Tensor = applied(_Bend, plan, _sigmoid_slope, value, argument)
    return result


Slope = Callable[[Tensor], tuple[Tensor, Tensor]]


def _tanh_slope(value: Tensor) -> tuple[Tensor, Tensor]:
    """Give the slope as a function of the value, and its derivative in the value."""
    return torch.addcmul(_one(value.dtype, value.device), value, value, value=-1), value * -2


def _sigmoid_slope(value: Tensor) -> tuple[Tensor, Tensor]:
    return torch.addcmul(value, value, value, value=-1), 1 - 2 * value


class _Bend(Function):
    """A function whose slope is quadratic in its value, as ``1 - y**2`` or ``y - y**2``.

    With v the slope at order 0 and b its derivative, a value y + h has the slope v + b h - h**2.
    So the result tells its slope, and nothing else is kept.
    """

    @staticmethod
    def forward(
        ctx: Any, plan: Recursion, slope_of: Slope, value: Tensor, argument: Tensor
    ) -> Tensor:
        out = _solved(plan, slope_of, value, argument)
        ctx.save_for_backward(value, out)
        ctx.plan, ctx.slope_of, ctx.shape = plan, slope_of, argument.shape
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        value, out = ctx.saved_tensors
        slope, bend = ctx.slope_of(value)
        pull = _recorded_pull if torch.is_grad_enabled() else _pull
        to_value, to_argument = pull(ctx.plan, slope, bend, out, *gradients)
        return None, None, to_value, summed_to(to_argument, ctx.shape)


def _solved(plan: Recursion, slope_of: Slope, value: Tensor, argument: Tensor) -> Tensor:
    slope, bend = slope_of(value)
    out = plan.begun(argument, slope)
    x, y = Rows(argument), Rows(out)
    for level in plan.levels[:-1]:
        accumulate(y, x, _rates(level, bend, y), level.chain)
    return out


def _rates(level: Level, bend: Tensor, y: Rows) -> Rows:
    """Give the coefficients of the slope that have one degree."""
    rates = Rows(y[level.span] * bend, level.span)
    accumulate(rates, y, y, level.squares, weight=-1)
    return rates


def _pull(
    plan: Recursion, slope: Tensor, bend: Tensor, out: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """Give the gradients of the value and of the argument.

    That of the value is what arrives at the argument at order 0, divided by the slope. Where this
    is zero, so is what arrives.
    """
    to_argument = gradient.narrow(0, 0, len(plan.argument)) * slope
    to_value = torch.empty_like(slope)
    total, x, y, g = Rows(to_value, 0), Rows(to_argument), Rows(out), Rows(gradient)
    for level in plan.levels:
        rates = _rates(level, bend, y)
        accumulate(total, rates, g, level.dot)
        accumulate(x, rates, g, level.pullback)
    return to_value.div_(slope.clamp_(min=torch.finfo(slope.dtype).tiny)), to_argument


def _recorded_pull(
    plan: Recursion, slope: Tensor, bend: Tensor, out: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    rates = out * bend - contract(plan.square, 2, out, out)
    own = gradient.narrow(0, 0, len(plan.argument)) * slope
    to_value = (rates * gradient).sum(0) / slope.masked_fill(slope == 0, math.inf)
    return to_value, contract(plan.products, 0, rates, gradient, start=own)


@cache
def _one(dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(mode=False):
        return torch.ones((), dtype=dtype, device=device)


FUNCTIONS: tuple[type[Function], ...] = (_Bend,)
