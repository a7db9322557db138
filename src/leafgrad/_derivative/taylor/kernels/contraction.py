"""Truncated products of stacked coefficients, and the derivatives of these products.

The product of a left stack ``[A, *shape]`` and a right stack ``[B, *shape]`` is a stack
``[C, *shape]`` (see `plans.Contraction`). The sum of ``left_a right_b out_c`` over all products is
linear in each stack. So one function, `contract`, computes the product and both of its derivatives:
it computes the stack number `slot` from the other two. Shapes may be broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from leafgrad import _autograd
from leafgrad._derivative.taylor.kernels.plans import Contraction, Recurrence
from leafgrad._derivative.taylor.kernels.products import (
    StackViews,
    add_products,
    add_products_to,
    common_shape,
)


def holomorphic(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a backward that is written for real numbers so that it is correct for complex ones.

    In PyTorch's convention, a holomorphic function with the derivative F' maps a gradient g to
    ``conj(F') g``. This is the conjugate of ``F' conj(g)``.
    """

    def conjugated(ctx: Any, gradient: Any) -> Any:
        if not gradient.is_complex():
            return backward(ctx, gradient)
        sent = backward(ctx, gradient.conj_physical())
        return tuple(s.conj_physical() if isinstance(s, Tensor) else s for s in sent)

    return conjugated


def contract(
    plan: Contraction, slot: int, first: Tensor, second: Tensor, start: Tensor | None = None
) -> Tensor:
    """Return the stack in `slot`: `start` plus the products of the stacks in the other two slots.

    The plan says which coefficients are multiplied, and to which coefficient a product is added.

    Args:
        plan: The products to sum.
        slot: The stack to compute: 0 for the left factor, 1 for the right one, 2 for the result.
        first: The stack of the lower of the other two slots, ``[sizes[low], *shape]``.
        second: The stack of the higher slot, ``[sizes[high], *shape]``.
        start: ``[sizes[slot], *shape]`` in the broadcast shape; None for zero.

    Returns:
        A stack ``[sizes[slot], *shape]``.
    """
    if not torch.is_grad_enabled():
        return _contract_into(plan, slot, first, second, start)
    result: Tensor = _autograd.applied(_Contract, plan, slot, first, second, start)
    return result


class _Contract(Function):
    @staticmethod
    def forward(
        ctx: Any, plan: Contraction, slot: int, first: Tensor, second: Tensor, start: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(first, second)
        ctx.plan, ctx.slot = plan, slot
        return _contract_into(plan, slot, first, second, start)

    @staticmethod
    @holomorphic
    def backward(ctx: Any, *gradients: Any) -> Any:
        first, second = ctx.saved_tensors
        (gradient,) = gradients
        low, high = (slot for slot in range(3) if slot != ctx.slot)
        _, _, needs_first, needs_second, needs_start = ctx.needs_input_grad
        to_first = to_second = None
        if needs_first:
            pair = (gradient, second) if ctx.slot < high else (second, gradient)
            to_first = sum_to_shape(vjp(ctx.plan, low, *pair), first.shape)
        if needs_second:
            pair = (gradient, first) if ctx.slot < low else (first, gradient)
            to_second = sum_to_shape(vjp(ctx.plan, high, *pair), second.shape)
        return None, None, to_first, to_second, gradient if needs_start else None


def _contract_into(
    plan: Contraction, slot: int, first: Tensor, second: Tensor, start: Tensor | None
) -> Tensor:
    """Do what `contract` does, with the same arguments, by in-place operations on a new stack."""
    if _autograd.is_intercepted():
        return _contract_out_of_place(plan, slot, first, second, start)
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


def vjp(
    plan: Contraction, slot: int, first: Tensor, second: Tensor, start: Tensor | None = None
) -> Tensor:
    """Return what `contract` returns for the same arguments. Also accept batched gradients (vmap).

    A backward calls this to compute the gradient of a stack (a vector-Jacobian product).
    """
    if _autograd.is_batch(first) or _autograd.is_batch(second):
        return _contract_out_of_place(plan, slot, first, second, start)
    return contract(plan, slot, first, second, start)


def _contract_out_of_place(
    plan: Contraction, slot: int, first: Tensor, second: Tensor, start: Tensor | None
) -> Tensor:
    """Do what `contract` does, with the same arguments, without in-place operations."""
    low, high = (other for other in range(3) if other != slot)
    if start is None:
        start = torch.zeros_like(first[:1] * second[:1])
        start = start.expand(plan.sizes[slot], *start.shape[1:])
    sums = [*start.unbind(0)]
    for product in plan.products:
        places = product[:3]
        sums[places[slot]] = sums[places[slot]] + first[places[low]] * second[places[high]]
    return torch.stack(sums)


def product(plan: Contraction, one: Tensor, a: Tensor, two: Tensor, b: Tensor) -> Tensor:
    """Return ``(one + a) (two + b) - one * two``, which is ``one b + two a + a b``.

    Args:
        plan: The products of a and b. Their n indices are the first of the N of the result.
        one: The first factor at order 0, ``[*shape]``.
        a: Its other coefficients, ``[n, *shape]``.
        two: The second factor at order 0, ``[*shape]``.
        b: Its other coefficients, ``[n, *shape]``.

    Returns:
        A stack ``[N, *shape]`` of the broadcast shape.
    """
    if not torch.is_grad_enabled():
        return _multiply_into(plan, one, a, two, b)
    result: Tensor = _autograd.applied(_Product, plan, one, a, two, b)
    return result


class _Product(Function):
    @staticmethod
    def forward(
        ctx: Any, plan: Contraction, one: Tensor, a: Tensor, two: Tensor, b: Tensor
    ) -> Tensor:
        ctx.save_for_backward(one, a, two, b)
        ctx.plan = plan
        return _multiply_into(plan, one, a, two, b)

    @staticmethod
    @holomorphic
    def backward(ctx: Any, *gradients: Any) -> Any:
        one, a, two, b = ctx.saved_tensors
        (gradient,) = gradients
        is_recorded = torch.is_grad_enabled() or _autograd.is_batch(gradient)
        to_value, to_series = (_dot, _send_back) if is_recorded else (_dot_into, _send_back_into)
        _, _, needs_a, _, needs_b = ctx.needs_input_grad
        to_one = sum_to_shape(to_value(gradient, b), one.shape)
        to_two = sum_to_shape(to_value(gradient, a), two.shape)
        to_a = to_b = None
        if needs_a:
            to_a = sum_to_shape(to_series(ctx.plan, 0, two, b, gradient), a.shape)
        if needs_b:
            to_b = sum_to_shape(to_series(ctx.plan, 1, one, a, gradient), b.shape)
        return None, to_one, to_a, to_two, to_b


def _dot(gradient: Tensor, factor: Tensor) -> Tensor:
    """Return ``sum_k g_k x_k``, ``[*shape]``, for a gradient g and a factor x.

    The gradient is ``[N, *shape]`` and the factor ``[n, *shape]``. Only the first n coefficients of
    the gradient are used.
    """
    return (gradient[: len(factor)] * factor).sum(0)


def _dot_into(gradient: Tensor, factor: Tensor) -> Tensor:
    """Return the same as `_dot`, computed in place if autograd does not record the operations."""
    total = gradient[0] * factor[0]
    for place in range(1, len(factor)):
        total.addcmul_(gradient[place], factor[place])
    return total


def _send_back(
    plan: Contraction, slot: int, value: Tensor, factor: Tensor, gradient: Tensor
) -> Tensor:
    """Return the gradient ``[n, *shape]`` of a factor of `product`: a (slot 0) or b (slot 1).

    `value`, ``[*shape]``, and `factor`, ``[n, *shape]``, belong to the other factor. `plan` is that
    of `product`, and `gradient` the gradient of its result.
    """
    return vjp(plan, slot, factor, gradient, start=gradient[: len(factor)] * value)


def _send_back_into(
    plan: Contraction, slot: int, value: Tensor, factor: Tensor, gradient: Tensor
) -> Tensor:
    """Return the same as `_send_back`, computed in place if autograd does not record."""
    out = gradient[: len(factor)] * value
    sums, left, right = StackViews(out), StackViews(factor), StackViews(gradient)
    add_products(sums, left, right, plan.table(slot, is_added=True))
    return out


def _multiply_into(plan: Contraction, one: Tensor, a: Tensor, two: Tensor, b: Tensor) -> Tensor:
    """Return the same as `product`, computed by in-place operations on a new stack."""
    by_two, by_one = (common_shape(x.shape[1:], y.shape) for x, y in ((a, two), (b, one)))
    out = a.new_empty(plan.sizes[2], *common_shape(by_two, by_one))
    linear = out[: len(a)]
    torch.mul(a.expand(-1, *linear.shape[1:]), two, out=linear)
    linear.addcmul_(b, one)
    out[len(a) :].zero_()
    sums, left, right = StackViews(out), StackViews(a), StackViews(b)
    add_products(sums, left, right, plan.table(2, is_added=True))
    return out


def elementwise_vjp(plan: Recurrence, slope: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of the argument of a function whose derivative is ``1 + slope``.

    The gradient is ``g_i + sum_j slope_j g_{i+j}``, ``[n, *shape]``, where g is `gradient`, that of
    the function's result. `slope` and `gradient` are ``[N, *shape]``. `plan` is the plan that
    computed the function.
    """
    return vjp(plan.product, 0, slope, gradient, start=plan.of_argument(gradient))


def sum_to_shape(gradient: Tensor, shape: torch.Size) -> Tensor:
    """Return a gradient in the given shape, summed along the axes that were broadcast."""
    return gradient if gradient.shape == shape else gradient.sum_to_size(shape)


FUNCTIONS: tuple[type[Function], ...] = (_Contract, _Product)
