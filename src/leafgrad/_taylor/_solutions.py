"""Functions of what stands above order 0 alone, solved for degree by degree.

Each has a backward that is written in products of series and in these functions, so that it can be
differentiated as often as one likes. The gain over recording every step is in memory, and in the
number of operations.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function

from leafgrad._taylor._contract import applied, contract, through
from leafgrad._taylor._plans import Recursion
from leafgrad._taylor._strips import Rows, accumulate, add_products


def exp(plan: Recursion, argument: Tensor) -> Tensor:
    """Give the coefficients of ``exp(argument) - 1``."""
    result: Tensor = applied(_Exp, plan, argument)
    return result


class _Exp(Function):
    @staticmethod
    def forward(ctx: Any, plan: Recursion, argument: Tensor) -> Tensor:
        out = argument.new_empty(plan.size, *argument.shape[1:])
        weighted, rows = Rows(plan.start(out, argument)), Rows(out)
        for level in plan.levels:
            rows[level.span].div_(plan.divisor(level))
            accumulate(rows, weighted, rows, level.chain, weight=plan.weight)
        ctx.save_for_backward(out)
        ctx.plan = plan
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (out,) = ctx.saved_tensors
        return None, through(ctx.plan, out, gradients[0])


def sin_cos(plan: Recursion, argument: Tensor) -> Tensor:
    """Give the coefficients of ``sin(argument)`` and ``cos(argument) - 1``, one above the other."""
    result: Tensor = applied(_SinCos, plan, argument)
    return result


class _SinCos(Function):
    @staticmethod
    def forward(ctx: Any, plan: Recursion, argument: Tensor) -> Tensor:
        both = argument.new_zeros(2, plan.size, *argument.shape[1:])
        weighted = Rows(plan.start(both[0], argument))
        sine, cosine = map(Rows, both.unbind(0))
        for level in plan.levels:
            both[:, level.span].div_(plan.divisor(level))
            add_products(sine, weighted, cosine, level.chain, plan.weight)
            add_products(cosine, weighted, sine, level.chain, -plan.weight)
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
    result: Tensor = applied(_Inverse, plan, argument)
    return result


class _Inverse(Function):
    @staticmethod
    def forward(ctx: Any, plan: Recursion, argument: Tensor) -> Tensor:
        out = argument.new_zeros(plan.size, *argument.shape[1:])
        plan.place(out, argument)
        rows, factor = Rows(out), Rows(argument)
        for level in plan.levels:
            rows[level.span].neg_()
            add_products(rows, factor, rows, level.chain, 1)
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
    result: Tensor = applied(_Root, plan, argument)
    return result


class _Root(Function):
    @staticmethod
    def forward(ctx: Any, plan: Recursion, argument: Tensor) -> Tensor:
        out = argument.new_zeros(plan.size, *argument.shape[1:])
        plan.place(out, argument)
        rows = Rows(out)
        for level in plan.levels:
            rows[level.span].div_(2)
            add_products(rows, rows, rows, level.mixed, -2)
            add_products(rows, rows, rows, level.equal, -1)
        ctx.save_for_backward(out)
        ctx.plan = plan
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (out,) = ctx.saved_tensors
        plan = ctx.plan
        slope = inverse(plan.full, out)
        return None, through(plan, slope, gradients[0]) / 2


FUNCTIONS: tuple[type[Function], ...] = (_Exp, _SinCos, _Inverse, _Root)
