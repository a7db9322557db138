"""Products of stacked coefficients as one function, whose derivatives are such products again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from leafgrad import _autograd
from leafgrad._derivative.taylor.kernels.plans import Contraction, Recursion
from leafgrad._derivative.taylor.kernels.products import (
    StackViews,
    add_products,
    add_products_to,
    common_shape,
)


def contract(
    plan: Contraction, slot: int, first: Tensor, second: Tensor, start: Tensor | None = None
) -> Tensor:
    """Add up products of two stacks of coefficients for the third, in `slot`, on top of `start`."""
    if not torch.is_grad_enabled():
        return _contracted(plan, slot, first, second, start)
    result: Tensor = _autograd.applied(_Contract, plan, slot, first, second, start)
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
            to_first = summed_to(send_back(ctx.plan, low, *pair), first.shape)
        if needs_second:
            pair = (gradient, first) if ctx.slot < low else (first, gradient)
            to_second = summed_to(send_back(ctx.plan, high, *pair), second.shape)
        return None, None, to_first, to_second, gradient if needs_start else None


def _contracted(
    plan: Contraction, slot: int, first: Tensor, second: Tensor, start: Tensor | None
) -> Tensor:
    if start is None:
        shape = common_shape(first.shape[1:], second.shape[1:])
        out = first.new_empty(plan.sizes[slot], *shape)
        for place in plan.untouched(slot):
            out[place].zero_()
        add_products(StackViews(out), StackViews(first), StackViews(second), plan.table(slot))
    else:
        out = start.new_empty(start.shape)
        for place in plan.untouched(slot):
            out[place].copy_(start[place])
        add_products_to(
            StackViews(start),
            StackViews(out),
            StackViews(first),
            StackViews(second),
            plan.table(slot),
        )
    return out


def send_back(
    plan: Contraction, slot: int, first: Tensor, second: Tensor, start: Tensor | None = None
) -> Tensor:
    """Do what `contract` does where one of the two may be a batch of gradients."""
    if _autograd.is_batch(first) or _autograd.is_batch(second):
        return _written_out(plan, slot, first, second, start)
    return contract(plan, slot, first, second, start)


def _written_out(
    plan: Contraction, slot: int, first: Tensor, second: Tensor, start: Tensor | None
) -> Tensor:
    """Add up the products by operations that write into nothing."""
    low, high = (other for other in range(3) if other != slot)
    if start is None:
        start = torch.zeros_like(first[:1] * second[:1])
        start = start.expand(plan.sizes[slot], *start.shape[1:])
    sums = [*start.unbind(0)]
    for product in plan.products:
        places = product[:3]
        sums[places[slot]] = sums[places[slot]] + first[places[low]] * second[places[high]]
    return torch.stack(sums)


def through(plan: Recursion, slope: Tensor, gradient: Tensor) -> Tensor:
    """Send a gradient back through a function whose derivative is the series ``1 + slope``."""
    return send_back(plan.products, 0, slope, gradient, start=plan.given(gradient))


def summed_to(ours: Tensor, shape: torch.Size) -> Tensor:
    """Add up along axes that were broadcast."""
    return ours if ours.shape == shape else ours.sum_to_size(shape)


FUNCTIONS: tuple[type[Function], ...] = (_Contract,)
