"""tanh and the logistic function of a series, which differ in how their slope depends on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from leafgrad._taylor._contract import applied, contract, dot, scaled, summed_to, through
from leafgrad._taylor._plans import Recursion
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

    Where v is the slope at order 0 and b its derivative, y = value + v q and the slope is v r with
    r = 1 + b q - v q**2 and q' = r * argument'. Nothing is divided by v, so that this is exact
    where v is zero as well.
    """

    @staticmethod
    def forward(
        ctx: Any, plan: Recursion, slope_of: Slope, value: Tensor, argument: Tensor
    ) -> Tensor:
        slope, bend = slope_of(value)
        q, r = _solve_bend(plan, slope, bend, argument)
        ctx.save_for_backward(value, argument, r, slope)
        ctx.plan, ctx.slope_of = plan, slope_of
        return q.mul_(slope)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        value, argument, r, slope = ctx.saved_tensors
        (gradient,) = gradients
        if torch.is_grad_enabled():
            slope, _ = ctx.slope_of(value)
            _, r = applied(_BendSlope, ctx.plan, ctx.slope_of, value, argument)
        to_value = dot(r, gradient) if ctx.needs_input_grad[2] else None
        to_argument = None
        if ctx.needs_input_grad[3]:
            to_argument = summed_to(scaled(through(ctx.plan, r, gradient), slope), argument.shape)
        return None, None, to_value, to_argument


def _solve_bend(
    plan: Recursion, slope: Tensor, bend: Tensor, argument: Tensor
) -> tuple[Tensor, Tensor]:
    """Give q and r - 1."""
    stack_q = slope.new_empty(plan.size, *slope.shape)
    stack_r = torch.empty_like(stack_q)
    weighted, q, r = map(Rows, (plan.start(stack_q, argument), stack_q, stack_r))
    falling = slope.neg() if len(plan.levels) > 1 else slope
    for level in plan.levels:
        ours, known = q[level.span], r[level.span]
        if level.degree > 1:
            if not plan.is_short:
                ours.div_(level.degree)
            known.mul_(falling).addcmul_(ours, bend)
        else:
            torch.mul(ours, bend, out=known)
        accumulate(q, weighted, r, level.chain, weight=plan.weight)
        accumulate(r, q, q, level.mixed, weight=2)
        accumulate(r, q, q, level.equal)
    return stack_q, stack_r


class _BendSlope(Function):
    """q and r - 1 themselves, for derivatives of derivatives."""

    @staticmethod
    def forward(
        ctx: Any, plan: Recursion, slope_of: Slope, value: Tensor, argument: Tensor
    ) -> tuple[Tensor, Tensor]:
        q, r = _solve_bend(plan, *slope_of(value), argument)
        ctx.save_for_backward(value, q, r)
        ctx.plan, ctx.slope_of, ctx.shape = plan, slope_of, argument.shape
        return q, r

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        value, q, r = ctx.saved_tensors
        plan = ctx.plan
        to_q, to_r = gradients
        slope, bend = ctx.slope_of(value)
        # Where the argument moves, q moves by r and r by b - 2 v q for each of q; where the value
        # moves, q moves by -q**2 and r by -2 q - b q**2 besides.
        to_q = to_q + bend * to_r - 2 * contract(plan.square, 0, slope * q, to_r)
        square = contract(plan.square, 2, q, q)
        to_value = -((2 * q + bend * square) * to_r + square * to_q).sum(0)
        to_argument = through(plan, r, to_q).sum_to_size(ctx.shape)
        return None, None, to_value, to_argument


@cache
def _one(dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(mode=False):
        return torch.ones((), dtype=dtype, device=device)


FUNCTIONS: tuple[type[Function], ...] = (_Bend, _BendSlope)
