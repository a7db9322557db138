"""Elementwise functions of a series h without a value (h_0 = 0), computed degree by degree.

The stack of h is ``[n, *shape]`` and that of the solution ``[N, *shape]`` (see `plans`). In one
direction, where places are powers, the recurrences are

    exp       y = exp(h) - 1       k y_k = k h_k + sum_{j<k} j h_j y_{k-j}
    inverse   y = 1 / (1 + h) - 1    y_k = -h_k - sum_{j<k} h_j y_{k-j}
    root      y = sqrt(1 + h) - 1  2 y_k = h_k - sum_{j<k} y_j y_{k-j}
    sine      s = sin(h)           k s_k = k h_k + sum_{j<k} j h_j c_{k-j}
    cosine    c = cos(h) - 1       k c_k = -sum_{j<k} j h_j s_{k-j}

These are the recurrences of Griewank and Walther, Evaluating Derivatives, 2nd edition, SIAM 2008,
chapter 13, in which the value at order 0 is one or zero.

Each backward consists of products of series and of these functions, so it can be differentiated
any number of times. If ``F'(h) = factor * (1 + slope)``, a gradient g of the solution gives the
gradient ``factor * (g_i + sum_j slope_j g_{i+j})`` of h_i. This takes less memory and fewer
operations than recording every step of the recurrence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from leafgrad import _autograd
from leafgrad._derivative.taylor.kernels.contraction import (
    contract,
    elementwise_vjp,
    holomorphic,
    vjp,
)
from leafgrad._derivative.taylor.kernels.plans import Recurrence
from leafgrad._derivative.taylor.kernels.products import StackViews, add_products


@dataclass(frozen=True, kw_only=True)
class _Equation:
    """The recurrence of a function, and its derivative ``factor * (1 + slope)``.

    Attributes:
        solve: Returns the solution ``[N, *shape]`` for an argument ``[n, *shape]``.
        slope: Returns the slope ``[N, *shape]`` for a solution ``[N, *shape]``.
        factor: The derivative at order 0.
    """

    solve: Callable[[Recurrence, Tensor], Tensor]
    slope: Callable[[Recurrence, Tensor], Tensor]
    factor: float


class _Solution(Function):
    @staticmethod
    def forward(ctx: Any, plan: Recurrence, equation: _Equation, argument: Tensor) -> Tensor:
        out = equation.solve(plan, argument)
        ctx.save_for_backward(out)
        ctx.plan, ctx.equation = plan, equation
        return out

    @staticmethod
    @holomorphic
    def backward(ctx: Any, *gradients: Any) -> Any:
        (out,) = ctx.saved_tensors
        slope = ctx.equation.slope(ctx.plan, out)
        return None, None, elementwise_vjp(ctx.plan, slope, gradients[0]) * ctx.equation.factor


def exp(plan: Recurrence, argument: Tensor) -> Tensor:
    """Return ``exp(argument) - 1``, ``[N, *shape]``, for a series ``[n, *shape]``.

    `plan` lists the n coefficients of the argument, the N of the result, and their products.
    """
    result: Tensor = _autograd.applied(_Solution, plan, _EXP, argument)
    return result


def _solve_exp(plan: Recurrence, argument: Tensor) -> Tensor:
    """Return y ``[N, *shape]``, the solution of ``k y_k = k h_k + sum_{j<k} j h_j y_{k-j}``.

    The argument h is ``[n, *shape]``. `plan` lists the n coefficients of h, the N of y, and their
    products.
    """
    y, h = plan.start(argument, 1), StackViews(argument)
    for degree in plan.degrees:
        add_products(y, h, y, degree.chain)
    return y.whole()


_EXP = _Equation(solve=_solve_exp, slope=lambda _, out: out, factor=1)


def inverse(plan: Recurrence, argument: Tensor) -> Tensor:
    """Return ``1 / (1 + argument) - 1``, ``[N, *shape]``, for a series ``[n, *shape]``.

    `plan` lists the n coefficients of the argument, the N of the result, and their products.
    """
    if not torch.is_grad_enabled():
        return _solve_inverse(plan, argument)
    result: Tensor = _autograd.applied(_Solution, plan, _INVERSE, argument)
    return result


def _solve_inverse(plan: Recurrence, argument: Tensor) -> Tensor:
    """Return y ``[N, *shape]``, the solution of ``y_k = -h_k - sum_{j<k} h_j y_{k-j}``.

    The argument h is ``[n, *shape]``. `plan` lists the n coefficients of h, the N of y, and their
    products.
    """
    y, h = plan.start(argument, -1), StackViews(argument)
    for degree in plan.degrees:
        add_products(y, h, y, degree.product, weight=-1)
    return y.whole()


_INVERSE = _Equation(
    solve=_solve_inverse,
    slope=lambda plan, out: 2 * out + contract(plan.square, 2, out, out),  # -F' - 1
    factor=-1,
)


def root(plan: Recurrence, argument: Tensor) -> Tensor:
    """Return ``sqrt(1 + argument) - 1``, ``[N, *shape]``, for a series ``[n, *shape]``.

    `plan` lists the n coefficients of the argument, the N of the result, and their products.
    """
    result: Tensor = _autograd.applied(_Solution, plan, _ROOT, argument)
    return result


def _solve_root(plan: Recurrence, argument: Tensor) -> Tensor:
    """Return y ``[N, *shape]``, the solution of ``2 y_k = h_k - sum_{j<k} y_j y_{k-j}``.

    The argument h is ``[n, *shape]``. `plan` lists the n coefficients of h, the N of y, and their
    products.
    """
    y = plan.start(argument, 0.5)
    y.stack[len(plan.argument) :].zero_()
    for degree in plan.degrees:
        add_products(y, y, y, degree.square, weight=-0.5)
    return y.whole()


_ROOT = _Equation(solve=_solve_root, slope=lambda plan, out: inverse(plan.full, out), factor=0.5)


def sin_cos(plan: Recurrence, argument: Tensor) -> Tensor:
    """Return ``sin(argument)`` and ``cos(argument) - 1`` as one stack ``[2, N, *shape]``.

    The argument is a series ``[n, *shape]``. `plan` lists its n coefficients, the N of the result,
    and their products.
    """
    result: Tensor = _autograd.applied(_SinCos, plan, argument)
    return result


class _SinCos(Function):
    @staticmethod
    def forward(ctx: Any, plan: Recurrence, argument: Tensor) -> Tensor:
        s, c, h = plan.start(argument, 1), plan.start(argument, 0), StackViews(argument)
        for degree in plan.degrees:
            add_products(s, h, c, degree.chain)
            add_products(c, h, s, degree.chain, weight=-1)
        both = torch.stack([s.whole(), c.whole()])
        ctx.save_for_backward(both)
        ctx.plan = plan
        return both

    @staticmethod
    @holomorphic
    def backward(ctx: Any, *gradients: Any) -> Any:
        sine, cosine = ctx.saved_tensors[0]
        to_sine, to_cosine = gradients[0]
        from_cosine = vjp(ctx.plan.product, 0, sine, to_cosine)
        return None, elementwise_vjp(ctx.plan, cosine, to_sine) - from_cosine


FUNCTIONS: tuple[type[Function], ...] = (_Solution, _SinCos)
