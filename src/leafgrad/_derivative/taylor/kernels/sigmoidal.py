"""tanh and the logistic function of a series, which differ in how their slope depends on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad._derivative.taylor.constants import number
from leafgrad._derivative.taylor.kernels.contraction import contract, send_back
from leafgrad._derivative.taylor.kernels.plans import Level, Recursion
from leafgrad._derivative.taylor.kernels.strips import Place, Rows, accumulate

DerivativeOfValue = Callable[[Tensor], tuple[Tensor, Tensor]]


class Sigmoidal(NamedTuple):
    """A function whose slope is quadratic in its value, as ``1 - y**2`` or ``y - y**2``.

    Where the slope is v at order 0, and m from there to the value at the steepest, a value y + h
    has the slope ``v - 2 f``, with ``f = h m + h**2 / 2`` for its fall. So the result tells its
    slope, and nothing else need be kept.

    Attributes:
        plan: The recursion that solves for it.
        derivative_of_value: Gives the slope as a function of the value.
    """

    plan: Recursion
    derivative_of_value: DerivativeOfValue

    def solved(self, value: Tensor, argument: Tensor) -> Tensor:
        """Give all coefficients of the function, whose value at order 0 is `value`."""
        slope, middle = self.derivative_of_value(value)
        out = self.plan.begun(argument, slope)
        x, y = Rows(argument), Rows(out)
        for level in self.plan.levels[:-1]:
            accumulate(y, x, _falls(level, middle, y), level.chain, weight=-2)
        return out

    def vjp(self, value: Tensor, out: Tensor, gradient: Tensor, to_value: Tensor) -> Tensor:
        """Give the gradient of the argument, from that of the result.

        Write into `to_value` that of the value, which is what arrives at the argument at order 0,
        divided by the slope. Where this is zero, so is what arrives.
        """
        plan = self.plan
        slope, middle = self.derivative_of_value(value)
        to_argument = plan.given(gradient) * slope
        arrived: dict[Place, Tensor] = {0: to_value}
        x, y, g = Rows(to_argument), Rows(out), Rows(gradient)
        for level in plan.levels:
            falls = _falls(level, middle, y)
            accumulate(arrived, falls, g, level.dot)
            accumulate(x, falls, g, level.pullback, weight=-2)
        slope.clamp_(min=torch.finfo(slope.dtype).tiny)
        zero = number(0.0, slope.dtype, slope.device)
        torch.addcdiv(zero, to_value, slope, value=-2, out=to_value)
        return to_argument

    def vjp_recorded(self, value: Tensor, out: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Do the same by operations that record themselves."""
        plan = self.plan
        slope, middle = self.derivative_of_value(value)
        rates = out * (middle * -2) - contract(plan.square, 2, out, out)
        own = plan.given(gradient) * slope
        to_value = (rates * gradient).sum(0) / slope.masked_fill(slope == 0, math.inf)
        return to_value, send_back(plan.products, 0, rates, gradient, start=own)


def tanh_derivative(value: Tensor) -> tuple[Tensor, Tensor]:
    """Give the slope as a function of the value, and how far this is from where it is steepest."""
    one = number(1.0, value.dtype, value.device)
    return torch.addcmul(one, value, value, value=-1), value


def sigmoid_derivative(value: Tensor) -> tuple[Tensor, Tensor]:
    return torch.addcmul(value, value, value, value=-1), value - 0.5


def _falls(level: Level, middle: Tensor, y: Rows) -> Rows:
    """Give the coefficients of the fall that have one degree."""
    start = y[level.span] * middle
    falls = Rows(start, level.first)
    falls[level.span] = start
    accumulate(falls, y, y, level.squares, weight=0.5)
    return falls
