"""Scales: powers of two that keep coefficients from overflow and underflow.

A coefficient c_d of degree d is a derivative divided by d!. It underflows long before the
derivative does. If the first order of the inputs, ``[n, *batch, *columns]``, is multiplied by
``2**e``, each coefficient ``[*batch, *channels]`` is multiplied by ``2**(d e)``, without rounding:

    inputs x + 2**e t        outputs 2**(d e) c_d        derivative d! 2**(-d e) (2**(d e) c_d)

So a scale costs nothing during the walk. It is removed when the derivatives are computed from the
coefficients. Each row of the batch may have a different exponent e.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

_LARGEST = {torch.float32: 100, torch.float64: 900}  # Exponents e for which 2**e cannot overflow.


class Scale(NamedTuple):
    """The dtype of the coefficients, and the power of two that multiplies the inputs' first order.

    Attributes:
        dtype: The dtype of the coefficients.
        exponents: The exponents of the powers of two. Rows may use different ones.
        rows: For each row, its place in `exponents`, ``[*batch]``. None if all rows use the first
            one.
    """

    dtype: torch.dtype
    exponents: tuple[int, ...]
    rows: Tensor | None = None

    def seed(self, units: Tensor) -> Tensor:
        """Return the coefficients of the inputs, from which the walk starts: `units` times 2**e.

        `units` are the unscaled coefficients, ``[n, *batch, *columns]``. Each row has its exponent
        e. The result is a new tensor, because a rule may modify it in place.
        """
        if self.rows is None:
            exponent = self.exponents[0]
            return units * 2.0**exponent if exponent else units.clone()
        return _by_row(self.rows, units, [(2.0**exponent,) for exponent in self.exponents], 1)

    def derivative(self, coefficient: Tensor, factorial: int, degree: int) -> Tensor:
        """Return the derivative for a scaled coefficient ``[*batch, *channels]`` of this degree.

        It is the coefficient times its factorial, with the scale removed.
        """
        largest = _LARGEST[self.dtype]
        if self.rows is not None:
            factors = [_factors(factorial, -degree * e, largest) for e in self.exponents]
            return _by_row(self.rows, coefficient, factors, 0)
        for factor in _factors(factorial, -degree * self.exponents[0], largest):
            coefficient = coefficient if factor == 1 else coefficient * factor
        return coefficient


def _by_row(rows: Tensor, tensor: Tensor, factors: Sequence[Sequence[float]], first: int) -> Tensor:
    """Multiply each row of a tensor ``[..., *batch, ...]`` by all of its factors.

    `rows`, ``[*batch]``, selects the entry of `factors` for each row. The axes of the batch start
    at the tensor's axis `first`.
    """
    count = max(map(len, factors))
    padded = [[*own, *[1.0] * (count - len(own))] for own in factors]
    shape = *rows.shape, *[1] * (tensor.dim() - first - rows.dim())
    for factor in tensor.new_tensor(padded).unbind(1):
        tensor = tensor * factor[rows].reshape(shape)
    return tensor


@lru_cache(maxsize=256)
def _factors(factorial: int, power: int, largest: int) -> tuple[float, ...]:
    """Return factors whose product is ``factorial * 2**power``, each at most about ``2**largest``.

    All factors are at least one or all are at most one. So intermediate products cannot overflow or
    underflow unless the final product does.
    """
    bits = factorial.bit_length() - 1
    mantissa, power = factorial / (1 << bits), power + bits
    steps = [math.copysign(largest, power)] * (abs(power) // largest)
    first, *others = [power - sum(steps), *steps]
    return (math.ldexp(mantissa, int(first)), *[2.0**step for step in others])
