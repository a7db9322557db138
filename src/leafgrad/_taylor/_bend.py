"""tanh and the logistic function of a series, which differ in how their slope depends on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from leafgrad import _autograd
from leafgrad._taylor._constants import made_once
from leafgrad._taylor._contract import contract, summed_to
from leafgrad._taylor._plans import Level, Recursion
from leafgrad._taylor._strips import Place, Rows, accumulate

Slope = Callable[[Tensor], tuple[Tensor, Tensor]]


class Bent(NamedTuple):
    """What the coefficients of a bending function come from: those of its argument, and its value.

    Attributes:
        plan: The recursion that solves for it.
        slope_of: Gives the slope as a function of the value.
        value: The function at order 0.
        argument: The coefficients of the argument.
    """

    plan: Recursion
    slope_of: Slope
    value: Tensor
    argument: Tensor

    def stack(self) -> Tensor:
        """Give the coefficients that are asked for."""
        found = _autograd.applied(_Bend, *self)
        result: Tensor = found[1] if self.plan.asked else found
        return result

    def times(self, stack: Tensor, matrix: Tensor) -> Tensor:
        """Multiply the rows of the stack by a matrix, and do not keep the stack for backward."""
        result: Tensor = _autograd.applied(_BentTimes, *self, stack.detach(), matrix)
        return result


def tanh_slope(value: Tensor) -> tuple[Tensor, Tensor]:
    """Give the slope as a function of the value, and how far this is from where it is steepest."""
    one = _number(1.0, value.dtype, value.device)
    return torch.addcmul(one, value, value, value=-1), value


def sigmoid_slope(value: Tensor) -> tuple[Tensor, Tensor]:
    return torch.addcmul(value, value, value, value=-1), value - 0.5


class _Bend(Function):
    """A function whose slope is quadratic in its value, as ``1 - y**2`` or ``y - y**2``.

    Where the slope is v at order 0, and m from there to the value at the steepest, a value y + h
    has the slope ``v - 2 f``, with ``f = h m + h**2 / 2`` for its fall. So the result tells its
    slope, and nothing else is kept. What is asked for, where this is a part, is a result of its
    own, so that the rest gets no gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, plan: Recursion, slope_of: Slope, value: Tensor, argument: Tensor
    ) -> Tensor | tuple[Tensor, Tensor]:
        out = _solved(plan, slope_of, value, argument)
        ctx.save_for_backward(value, out)
        ctx.plan, ctx.slope_of, ctx.shape = plan, slope_of, argument.shape
        if not plan.asked:
            return out
        ctx.set_materialize_grads(False)
        return out, out[plan.asked :]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        value, out = ctx.saved_tensors
        plan, gradient = ctx.plan, gradients[0]
        if plan.asked:
            plan, gradient = _arrived(plan, out, *gradients)
        pull = _recorded_pull if torch.is_grad_enabled() else _pull
        to_value, to_argument = pull(plan, ctx.slope_of, value, out, gradient)
        return None, None, to_value, summed_to(to_argument, ctx.shape)


class _BentTimes(Function):
    """The rows of what was bent times a matrix; they are bent once more in backward."""

    @staticmethod
    def forward(
        ctx: Any,
        plan: Recursion,
        slope_of: Slope,
        value: Tensor,
        argument: Tensor,
        out: Tensor,
        matrix: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(value, argument, matrix)
        ctx.plan, ctx.slope_of = plan, slope_of
        return out @ matrix

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        value, argument, matrix = ctx.saved_tensors
        (gradient,) = gradients
        out = Bent(ctx.plan, ctx.slope_of, value, argument).stack()
        to_matrix = out.flatten(0, -2).t() @ gradient.flatten(0, -2)
        pull = _recorded_pull if torch.is_grad_enabled() else _pull
        to_value, to_argument = pull(ctx.plan, ctx.slope_of, value, out, gradient @ matrix.t())
        return None, None, to_value, summed_to(to_argument, argument.shape), None, to_matrix


def _arrived(
    plan: Recursion, out: Tensor, whole: Tensor | None, to_asked: Tensor | None
) -> tuple[Recursion, Tensor]:
    """Give the gradient of what is asked for or, if there is one, of the whole, and its plan."""
    if to_asked is None:
        to_asked = torch.zeros_like(out[plan.asked :])
    if whole is None and not torch.is_grad_enabled():
        return plan, to_asked
    padded = torch.cat([torch.zeros_like(out[: plan.asked]), to_asked])
    return plan.whole, padded if whole is None else padded + whole


def _solved(plan: Recursion, slope_of: Slope, value: Tensor, argument: Tensor) -> Tensor:
    slope, middle = slope_of(value)
    out = plan.begun(argument, slope)
    x, y = Rows(argument), Rows(out)
    for level in plan.levels[:-1]:
        accumulate(y, x, _falls(level, middle, y), level.chain, weight=-2)
    return out


def _falls(level: Level, middle: Tensor, y: Rows) -> Rows:
    """Give the coefficients of the fall that have one degree."""
    start = y[level.span] * middle
    falls = Rows(start, level.first)
    falls[level.span] = start
    accumulate(falls, y, y, level.squares, weight=0.5)
    return falls


def _pull(
    plan: Recursion, slope_of: Slope, value: Tensor, out: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """Give the gradients of the value and of the argument.

    That of the value is what arrives at the argument at order 0, divided by the slope. Where this
    is zero, so is what arrives.
    """
    slope, middle = slope_of(value)
    to_argument = (
        plan.given_part(gradient, slope, out) if plan.asked else plan.given(gradient) * slope
    )
    total = torch.empty_like(slope)
    if plan.makes_much_of_little:
        del slope  # where memory is short, as `out` and `gradient` are there for this alone
    arrived: dict[Place, Tensor] = {0: total}
    x, y, g = Rows(to_argument), Rows(out), Rows(gradient, plan.asked)
    for level in plan.levels:
        falls = _falls(level, middle, y)
        accumulate(arrived, falls, g, level.dot)
        accumulate(x, falls, g, level.pullback, weight=-2)
        del falls  # before those of the next level
    if plan.makes_much_of_little:
        slope, _ = slope_of(value)
    slope.clamp_(min=torch.finfo(slope.dtype).tiny)
    zero = _number(0.0, slope.dtype, slope.device)
    return torch.addcdiv(zero, total, slope, value=-2, out=total), to_argument


def _recorded_pull(
    plan: Recursion, slope_of: Slope, value: Tensor, out: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    slope, middle = slope_of(value)
    rates = out * (middle * -2) - contract(plan.square, 2, out, out)
    own = plan.given(gradient) * slope
    to_value = (rates * gradient).sum(0) / slope.masked_fill(slope == 0, math.inf)
    return to_value, contract(plan.products, 0, rates, gradient, start=own)


@made_once
def _number(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(mode=False):
        return torch.tensor(value, dtype=dtype, device=device)


FUNCTIONS: tuple[type[Function], ...] = (_Bend, _BentTimes)
