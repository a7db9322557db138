"""tanh and the logistic function of a series, which differ in how their slope depends on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from leafgrad import _autograd
from leafgrad._taylor._contract import contract, summed_to
from leafgrad._taylor._plans import Level, Recursion
from leafgrad._taylor._strips import Rows, accumulate


def tanh(plan: Recursion, value: Tensor, argument: Tensor) -> Tensor:
    """Give the coefficients of tanh, which is `value` at order 0, of a series."""
    result: Tensor = _autograd.applied(_Bend, plan, _tanh_slope, value, argument)
    return result


def sigmoid(plan: Recursion, value: Tensor, argument: Tensor) -> Tensor:
    """Give the coefficients of the logistic function, `value` at order 0, of a series."""
    result: Tensor = _autograd.applied(_Bend, plan, _sigmoid_slope, value, argument)
    return result


Slope = Callable[[Tensor], tuple[Tensor, Tensor]]


def _tanh_slope(value: Tensor) -> tuple[Tensor, Tensor]:
    """Give the slope as a function of the value, and how far this is from where it is steepest."""
    one = _number(1.0, value.dtype, value.device)
    return torch.addcmul(one, value, value, value=-1), value


def _sigmoid_slope(value: Tensor) -> tuple[Tensor, Tensor]:
    return torch.addcmul(value, value, value, value=-1), value - 0.5


class _Bend(Function):
    """A function whose slope is quadratic in its value, as ``1 - y**2`` or ``y - y**2``.

    Where the slope is v at order 0, and m from there to the value at the steepest, a value y + h
    has the slope ``v - 2 f``, with ``f = h m + h**2 / 2`` for its fall. So the result tells its
    slope, and nothing else is kept.
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
        slope, middle = ctx.slope_of(value)
        pull = _recorded_pull if torch.is_grad_enabled() else _pull
        to_value, to_argument = pull(ctx.plan, slope, middle, out, *gradients)
        return None, None, to_value, summed_to(to_argument, ctx.shape)


def _solved(plan: Recursion, slope_of: Slope, value: Tensor, argument: Tensor) -> Tensor:
    slope, middle = slope_of(value)
    out = plan.begun(argument, slope)
    x, y = Rows(argument), Rows(out)
    for level in plan.levels[:-1]:
        accumulate(y, x, _falls(level, middle, y), level.chain, weight=-2)
    return out


def _falls(level: Level, middle: Tensor, y: Rows) -> Rows:
    """Give the coefficients of the fall that have one degree."""
    falls = Rows(y[level.span] * middle, level.span)
    accumulate(falls, y, y, level.squares, weight=0.5)
    return falls


def _pull(
    plan: Recursion, slope: Tensor, middle: Tensor, out: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """Give the gradients of the value and of the argument.

    That of the value is what arrives at the argument at order 0, divided by the slope. Where this
    is zero, so is what arrives.
    """
    to_argument = plan.given(gradient) * slope
    total = torch.empty_like(slope)
    arrived, x, y, g = Rows(total, 0), Rows(to_argument), Rows(out), Rows(gradient)
    for level in plan.levels:
        falls = _falls(level, middle, y)
        accumulate(arrived, falls, g, level.dot)
        accumulate(x, falls, g, level.pullback, weight=-2)
    slope.clamp_(min=torch.finfo(slope.dtype).tiny)
    zero = _number(0.0, slope.dtype, slope.device)
    return torch.addcdiv(zero, total, slope, value=-2, out=total), to_argument


def _recorded_pull(
    plan: Recursion, slope: Tensor, middle: Tensor, out: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    rates = out * (middle * -2) - contract(plan.square, 2, out, out)
    own = plan.given(gradient) * slope
    to_value = (rates * gradient).sum(0) / slope.masked_fill(slope == 0, math.inf)
    return to_value, contract(plan.products, 0, rates, gradient, start=own)


@cache
def _number(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(mode=False):
        return torch.tensor(value, dtype=dtype, device=device)


FUNCTIONS: tuple[type[Function], ...] = (_Bend,)
