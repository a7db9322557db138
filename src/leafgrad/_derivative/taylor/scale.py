"""Powers of two that keep coefficients within the range of their dtype.

A coefficient c_d of degree d is a derivative divided by d!, which leaves the range of a dtype long
before the derivative does. Where the first order of the inputs ``[n, *batch, *columns]`` is
multiplied by ``2**e``, each coefficient ``[*batch, *channels]`` comes out multiplied by its power,
and without being rounded:

    inputs x + 2**e t        outputs 2**(d e) c_d        derivative d! 2**(-d e) (2**(d e) c_d)

So a scale costs nothing on the way, and is undone where the derivatives are given. Each row of the
batch may have an exponent e of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

_LARGEST = {torch.float32: 100, torch.float64: 900}  # powers of two well within the range


class Scale(NamedTuple):
    """The dtype of the coefficients, and what the first order of the inputs is multiplied by.

    Attributes:
        dtype: The dtype.
        exponents: Of powers of two.
        rows: Which of these is that of each row of the batch, None where all have the first.
    """

    dtype: torch.dtype
    exponents: tuple[int, ...]
    rows: Tensor | None = None

    def seed(self, units: Tensor) -> Tensor:
        """Return the first order of the inputs ``[n, *batch, columns]`` times the scale.

        It is a new tensor, into which a rule or a user may write.
        """
        if self.rows is None:
            exponent = self.exponents[0]
            return units * 2.0**exponent if exponent else units.clone()
        return _by_row(self.rows, units, [(2.0**exponent,) for exponent in self.exponents], 1)

    def derivative(self, coefficient: Tensor, factorial: int, degree: int) -> Tensor:
        """Return a coefficient ``[*batch, *channels]`` times its factorial, without the scale."""
        largest = _LARGEST[self.dtype]
        if self.rows is not None:
            factors = [_factors(factorial, -degree * e, largest) for e in self.exponents]
            return _by_row(self.rows, coefficient, factors, 0)
        for factor in _factors(factorial, -degree * self.exponents[0], largest):
            coefficient = coefficient if factor == 1 else coefficient * factor
        return coefficient


def _by_row(rows: Tensor, tensor: Tensor, factors: Sequence[Sequence[float]], first: int) -> Tensor:
    """Return a tensor ``[..., *batch, ...]`` with each row times the factors that are its own.

    The axes of `rows`, ``[*batch]``, are those of the tensor from the axis `first` on.
    """
    count = max(map(len, factors))
    padded = [[*own, *[1.0] * (count - len(own))] for own in factors]
    shape = *rows.shape, *[1] * (tensor.dim() - first - rows.dim())
    for factor in tensor.new_tensor(padded).unbind(1):
        tensor = tensor * factor[rows].reshape(shape)
    return tensor


@lru_cache(maxsize=256)
def _factors(factorial: int, power: int, largest: int) -> tuple[float, ...]:
    """Return factors whose product is ``factorial * 2**power``, none far beyond ``2**largest``.

    They are all above one, or all below it, so what is on the way is in range where the end is.
    """
    bits = factorial.bit_length() - 1
    mantissa, power = factorial / (1 << bits), power + bits
    steps = [math.copysign(largest, power)] * (abs(power) // largest)
    first, *others = [power - sum(steps), *steps]
    return (math.ldexp(mantissa, int(first)), *[2.0**step for step in others])
