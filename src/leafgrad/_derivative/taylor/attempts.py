"""Which scales are tried, and how it is seen whether one of them was fine.

A scale (see `scale`) is named by its bias: the coefficient of the highest order asked for comes out
as its derivative times 2**bias, so that bias is the room below it, in bits, at the cost of the room
above. What leaves the range below, and so is zero or inexact, does so unseen; what leaves it above
is infinite, and is seen. So the first attempts have a large bias, and a look at the coefficients
``[K, *batch, *channels]`` of the outputs (see `range_check`) decides whether one was enough:

    inputs        order   first attempt               then
    up to single  <= 2    single precision, bias 0    double precision, bias 300
    up to single  <= 8    single precision, bias 20   double precision, bias 300
    up to single  > 8     double precision, bias 300
    double        <= 2    double precision, bias 0    double precision, bias 600
    double        > 2     double precision, bias 100  double precision, bias 600

Where all of that fails, as where one row is far larger than another, a `search` goes from bias 600
down by 900 bits a step, which is nearly all that double precision has above one, and each row takes
the first scale that fits it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad._derivative.taylor.scale import Scale

_PLAIN = 2  # up to this order, factorials do not matter
_SHORT = 8  # up to this order, coefficients are tried in single precision
_STEP = 900  # in bits, a little less than double precision has above one
_MOST = 2.0**_STEP


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
        """Return where all of ``[K, *batch, *channels]`` along axes is in range: ``[*batch]``."""
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
    """Return what is tried then, from much room below the coefficients to much above them."""
    biases = range(600, min(-300, -64 * order) - 1, -_STEP)
    scales = (_make_scale(torch.float64, factorial, order, bias) for bias in biases)
    return tuple(Attempt(scale, Room(0, _MOST)) for scale in scales)


def _make_scale(dtype: torch.dtype, factorial: int, order: int, bias: int) -> Scale:
    """Return the scale that multiplies what the factorial divides, of this order, by 2**bias."""
    return Scale(dtype, (round((math.log2(factorial) + bias) / order),))
