"""Functions of what stands above order 0 alone, solved for degree by degree.

Each has a backward that is written in products of series and in these functions, so that it can be
differentiated as often as one likes. The gain over recording every step is in memory, and in the
number of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from leafgrad import _autograd
from leafgrad._derivative.taylor.kernels.contraction import contract, send_back, through
from leafgrad._derivative.taylor.kernels.plans import Recursion
from leafgrad._derivative.taylor.kernels.products import StackViews, add_products


@dataclass(frozen=True, kw_only=True)
class _Equation:
    """How a function is solved for, and its derivative: ``factor * (1 + slope)``."""

    solved: Callable[[Recursion, Tensor], Tensor]
    slope: Callable[[Recursion, Tensor], Tensor]
    factor: float


class _Solution(Function):
    @staticmethod
    def forward(ctx: Any, plan: Recursion, equation: _Equation, argument: Tensor) -> Tensor:
        out = equation.solved(plan, argument)
        ctx.save_for_backward(out)
        ctx.plan, ctx.equation = plan, equation
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (out,) = ctx.saved_tensors
        slope = ctx.equation.slope(ctx.plan, out)
        return None, None, through(ctx.plan, slope, gradients[0]) * ctx.equation.factor


def exp(plan: Recursion, argument: Tensor) -> Tensor:
    """Give the coefficients of ``exp(argument) - 1``."""
    result: Tensor = _autograd.applied(_Solution, plan, _EXP, argument)
    return result


def _solved_exp(plan: Recursion, argument: Tensor) -> Tensor:
    out = plan.begun(argument, 1)
    rows, moving = StackViews(out), StackViews(argument)
    for level in plan.levels:
        add_products(rows, moving, rows, level.chain)
    return out


_EXP = _Equation(solved=_solved_exp, slope=lambda _, out: out, factor=1)


def inverse(plan: Recursion, argument: Tensor) -> Tensor:
    """Give the coefficients of ``1 / (1 + argument) - 1``."""
    if not torch.is_grad_enabled():
        return _solved_inverse(plan, argument)
    result: Tensor = _autograd.applied(_Solution, plan, _INVERSE, argument)
    return result


def _solved_inverse(plan: Recursion, argument: Tensor) -> Tensor:
    out = plan.begun(argument, -1)
    rows, moving = StackViews(out), StackViews(argument)
    for level in plan.levels:
        add_products(rows, moving, rows, level.products, weight=-1)
    return out


_INVERSE = _Equation(
    solved=_solved_inverse,
    slope=lambda plan, out: 2 * out + contract(plan.square, 2, out, out),
    factor=-1,
)


def root(plan: Recursion, argument: Tensor) -> Tensor:
    """Give the coefficients of ``sqrt(1 + argument) - 1``."""
    result: Tensor = _autograd.applied(_Solution, plan, _ROOT, argument)
    return result


def _solved_root(plan: Recursion, argument: Tensor) -> Tensor:
    out = plan.begun(argument, 0.5)
    out[len(plan.argument) :].zero_()
    rows = StackViews(out)
    for level in plan.levels:
        add_products(rows, rows, rows, level.squares, weight=-0.5)
    return out


_ROOT = _Equation(solved=_solved_root, slope=lambda plan, out: inverse(plan.full, out), factor=0.5)


def sin_cos(plan: Recursion, argument: Tensor) -> Tensor:
    """Give the coefficients of ``sin(argument)`` and ``cos(argument) - 1``, one above the other."""
    result: Tensor = _autograd.applied(_SinCos, plan, argument)
    return result


class _SinCos(Function):
    @staticmethod
    def forward(ctx: Any, plan: Recursion, argument: Tensor) -> Tensor:
        both = torch.stack([plan.begun(argument, factor) for factor in (1, 0)])
        sine, cosine, moving = StackViews(both[0]), StackViews(both[1]), StackViews(argument)
        for level in plan.levels:
            add_products(sine, moving, cosine, level.chain)
            add_products(cosine, moving, sine, level.chain, weight=-1)
        ctx.save_for_backward(both)
        ctx.plan = plan
        return both

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        sine, cosine = ctx.saved_tensors[0]
        to_sine, to_cosine = gradients[0]
        from_cosine = send_back(ctx.plan.products, 0, sine, to_cosine)
        return None, through(ctx.plan, cosine, to_sine) - from_cosine


FUNCTIONS: tuple[type[Function], ...] = (_Solution, _SinCos)
