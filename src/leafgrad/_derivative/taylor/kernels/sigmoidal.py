"""tanh and the logistic function of a series, whose derivatives are quadratic polynomials in them.

A stack ``[N, *shape]`` holds the coefficients of the result y above order 0. Its value at order 0,
``[*shape]``, is stored separately. The derivative is ``s(y) = 1 - y**2`` for tanh and
``s(y) = y - y**2`` for the logistic function. Let v be s at order 0, and m the value minus the
point where s is largest (0 for tanh, 1/2 for the logistic function). Then the derivative is
``v - 2 f`` with ``f = m y + y**2 / 2``, where y has only coefficients above order 0. For an
argument x, in one direction,

    f_k = m y_k + 1/2 sum_{j<k} y_j y_{k-j}
    y_k = v x_k - 2/k sum_{j<k} j x_j f_{k-j}

after Griewank and Walther, Evaluating Derivatives, 2nd edition, SIAM 2008, chapter 13. A gradient g
of y gives the gradient ``v g_i - 2 sum_j f_j g_{i+j}`` of x_i, and ``-2/v sum_k f_k g_k`` of the
value. The backward needs only the result, so nothing else is saved.

If the result is close to 1, v loses all digits when it is computed from the result. If the argument
at order 0 is known, v and m are computed from it without loss. The gradient of the argument at
order 0 is ``-2 sum_k f_k g_k``.
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

DerivativeOfValue = Callable[[Tensor], tuple[Tensor, Tensor]]  # The result is v and m.


class Sigmoidal(NamedTuple):
    """A function whose derivative is a quadratic polynomial in it (see the module's docstring).

    Attributes:
        plan: The recurrence that computes N coefficients of the function from n of the argument.
        derivative_of_value: Returns v and m, both ``[*shape]``, for a value ``[*shape]``.
        is_of_argument: Whether this value is the argument at order 0 instead of the result.
    """

    plan: Recurrence
    derivative_of_value: DerivativeOfValue
    is_of_argument: bool = False

    @property
    def reads_argument(self) -> bool:
        """Whether backward reads the argument's coefficients instead of the result's."""
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
        """Return the gradient of the argument, and write the gradient of the value to `to_value`.

        Where the derivative of the function is zero, the gradient of the value is zero.

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
        """Compute the same gradients as `vjp`, by differentiable operations.

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

        This is the computation of `vjp`, one coefficient at a time, for a compiler that traces it.
        `middle`, ``[*shape]``, is m. `out` is the result, and `gradient` its gradient g. `own`,
        ``[n, *shape]``, is the first term of the gradient of x.
        """
        dots, x = (TracedCoefficients(stack, len(stack)) for stack in (own[:1], own))
        y, g = TracedCoefficients(out, len(out)), StackViews(gradient)
        for degree in self.plan.degrees:
            falls = _falls(degree, middle, y)
            add_products(dots, falls, g, degree.dot)
            add_products(x, falls, g, degree.vjp, weight=-2)
        return dots[0], x.whole()


def tanh_derivative(value: Tensor) -> tuple[Tensor, Tensor]:
    """Return v and m of tanh (see the module docstring) for values of tanh."""
    one = number(1.0, value.dtype, value.device)
    return torch.addcmul(one, value, value, value=-1), value


def sigmoid_derivative(value: Tensor) -> tuple[Tensor, Tensor]:
    """Return v and m of the logistic function (see the module docstring) for its values."""
    return torch.addcmul(value, value, value, value=-1), value - 0.5


def sigmoid_derivative_at(argument: Tensor) -> tuple[Tensor, Tensor]:
    """Return v and m of the logistic function (see the module docstring) for its arguments.

    This loses no digits where the function is close to 1.
    """
    return argument.sigmoid() * (-argument).sigmoid(), (argument / 2).tanh() / 2


def _falls(degree: Degree, middle: Tensor, y: StackViews) -> StackViews:
    """Return the f_k (see the module docstring) of one degree, ``[len(degree.span), *shape]``.

    They depend on the y_j up to this degree and on m, which is `middle`, ``[*shape]``.
    """
    falls = y.scaled(degree.span, middle)
    add_products(falls, y, y, degree.square, weight=0.5)
    return falls
