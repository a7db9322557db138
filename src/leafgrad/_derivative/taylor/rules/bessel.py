"""Rules for the modified Bessel functions I_0 and I_1, and for both times ``exp(-|x|)``.

For a value a ``[*shape]`` and a series h ``[K, *shape]``, they return ``F(a + h) - F(a)``, computed
from all derivatives at a. The derivatives are sums of neighbours: ``2 I_m' = I_{m-1} + I_{m+1}``.
Near zero, the I_m are computed by their power series, in which no two terms cancel. Elsewhere, each
I_m follows from the two before it. (NIST's Digital Library of Mathematical Functions, 10.29.1 and
10.25.2.)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from leafgrad._derivative.taylor.jet import compose
from leafgrad._derivative.taylor.rule import Propagate, Rule, Step
from leafgrad._derivative.taylor.series import Series


def _bessel(number: int, *, is_scaled: bool) -> Propagate:
    """Return the elementwise rule of I_0 or I_1, as `number` says.

    If `is_scaled` is true, the function is multiplied by ``exp(-|x|)``.
    """

    def rule(step: Step, x: Series) -> Series:
        value, order = step.tensor("self"), x.algebra.order
        functions = _functions(value, number + order, is_scaled=is_scaled)
        falls = value.sgn() if is_scaled else 0  # from the derivative of the exponential
        coefficients = []
        for degree in range(1, order + 1):
            functions = [
                (functions[abs(m - 1)] + functions[m + 1]) / 2 - falls * functions[m]
                for m in range(len(functions) - 1)
            ]
            coefficients.append(functions[number] / math.factorial(degree))
        return compose(x, coefficients)

    return rule


def _functions(value: Tensor, last: int, *, is_scaled: bool) -> list[Tensor]:
    """Return the values of I_0 to I_m at `value`, each ``[*shape]``, where m is `last`.

    If `is_scaled` is true, they are multiplied by ``exp(-|x|)``.
    """
    border = 8 + last**2 / 2  # For larger |x|, computing I_m from the two before loses no digits.
    is_near = value.abs() <= border
    near, far = torch.where(is_near, value, 0), torch.where(is_near, border, value)
    scale = (-near.abs()).exp() if is_scaled else 1
    first = _SCALED if is_scaled else _PLAIN
    beyond = [function(far) for function in first]
    for m in range(1, last):
        beyond.append(beyond[m - 1] - 2 * m / far * beyond[m])
    terms = round(1.5 * border) + 20
    return [
        torch.where(is_near, _power_series(near, m, terms) * scale, beyond[m])
        for m in range(last + 1)
    ]


_Functions = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
_PLAIN: _Functions = (torch.special.i0, torch.special.i1)
_SCALED: _Functions = (torch.special.i0e, torch.special.i1e)


def _power_series(value: Tensor, m: int, terms: int) -> Tensor:
    """Return I_m as the sum of ``(x / 2)**(2 k + m) / (k! (k + m)!)``, ``[*shape]``.

    `value` is x, and `terms` is the number of terms.
    """
    half = value / 2
    square = half * half
    total = torch.ones_like(value)
    for k in range(terms, 0, -1):
        total = 1 + total * square / (k * (k + m))
    return total * half**m / math.factorial(m)


RULES: dict[str, Rule] = {
    "I0Backward0": Rule(_bessel(0, is_scaled=False), rowwise=True),
    "SpecialI1Backward0": Rule(_bessel(1, is_scaled=False), rowwise=True),
    "SpecialI0EBackward0": Rule(_bessel(0, is_scaled=True), rowwise=True),
    "SpecialI1EBackward0": Rule(_bessel(1, is_scaled=True), rowwise=True),
}
