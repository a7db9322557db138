"""What runs on stacked coefficients in place, and its derivatives.

Each function here has a backward that is written in the functions of this file and recorded
operations, so that it can be differentiated as often as one likes. The gain over recording every
step is in memory, and in the number of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from leafgrad._taylor._algebra import Contraction, Recursion, accumulate


def contract(
    plan: Contraction, slot: int, first: Tensor, second: Tensor, start: Tensor | None = None
) -> Tensor:
    """Add up products of two stacks of coefficients for the third, in `slot`, on top of `start`."""
    if not torch.is_grad_enabled():
        return _contracted(plan, slot, first, second, start)
    result: Tensor = _Contract.apply(plan, slot, first, second, start)
    return result


class _Contract(Function):
    @staticmethod
    def forward(
        ctx: Any, plan: Contraction, slot: int, first: Tensor, second: Tensor, start: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(first, second)
        ctx.plan, ctx.slot = plan, slot
        return _contracted(plan, slot, first, second, start)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        first, second = ctx.saved_tensors
        (gradient,) = gradients
        low, high = (slot for slot in range(3) if slot != ctx.slot)
        _, _, needs_first, needs_second, needs_start = ctx.needs_input_grad
        to_first = to_second = None
        if needs_first:
            pair = (gradient, second) if ctx.slot < high else (second, gradient)
            to_first = summed_to(contract(ctx.plan, low, *pair), first.shape)
        if needs_second:
            pair = (gradient, first) if ctx.slot < low else (first, gradient)
            to_second = summed_to(contract(ctx.plan, high, *pair), second.shape)
        return None, None, to_first, to_second, gradient if needs_start else None


def _contracted(
    plan: Contraction, slot: int, first: Tensor, second: Tensor, start: Tensor | None
) -> Tensor:
    if start is None:
        shape = torch.broadcast_shapes(first.shape[1:], second.shape[1:])
        out = first.new_empty(plan.sizes[slot], *shape)
    else:
        out = start.new_empty(start.shape)
    for place in plan.untouched(slot):
        if start is None:
            out[place].zero_()
        else:
            out[place].copy_(start[place])
    accumulate(out, first, second, plan.table(slot), start=start)
    return out


def through(plan: Recursion, slope: Tensor, gradient: Tensor) -> Tensor:
    """Send a gradient back through a function whose derivative is the series ``1 + slope``."""
    own = gradient[: len(plan.seeds)] if plan.is_prefix else gradient[list(plan.seeds)]
    return contract(plan.products, 0, slope, gradient, start=own)


def dot(first: Tensor, second: Tensor) -> Tensor:
    """Add up the products of corresponding coefficients."""
    if torch.is_grad_enabled():
        return (first * second).sum(0)
    total = first[0] * second[0]
    for a, b in zip(first[1:], second[1:], strict=True):
        total.addcmul_(a, b)
    return total


def summed_to(ours: Tensor, shape: torch.Size) -> Tensor:
    """Add up along axes that were broadcast."""
    return ours if ours.shape == shape else ours.sum_to_size(shape)


def scaled(ours: Tensor, factor: Tensor) -> Tensor:
    """Multiply something that nobody else needs."""
    return ours * factor if torch.is_grad_enabled() else ours.mul_(factor)


# --- tanh and the logistic function, which differ in how their slope depends on their value


def tanh(plan: Recursion, value: Tensor, argument: Tensor) -> Tensor:
    """Give the coefficients of tanh, which is `value` at order 0, of a series."""
    result: Tensor = _Bend.apply(plan, _tanh_slope, value, argument)
    return result


def sigmoid(plan: Recursion, value: Tensor, argument: Tensor) -> Tensor:
    """Give the coefficients of the logistic function, `value` at order 0, of a series."""
    result: Tensor = _Bend.apply(plan, _sigmoid_slope, value, argument)
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
            _, r = _BendSlope.apply(ctx.plan, ctx.slope_of, value, argument)
        to_value = dot(r, gradient) if ctx.needs_input_grad[2] else None
        to_argument = None
        if ctx.needs_input_grad[3]:
            to_argument = summed_to(scaled(through(ctx.plan, r, gradient), slope), argument.shape)
        return None, None, to_value, to_argument


def _solve_bend(
    plan: Recursion, slope: Tensor, bend: Tensor, argument: Tensor
) -> tuple[Tensor, Tensor]:
    """Give q and r - 1."""
    falling = slope.neg()
    q = slope.new_empty(plan.size, *slope.shape)
    r = torch.empty_like(q)
    weighted = plan.start(q, argument)
    for level in plan.levels:
        ours, known = q[level.span], r[level.span]
        if level.degree > 1:
            ours.div_(level.degree)
            known.mul_(falling).addcmul_(ours, bend)
        else:
            torch.mul(ours, bend, out=known)
        accumulate(q, weighted, r, level.chain)
        accumulate(r, q, q, level.mixed, weight=2)
        accumulate(r, q, q, level.equal)
    return q, r


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


def exp(plan: Recursion, argument: Tensor) -> Tensor:
    """Give the coefficients of ``exp(argument) - 1``."""
    result: Tensor = _Exp.apply(plan, argument)
    return result


class _Exp(Function):
    @staticmethod
    def forward(ctx: Any, plan: Recursion, argument: Tensor) -> Tensor:
        out = argument.new_empty(plan.size, *argument.shape[1:])
        weighted = plan.start(out, argument)
        for level in plan.levels:
            out[level.span].div_(level.degree)
            accumulate(out, weighted, out, level.chain)
        ctx.save_for_backward(out)
        ctx.plan = plan
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (out,) = ctx.saved_tensors
        return None, through(ctx.plan, out, gradients[0])


def sin_cos(plan: Recursion, argument: Tensor) -> Tensor:
    """Give the coefficients of ``sin(argument)`` and ``cos(argument) - 1``, one above the other."""
    result: Tensor = _SinCos.apply(plan, argument)
    return result


class _SinCos(Function):
    @staticmethod
    def forward(ctx: Any, plan: Recursion, argument: Tensor) -> Tensor:
        both = argument.new_zeros(2, plan.size, *argument.shape[1:])
        sine, cosine = both
        weighted = plan.start(sine, argument)
        for level in plan.levels:
            both[:, level.span].div_(level.degree)
            accumulate(sine, weighted, cosine, level.chain, is_zeroed=True)
            accumulate(cosine, weighted, sine, level.chain, weight=-1, is_zeroed=True)
        ctx.save_for_backward(both)
        ctx.plan = plan
        return both

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        sine, cosine = ctx.saved_tensors[0]
        to_sine, to_cosine = gradients[0]
        from_cosine = contract(ctx.plan.products, 0, sine, to_cosine)
        return None, through(ctx.plan, cosine, to_sine) - from_cosine


def inverse(plan: Recursion, argument: Tensor) -> Tensor:
    """Give the coefficients of ``1 / (1 + argument) - 1``."""
    result: Tensor = _Inverse.apply(plan, argument)
    return result


class _Inverse(Function):
    @staticmethod
    def forward(ctx: Any, plan: Recursion, argument: Tensor) -> Tensor:
        out = argument.new_zeros(plan.size, *argument.shape[1:])
        plan.place(out, argument)
        for level in plan.levels:
            out[level.span].neg_()
            accumulate(out, argument, out, level.chain, is_zeroed=True)
        ctx.save_for_backward(out)
        ctx.plan = plan
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (out,) = ctx.saved_tensors
        plan = ctx.plan
        square = 2 * out + contract(plan.square, 2, out, out)
        return None, -through(plan, square, gradients[0])


def root(plan: Recursion, argument: Tensor) -> Tensor:
    """Give the coefficients of ``sqrt(1 + argument) - 1``."""
    result: Tensor = _Root.apply(plan, argument)
    return result


class _Root(Function):
    @staticmethod
    def forward(ctx: Any, plan: Recursion, argument: Tensor) -> Tensor:
        out = argument.new_zeros(plan.size, *argument.shape[1:])
        plan.place(out, argument)
        for level in plan.levels:
            out[level.span].div_(2)
            accumulate(out, out, out, level.mixed, weight=-2, is_zeroed=True)
            accumulate(out, out, out, level.equal, weight=-1, is_zeroed=True)
        ctx.save_for_backward(out)
        ctx.plan = plan
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (out,) = ctx.saved_tensors
        plan = ctx.plan
        slope = inverse(plan.full, out)
        return None, through(plan, slope, gradients[0]) / 2


# Their backward is recorded whole, whatever constants they keep.
OWN_FUNCTIONS: frozenset[type[Function]] = frozenset(
    {_Contract, _Bend, _BendSlope, _Exp, _SinCos, _Inverse, _Root}
)
