"""tanh and the logistic function of a series: functions whose derivative is quadratic in them.

A stack ``[N, *shape]`` holds the coefficients above order 0 of the result y, whose value at order 0
is kept apart, as ``[*shape]``. For ``s(y) = 1 - y**2`` (tanh) and ``s(y) = y - y**2`` (logistic)
write v for s at order 0 and m for the distance of the value from where s is largest (0, and 1/2).
Then the derivative is ``v - 2 f`` with ``f = m y + y**2 / 2``, in which y stands for what is above
order 0 alone. Of an argument x this leaves, in one direction,

    f_k = m y_k + 1/2 sum_{j<k} y_j y_{k-j}
    y_k = v x_k - 2/k sum_{j<k} j x_j f_{k-j}

after Griewank and Walther, Evaluating Derivatives, 2nd edition, SIAM 2008, chapter 13. A gradient g
of y is sent back to x_i as ``v g_i - 2 sum_j f_j g_{i+j}``, and to the value as
``-2/v sum_k f_k g_k``. So the result tells its own derivative, and nothing else need be kept.

Where the result is nearly 1, v computed from it has no digits left. If the argument at order 0 is
known, v and m are computed from it instead, without loss; its gradient is ``-2 sum_k f_k g_k``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor.constants import number
from leafgrad._derivative.taylor.kernels.contraction import contract, vjp
from leafgrad._derivative.taylor.kernels.plans import Degree, Recurrence
from leafgrad._derivative.taylor.kernels.products import (
    Span,
    StackViews,
    TracedCoefficients,
    add_products,
)

DerivativeOfValue = Callable[[Tensor], tuple[Tensor, Tensor]]  # v and m


class Sigmoidal(NamedTuple):
    """A function whose derivative is quadratic in its value: see the module.

    Attributes:
        plan: The recurrence that solves for it, from n to N coefficients.
        derivative_of_value: Returns v and m, both ``[*shape]``, of the value ``[*shape]``.
        is_of_argument: Whether the value is that of the argument, not that of the function.
    """

    plan: Recurrence
    derivative_of_value: DerivativeOfValue
    is_of_argument: bool = False

    @property
    def reads_argument(self) -> bool:
        """Whether its backward reads the argument's coefficients, and not its own."""
        return False

    def solve(self, value: Tensor, argument: Tensor) -> Tensor:
        """Return the coefficients ``[N, *shape]`` of the function.

        Args:
            value: The function, or its argument, at order 0, ``[*shape]``.
            argument: The coefficients of the argument, ``[n, *shape]``.
        """
        derivative, middle = self.derivative_of_value(value)
        x, y = StackViews(argument), self.plan.start(argument, derivative)
        for degree in self.plan.degrees[:-1]:
            add_products(y, x, _falls(degree, middle, y), degree.chain, weight=-2)
        return y.whole()

    def vjp(self, value: Tensor, out: Tensor, gradient: Tensor, to_value: Tensor) -> Tensor:
        """Return the gradient of the argument, and write that of the value into `to_value`.

        Where the derivative of the function is zero, no gradient arrives at the value.

        Args:
            value: The function, or its argument, at order 0, ``[*shape]``.
            out: The function's other coefficients, ``[N, *shape]``, as `solve` returns them.
            gradient: The gradient of `out`, ``[N, *shape]``.
            to_value: ``[*shape]``, not initialised.

        Returns:
            A stack ``[n, *shape]``.
        """
        plan = self.plan
        derivative, middle = self.derivative_of_value(value)
        to_argument = plan.of_argument(gradient) * derivative
        dots: dict[Span, Tensor] = {0: to_value}
        x, y, g = StackViews(to_argument), StackViews(out), StackViews(gradient)
        for degree in plan.degrees:
            falls = _falls(degree, middle, y)
            add_products(dots, falls, g, degree.dot)
            add_products(x, falls, g, degree.vjp, weight=-2)
        if self.is_of_argument:
            to_value.mul_(-2)
            return to_argument
        derivative.clamp_(min=torch.finfo(derivative.dtype).tiny)
        zero = number(0.0, derivative.dtype, derivative.device)
        torch.addcdiv(zero, to_value, derivative, value=-2, out=to_value)
        return to_argument

    def differentiable_vjp(
        self, value: Tensor, out: Tensor, gradient: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return what `vjp` computes, by operations that record themselves.

        Args:
            value: The function, or its argument, at order 0, ``[*shape]``.
            out: The function's other coefficients, ``[N, *shape]``.
            gradient: The gradient of `out`, ``[N, *shape]``.

        Returns:
            The gradient ``[*shape]`` of the value, and that of the argument, ``[n, *shape]``.
        """
        plan = self.plan
        derivative, middle = self.derivative_of_value(value)
        divisor = 1 if self.is_of_argument else derivative.masked_fill(derivative == 0, math.inf)
        own = plan.of_argument(gradient) * derivative
        if _autograd.is_intercepted():
            dot, to_argument = self._traced_vjp(middle, out, gradient, own)
            return dot * -2 / divisor, to_argument
        above = out * (middle * -2) - contract(plan.square, 2, out, out)  # -2 f
        to_value = (above * gradient).sum(0) / divisor
        return to_value, vjp(plan.product, 0, above, gradient, start=own)

    def _traced_vjp(
        self, middle: Tensor, out: Tensor, gradient: Tensor, own: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return ``sum_k f_k g_k``, ``[*shape]``, and the gradient of x, ``[n, *shape]``.

        Coefficient by coefficient, with no stack in between, as `vjp` does it: m is `middle`,
        ``[*shape]``, and `own`, ``[n, *shape]``, what the gradient of x starts with.
        """
        dots, x = (TracedCoefficients(stack, len(stack)) for stack in (own[:1], own))
        y, g = TracedCoefficients(out, len(out)), StackViews(gradient)
        for degree in self.plan.degrees:
            falls = _falls(degree, middle, y)
            add_products(dots, falls, g, degree.dot)
            add_products(x, falls, g, degree.vjp, weight=-2)
        return dots[0], x.whole()


def tanh_derivative(value: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``1 - value**2``, and the value itself, of values ``[*shape]``."""
    one = number(1.0, value.dtype, value.device)
    return torch.addcmul(one, value, value, value=-1), value


def sigmoid_derivative(value: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``value - value**2``, and ``value - 1/2``, of values ``[*shape]``."""
    return torch.addcmul(value, value, value, value=-1), value - 0.5


def sigmoid_derivative_at(argument: Tensor) -> tuple[Tensor, Tensor]:
    """Return v and m of the logistic function at arguments ``[*shape]``."""
    return argument.sigmoid() * (-argument).sigmoid(), (argument / 2).tanh() / 2


def _falls(degree: Degree, middle: Tensor, y: StackViews) -> StackViews:
    """Return the f_k of one degree, ``[len(degree.span), *shape]``, from the y_j up to it.

    The distance m is `middle`, ``[*shape]``.
    """
    falls = y.scaled(degree.span, middle)
    add_products(falls, y, y, degree.square, weight=0.5)
    return falls
