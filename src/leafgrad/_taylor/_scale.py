"""Powers of two that keep coefficients within the range of their dtype.

A coefficient of degree d is a derivative divided by d!, which leaves the range of a dtype long
before the derivative does. Where the first order of the inputs is multiplied by a power of two, all
that is computed from it is multiplied by a power of that, its degree, without being rounded. So a
scale costs nothing on the way, and is undone where the derivatives are given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

_PLAIN = 2  # up to this order, factorials do not matter
_SHORT = 8  # up to this order, coefficients are tried in single precision
LONG = 16  # beyond this order, coefficients leave double precision at ordinary scales
_STEP = 900  # in bits, a little less than double precision has above one


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
        """Multiply the first order of the inputs, into which a rule or a user may write then."""
        factors = [(2.0**exponent,) for exponent in self.exponents]
        return self._product(units.clone(), factors, 1)

    def derivative(self, coefficient: Tensor, factorial: int, degree: int) -> Tensor:
        """Multiply a coefficient by its factorial, and undo the scale."""
        largest = 100 if self.dtype == torch.float32 else _STEP
        factors = [_factors(factorial, -degree * e, largest) for e in self.exponents]
        return self._product(coefficient, factors, 0)

    def _product(self, tensor: Tensor, factors: Sequence[Sequence[float]], first: int) -> Tensor:
        """Multiply by one factor after the other; the batch begins at the axis `first`."""
        if self.rows is None:
            for factor in factors[0]:
                tensor = tensor if factor == 1 else tensor * factor
            return tensor
        count = max(map(len, factors))
        padded = [[*own, *[1.0] * (count - len(own))] for own in factors]
        shape = *self.rows.shape, *[1] * (tensor.dim() - first - self.rows.dim())
        for factor in tensor.new_tensor(padded).unbind(1):
            tensor = tensor * factor[self.rows].reshape(shape)
        return tensor


@lru_cache(maxsize=256)
def _factors(factorial: int, power: int, largest: int) -> tuple[float, ...]:
    """Write ``factorial * 2**power`` as a product of factors, none far beyond ``2**largest``.

    They are all above one, or all below it, so what is on the way is in range where the end is.
    """
    bits = factorial.bit_length() - 1
    mantissa, power = factorial / (1 << bits), power + bits
    steps = [math.copysign(largest, power)] * (abs(power) // largest)
    first, *others = [power - sum(steps), *steps]
    return (math.ldexp(mantissa, int(first)), *[2.0**step for step in others])


class Room(NamedTuple):
    """Between which limits coefficients are where none has left the range on the way.

    What was too large on the way is infinite, or not a number, until the end. But what was too
    small is zero, or has lost places, and is not seen at the end where it was multiplied by
    something large afterwards; this would be so large itself, then, that it is seen.
    """

    lowest: float  # of those that are asked for
    highest: float

    def holds(self, coefficients: Tensor, asked: Tensor, dims: Sequence[int]) -> Tensor:
        """Say where all coefficients along some axes are within the limits."""
        fit = coefficients.abs().amax(dims) <= self.highest
        return fit & (asked.abs().amin(dims) >= self.lowest) if self.lowest else fit

    def holds_all(self, coefficients: Tensor, asked: Tensor) -> bool:
        """Say whether all are within the limits, in a fraction of the time."""
        low, high = coefficients.aminmax()
        if not (-self.highest <= low.item() and high.item() <= self.highest):
            return False
        return not self.lowest or asked.abs().min().item() >= self.lowest


class Attempt(NamedTuple):
    """A scale, and the limits that tell whether it is fine."""

    scale: Scale
    room: Room


@lru_cache(maxsize=256)
def attempts(dtype: torch.dtype, factorial: int, order: int) -> tuple[Attempt, ...]:
    """List what is tried first where inputs have this dtype: nothing in half precision.

    Up to order 2, no coefficient leaves the range but at scales beyond 1e19; up to order 16, none
    leaves that of double precision but at scales that single precision cannot hold.
    """
    double = _scaled(torch.float64, factorial, order, 100 if order > _PLAIN else 0)
    last = Attempt(double, Room(2.0**-400 if order > LONG else 0, 2.0**_STEP))
    if dtype == torch.float64 or order > _SHORT:
        return (last,)
    if order <= _PLAIN:
        return Attempt(_scaled(torch.float32, factorial, order, 0), Room(0, 2.0**100)), last
    single = _scaled(torch.float32, factorial, order, 20)
    return Attempt(single, Room(2.0**-30, 2.0**64)), last


@lru_cache(maxsize=256)
def search(factorial: int, order: int) -> tuple[Attempt, ...]:
    """List what is tried then, from much room below the coefficients to much above them."""
    biases = range(600, min(-300, -64 * order) - 1, -_STEP)
    scales = (_scaled(torch.float64, factorial, order, bias) for bias in biases)
    return tuple(Attempt(scale, Room(0, 2.0**_STEP)) for scale in scales)


def _scaled(dtype: torch.dtype, factorial: int, order: int, bias: int) -> Scale:
    """Scale so that what is divided by the factorial, of this order, is multiplied by 2**bias."""
    return Scale(dtype, (round((math.log2(factorial) + bias) / order),))


@cache
def wider(one: torch.dtype, two: torch.dtype) -> torch.dtype:
    """Give the floating dtype that holds more."""
    return one if torch.finfo(one).bits >= torch.finfo(two).bits else two


def at_least(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Give a tensor that is as precise as this dtype, with its graph."""
    if value.dtype == dtype or wider(value.dtype, dtype) == value.dtype:
        return value
    return value.to(dtype)
