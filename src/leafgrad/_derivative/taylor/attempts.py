"""The scales to try, and the limits that show whether a scale avoided overflow and underflow.

A scale (see `scale`) is described by its bias: the coefficient of the highest order is its
derivative times 2**bias. A larger bias gives more room for small numbers and less for large ones.
Overflow is visible, because the result is infinite. Underflow goes unnoticed, because the result is
zero or inexact. So an attempt with a small bias usually needs a lower limit for the coefficients,
and the attempt after it has a large bias. A check of the coefficients ``[K, *batch, *channels]`` of
the outputs (see `range_check`) decides whether to continue:

    inputs        order   first attempt               then
    up to single  <= 2    single precision, bias 0    double precision, bias 300
    up to single  <= 8    single precision, bias 20   double precision, bias 300
    up to single  > 8     double precision, bias 300
    double        <= 2    double precision, bias 0    double precision, bias 600
    double        > 2     double precision, bias 100  double precision, bias 600

If all of these fail, for example because the rows of the batch differ widely in size, a `search`
starts at bias 600 and goes down in steps of 900. Numbers above one in double precision are below
2**1024, so a step of 900 covers nearly all of them. Each row uses the first scale that fits.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad._derivative.taylor.scale import Scale

_PLAIN = 2  # up to this order, factorials are small, so the bias is 0
_SHORT = 8  # up to this order, coefficients are tried in single precision
_STEP = 900  # bits: a little less than the range of double precision above one
_MOST = 2.0**_STEP


class Room(NamedTuple):
    """Limits for the coefficients of the outputs.

    If the limits hold, no intermediate coefficient has overflowed or underflowed. An intermediate
    overflow gives infinity or NaN, which stays until the end. An intermediate underflow gives zero
    or an inexact number, and a large factor afterwards can hide it. But such a factor would be
    large enough to violate the upper limit.

    Attributes:
        lowest: The lower limit of the requested coefficients.
        highest: The upper limit of all coefficients.
        large: Coefficients below `lowest` are accepted if all outputs are smaller than this.
    """

    lowest: float
    highest: float
    large: float = 0

    def holds(self, coefficients: Tensor, asked: Tensor, values: Tensor, dims: list[int]) -> Tensor:
        """Return a mask ``[*batch]`` that is true for rows whose coefficients satisfy the limits.

        Args:
            coefficients: All coefficients, ``[K, *batch, *channels]``.
            asked: The requested ones among them.
            values: The outputs, with an axis of size 1 in front.
            dims: The axes to reduce: that of the coefficients, and those of the channels.
        """
        fit = coefficients.abs().amax(dims) <= self.highest
        is_trusted = asked.abs().amin(dims) >= self.lowest
        return fit & (is_trusted | (values.abs().amax(dims) < self.large))


class Attempt(NamedTuple):
    """A scale, and the limits that show whether it fits."""

    scale: Scale
    room: Room


@lru_cache(maxsize=256)
def attempts(dtype: torch.dtype, factorial: int, order: int) -> tuple[Attempt, Attempt | None]:
    """Return the first attempt for inputs of this dtype, and the second one or None.

    `order` is the highest order, and `factorial` its derivative divided by its coefficient.
    Coefficients are never in half precision, and in single precision only for low orders. For
    inputs in single precision or less, double precision cannot underflow. Up to order 2, zero
    derivatives are common. They are accepted unless the outputs are large. At order 1, there is no
    lower limit, because no powers of small numbers occur.
    """
    bias, large = (0, 2.0**30) if order <= _PLAIN else (20, 0)
    if dtype == torch.float64:
        room = Room(2.0**-400 if order > 1 else 0, _MOST, large)
        double = Attempt(_make_scale(dtype, factorial, order, 5 * bias), room)
        return double, search(factorial, order)[0]
    wide = Attempt(_make_scale(torch.float64, factorial, order, 300), Room(0, _MOST))
    if order > _SHORT:
        return wide, None
    room = Room(2.0**-30 if order > 1 else 0, 2.0**64, large)
    return Attempt(_make_scale(torch.float32, factorial, order, bias), room), wide


@lru_cache(maxsize=256)
def search(factorial: int, order: int) -> tuple[Attempt, ...]:
    """Return the attempts to make if the first two fail, from the largest bias to the smallest.

    `order` is the highest order, and `factorial` its derivative divided by its coefficient.
    """
    biases = range(600, min(-300, -64 * order) - 1, -_STEP)
    scales = (_make_scale(torch.float64, factorial, order, bias) for bias in biases)
    return tuple(Attempt(scale, Room(0, _MOST)) for scale in scales)


def _make_scale(dtype: torch.dtype, factorial: int, order: int, bias: int) -> Scale:
    """Return a scale for which the coefficient of this order is its derivative times 2**bias.

    `factorial` is the derivative divided by the unscaled coefficient. The product is not exact,
    because the exponent of the scale is rounded to an integer.
    """
    return Scale(dtype, (round((math.log2(factorial) + bias) / order),))
