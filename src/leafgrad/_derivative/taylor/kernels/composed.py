"""Elementwise functions of a series, computed from their Taylor series as a sum of powers.

Let F be a function with the Taylor coefficients ``F_d = F^(d)(a) / d!`` at a value a, ``[*shape]``.
For an argument ``a + h`` with a series h, ``[n, *shape]``, the result is ``[N, *shape]``:

    y = F(a + h) - F(a) = F_1 h + F_2 h**2 + F_3 h**3 + ...

The derivative of y is ``F_1 + s`` with ``s = 2 F_2 h + 3 F_3 h**2 + ...``, which is a sum of the
same form. A gradient g of y gives the gradient ``F_1 g_i + sum_j s_j g_{i+j}`` of h_i, and
``sum_k s_k g_k`` of the value. So every function needs only two such sums, forward and backward.

At high orders, powers cost more than a recurrence, and the formulas of high derivatives lose
digits. Up to order `MOST`, which covers most uses, they are cheaper and equally exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor.kernels.contraction import contract, vjp
from leafgrad._derivative.taylor.kernels.plans import Recurrence
from leafgrad._derivative.taylor.kernels.products import (
    Span,
    StackViews,
    add_products,
    product_times,
)

MOST = 4  # the highest order for which sums of powers are used

Term = tuple[Tensor, float]  # a derivative ``[*shape]`` is the tensor times the number
Derivatives = Callable[[Tensor], Iterator[Term]]  # yields F', F'', ... until the last nonzero one


class Composed(NamedTuple):
    """An elementwise function whose derivatives are known (see the module's docstring).

    Attributes:
        plan: The plan that computes N coefficients of the function from n of the argument.
        derivatives: A function that yields F', F'' and so on, each ``[*shape]``. It is called with
            the argument at order 0, ``[*shape]``, and uses differentiable operations.
        inner: A factor for the argument's coefficients. The argument's value is not multiplied.
        outer: A factor for the function's coefficients.
    """

    plan: Recurrence
    derivatives: Derivatives
    inner: float = 1
    outer: float = 1

    @property
    def reads_argument(self) -> bool:
        """Whether backward reads the argument's coefficients instead of the result's."""
        return True

    def solve(self, value: Tensor, argument: Tensor) -> Tensor:
        """Return the coefficients ``[N, *shape]`` of the function.

        Args:
            value: The argument at order 0, ``[*shape]``.
            argument: Its other coefficients, ``[n, *shape]``.
        """
        return _sum(self.plan, self._terms(value, self.plan.algebra.order), argument)

    def vjp(self, value: Tensor, argument: Tensor, gradient: Tensor, to_value: Tensor) -> Tensor:
        """Return the gradient of the argument, and write the gradient of the value to `to_value`.

        Args:
            value: The argument at order 0, ``[*shape]``.
            argument: Its other coefficients, ``[n, *shape]``.
            gradient: The gradient of the function's coefficients, ``[N, *shape]``.
            to_value: ``[*shape]``, not initialised.

        Returns:
            A stack ``[n, *shape]``.
        """
        first, slope = self._first_and_slope(value, argument)
        to_argument = product_times(self.plan.of_argument(gradient), *first)
        dots: dict[Span, Tensor] = {0: to_value}
        x, s, g = StackViews(to_argument), StackViews(slope), StackViews(gradient)
        for degree in self.plan.degrees:
            add_products(dots, s, g, degree.dot)
            add_products(x, s, g, degree.vjp)
        if self.inner != 1:
            to_value.mul_(1 / self.inner)
        return to_argument

    def differentiable_vjp(
        self, value: Tensor, argument: Tensor, gradient: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the same gradients as `vjp`, by differentiable operations.

        Args:
            value: The argument at order 0, ``[*shape]``.
            argument: Its other coefficients, ``[n, *shape]``.
            gradient: The gradient of the function's coefficients, ``[N, *shape]``.

        Returns:
            The gradient ``[*shape]`` of the value, and that of the argument, ``[n, *shape]``.
        """
        first, slope = self._first_and_slope(value, argument)
        own = product_times(self.plan.of_argument(gradient), *first)
        to_value = (slope * gradient).sum(0)
        to_value = to_value if self.inner == 1 else to_value * (1 / self.inner)
        return to_value, vjp(self.plan.product, 0, slope, gradient, start=own)

    def _first_and_slope(self, value: Tensor, argument: Tensor) -> tuple[Term, Tensor]:
        """Return the derivative ``F' + s`` as F', ``[*shape]``, and the series s, ``[N, *shape]``.

        It is the derivative with respect to the argument's coefficients. So it contains the factor
        `inner`, which the derivative with respect to the argument's value does not contain.
        """
        first, *others = self._terms(value, self.plan.algebra.order + 1)
        terms = [(tensor, factor * d) for d, (tensor, factor) in enumerate(others, start=2)]
        return first, _sum(self.plan, terms, argument)

    def _terms(self, value: Tensor, count: int) -> list[Term]:
        """Return at most `count` Taylor coefficients ``F_1``, ``F_2``, ..., each ``[*shape]``.

        They are those of the function F at `value`.
        """
        derivatives = enumerate(islice(self.derivatives(value), count), start=1)
        outer, inner = self.outer, self.inner
        return [
            (t, outer * inner**d * factor / math.factorial(d)) for d, (t, factor) in derivatives
        ]


def _sum(plan: Recurrence, terms: Sequence[Term], argument: Tensor) -> Tensor:
    """Return ``c_1 h + c_2 h**2 + ...``, ``[N, *shape]``, for the argument h, ``[n, *shape]``.

    `plan` lists the coefficients of both. `terms` contains c_1, c_2 and so on, ``[*shape]``. If
    autograd does not record and no compiler traces the operations, all terms are added in place to
    the returned stack. Then the last power is not computed: ``c_m h**m`` is added as ``h (c_m
    h**(m-1))``.
    """
    (tensor, factor), *others = terms
    total = _pad(product_times(argument, tensor, factor), 0, plan.size)
    is_recorded = torch.is_grad_enabled() or _autograd.is_intercepted()
    steps = [*zip(plan.powers, others, strict=False)]
    power = argument
    for number, (above, (tensor, factor)) in enumerate(steps, start=1):
        if number == len(steps) and not is_recorded:
            low = power if above.reach == above.step.sizes[1] else power[: above.reach]
            factors = StackViews(argument), StackViews(product_times(low, tensor, factor))
            add_products(StackViews(total, -above.first), *factors, above.added)
            break
        power = contract(above.step, 2, argument, power)
        if is_recorded:
            total = total + _pad(power * tensor * factor, above.first, plan.size)
        else:
            total[above.first : above.first + len(power)].addcmul_(power, tensor, value=factor)
    return total


def _pad(stack: Tensor, first: int, size: int) -> Tensor:
    """Pad ``[n, *shape]`` with zeros to ``[size, *shape]``, with `first` zeros in front."""
    if len(stack) == size:
        return stack
    before, after = (
        stack.new_zeros(n, *stack.shape[1:]) for n in (first, size - first - len(stack))
    )
    return torch.cat([before, stack, after])
