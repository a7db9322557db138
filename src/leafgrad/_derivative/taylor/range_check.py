"""Check the coefficients of the outputs for overflow and underflow.

The outputs are ``[*batch, *channels]``, their coefficients ``[K, *batch, *channels]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad._derivative.taylor.algebra import Indices
from leafgrad._derivative.taylor.attempts import Attempt, Room
from leafgrad._derivative.taylor.series import Series

Factorials = Mapping[int, int]  # from the index of a requested coefficient to its factorial

_NEAR = 8  # The largest rounding error, in eps. A larger difference may be due to underflow.


class RangeCheck(NamedTuple):
    """A check of the coefficients of some outputs for overflow and underflow.

    Attributes:
        outputs: The tensor ``[*batch, *channels]`` that is differentiated.
        batch: The number of axes that count rows.
        asked: The indices of the coefficients that the caller needs, with their factorials.
    """

    outputs: Tensor
    batch: int
    asked: Factorials

    def fits(self, found: Series, room: Room) -> bool:
        """Check whether all rows of the series `found` satisfy the limits in `room`.

        The series is ``[K, *batch, *channels]``. Rows with NaN in the outputs always satisfy the
        limits.
        """
        return self.fits_plainly(found, room) or bool(self.rows_that_fit(found, room).all())

    def fits_plainly(self, found: Series, room: Room) -> bool:
        """Check quickly whether all coefficients of `found` satisfy the limits in `room`.

        The series is ``[K, *batch, *channels]``. This is stricter than `fits`: it makes no
        exception for small values or NaN.
        """
        sizes = found.stack.detach().abs()
        lowest, highest = sizes.aminmax()
        if not highest.item() <= room.highest:
            return False
        if lowest.item() >= room.lowest:
            return True
        return self._part(found.indices, sizes).min().item() >= room.lowest

    def rows_that_fit(self, found: Series, room: Room) -> Tensor:
        """Return a mask ``[*batch]`` that is true for rows of `found` within the limits in `room`.

        It is also true for rows with NaN in the outputs, because no scale can help there.
        """
        part, shape = self._part(found.indices, found.stack), self.outputs.shape
        dims = [0, *range(1 + self.batch, 1 + len(shape))]
        values = self.outputs.unsqueeze(0)
        fit = room.holds(found.stack.expand(-1, *shape), part.expand(-1, *shape), values, dims)
        return fit | values.isnan().any(dims)

    def confirms(self, found: Series, tried: Attempt, exact: Series, better: Attempt) -> bool:
        """Check whether a more precise attempt confirms coefficients below the lower limit.

        `found` was computed with the attempt `tried`, and `exact` with `better`. Both series are
        ``[K, *batch, *channels]``. Each requested coefficient of `found` must be above the lower
        limit or equal to that of `exact` up to rounding.
        """
        if not self.fits(found, Room(0, tried.room.highest)):
            return False
        near = _NEAR * torch.finfo(tried.scale.dtype).eps
        distance = tried.scale.exponents[0] - better.scale.exponents[0]
        degrees = [found.algebra.degrees[i] for i in found.indices if i in self.asked]
        parts = (self._part(each.indices, each.stack) for each in (found, exact))
        of_each = zip(degrees, *parts, strict=True)
        for degree, one, unscaled in of_each:
            other = unscaled * 2.0 ** (degree * distance)
            is_near = (one - other).abs() <= near * other.abs()
            if not (is_near | (one.abs() >= tried.room.lowest)).all():
                return False
        return True

    def _part(self, indices: Indices, stack: Tensor) -> Tensor:
        """Return the requested coefficients of a stack ``[K, ...]``, as a view if possible.

        `indices` contains the index of each coefficient in the stack.
        """
        places = [place for place, index in enumerate(indices) if index in self.asked]
        first, last = places[0], places[-1] + 1
        return stack[first:last] if last - first == len(places) else stack[places]
