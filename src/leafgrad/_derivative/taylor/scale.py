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
_STEP = 900  # in bits, a little less than double precision has above one
_MOST = 2.0**_STEP


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
        largest = 100 if self.dtype == torch.float32 else _STEP
        if self.rows is not None:
            factors = [_factors(factorial, -degree * e, largest) for e in self.exponents]
            return _by_row(self.rows, coefficient, factors, 0)
        for factor in _factors(factorial, -degree * self.exponents[0], largest):
            coefficient = coefficient if factor == 1 else coefficient * factor
        return coefficient


def _by_row(rows: Tensor, tensor: Tensor, factors: Sequence[Sequence[float]], first: int) -> Tensor:
    """Return a tensor with each row times the factors that are its own.

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


class Room(NamedTuple):
    """Between which limits coefficients are where none has left the range on the way.

    What was too large on the way is infinite, or not a number, until the end. But what was too
    small is zero, or has lost places, and is not seen at the end where it was multiplied by
    something large afterwards; this would be so large itself, then, that it is seen.

    Attributes:
        lowest: Of what is asked for.
        highest: Of any coefficient.
        large: The value from which on what is lower is not trusted.
    """

    lowest: float
    highest: float
    large: float = 0

    def holds(self, coefficients: Tensor, asked: Tensor, values: Tensor, dims: list[int]) -> Tensor:
        """Return where all coefficients along some axes are within the limits, one for each row."""
        fit = coefficients.abs().amax(dims) <= self.highest
        is_trusted = asked.abs().amin(dims) >= self.lowest
        return fit & (is_trusted | (values.abs().amax(dims) < self.large))


class Attempt(NamedTuple):
    """A scale, and the limits that tell whether it is fine."""

    scale: Scale
    room: Room


@lru_cache(maxsize=256)
def attempts(dtype: torch.dtype, factorial: int, order: int) -> tuple[Attempt, Attempt | None]:
    """Return what is tried first where inputs have this dtype, and what after it.

    Nothing is carried in half precision, and in single precision no more than a few orders. From
    there, double precision has all the range that there can be need for below the coefficients. Up
    to order 2, zeros are common, and trusted unless what is differentiated is large; of order 1,
    nothing is a power of what is small.
    """
    bias, large = (0, 2.0**30) if order <= _PLAIN else (20, 0)
    is_powered = order > 1
    wide = Attempt(_scaled(torch.float64, factorial, order, 300), Room(0, _MOST))
    if dtype == torch.float64:
        double = _scaled(dtype, factorial, order, 5 * bias)
        return Attempt(double, Room(is_powered * 2.0**-400, _MOST, large)), search(
            factorial, order
        )[0]
    if order > _SHORT:
        return wide, None
    single = _scaled(torch.float32, factorial, order, bias)
    return Attempt(single, Room(is_powered * 2.0**-30, 2.0**64, large)), wide


@lru_cache(maxsize=256)
def search(factorial: int, order: int) -> tuple[Attempt, ...]:
    """Return what is tried then, from much room below the coefficients to much above them."""
    biases = range(600, min(-300, -64 * order) - 1, -_STEP)
    scales = (_scaled(torch.float64, factorial, order, bias) for bias in biases)
    return tuple(Attempt(scale, Room(0, _MOST)) for scale in scales)


def _scaled(dtype: torch.dtype, factorial: int, order: int, bias: int) -> Scale:
    """Return the scale that multiplies what the factorial divides, of this order, by 2**bias."""
    return Scale(dtype, (round((math.log2(factorial) + bias) / order),))


def is_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether a device computes with a dtype of coefficients: Apple's have no double."""
    return dtype != torch.float64 or device.type != "mps"


@cache
def wider(one: torch.dtype, two: torch.dtype) -> torch.dtype:
    """Return the floating dtype that holds more."""
    return one if torch.finfo(one).bits >= torch.finfo(two).bits else two


def at_least(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a tensor ``[*shape]`` that is as precise as this dtype, with its graph."""
    if value.dtype == dtype or wider(value.dtype, dtype) == value.dtype:
        return value
    return value.to(dtype)
