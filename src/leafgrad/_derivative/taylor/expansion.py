"""Compute derivatives of a tensor by one forward walk along the path in its graph.

The inputs are ``[*batch, *columns]``, usually with a single axis of columns. The seed is the series
of the inputs. It has one index of first order for each column to differentiate, with the
coefficient 1 in this column and 0 elsewhere. Instead of a column, an index can also belong to a
direction across the columns. The walk propagates the seed to the outputs ``[*batch, *channels]``.
Their coefficient at a multi-index alpha is the derivative divided by alpha!, for every row of the
batch at once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor.algebra import (
    Algebra,
    MultiIndex,
    basis_of,
    closure,
    monomials,
    rays,
    squares,
)
from leafgrad._derivative.taylor.attempts import Attempt, attempts, search
from leafgrad._derivative.taylor.constants import make_once
from leafgrad._derivative.taylor.dtypes import is_on
from leafgrad._derivative.taylor.modes import run_in
from leafgrad._derivative.taylor.propagate import replay
from leafgrad._derivative.taylor.range_check import Factorials, RangeCheck
from leafgrad._derivative.taylor.readable import may_read
from leafgrad._derivative.taylor.scale import Scale
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import unsupported_if


class Moved(NamedTuple):
    """What the n indices of first order stand for: first the directions, then the columns.

    Attributes:
        indices: The n indices.
        columns: The columns of the inputs that the last indices belong to.
        directions: The directions of the first indices, ``[n - len(columns), *batch, *columns]``.
            Any axis of the batch may have size 1. None if there are no directions.
    """

    indices: tuple[int, ...]
    columns: tuple[int, ...]
    directions: Tensor | None = None


class Taylor(NamedTuple):
    """The derivatives of `outputs` with respect to `inputs`, computed by Taylor mode.

    Attributes:
        outputs: The tensor to differentiate, ``[*batch, *channels]``.
        inputs: A tensor ``[*batch, *columns]``, or ``[*batch]`` if each element is a row.
        batch: The number of axes that count rows.
        path: The path through the graph between the two.
        create_graph: Whether the derivatives get a graph, so that they can be differentiated.
    """

    outputs: Tensor
    inputs: Tensor
    batch: int
    path: _autograd.Path
    create_graph: bool

    @run_in(lambda taylor, *_: taylor.mode())
    def derivatives(self, orders: Collection[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Return the derivative for each multi-index in `orders`, in the shape of outputs.

        Raise `Unsupported` if Taylor mode cannot compute them.
        """
        algebra, place, moved = _plan(frozenset(orders))
        found = self._in_range(
            algebra, moved, {place[order]: _factorial(order) for order in orders}
        )
        return {order: found[place[order]] for order in orders}

    @run_in(lambda taylor, *_: taylor.mode())
    def laplacian(
        self, along: Sequence[int] | Tensor, gradient_in: Sequence[int]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the sum of second derivatives, and the first derivatives in `gradient_in`.

        The sum runs over `along`: columns, or directions ``[n, *batch, *columns]``. Each returned
        tensor has the shape of outputs. Raise `Unsupported` if Taylor mode cannot compute them.
        """
        directions = along if isinstance(along, Tensor) else None
        columns = () if isinstance(along, Tensor) else tuple(along)
        others = tuple(column for column in gradient_in if column not in columns)
        last = len(along) + len(others)
        moved = Moved(tuple(range(last)), (*columns, *others), directions)
        place = dict(zip(reversed(moved.columns), reversed(moved.indices), strict=False))
        asked = {place[column]: 1 for column in gradient_in} | {last: 2}
        found = self._in_range(squares(len(along), len(others)), moved, asked)
        return found[last], [found[place[column]] for column in gradient_in]

    @run_in(lambda taylor, *_: taylor.mode())
    def along(self, directions: Tensor, orders: Collection[int]) -> dict[int, Tensor]:
        """Return a dict from each order to its derivatives along n directions.

        The derivatives are ``[n, *shape of outputs]``, and `directions` is
        ``[n, *batch, *columns]``. Raise `Unsupported` if Taylor mode cannot compute them.
        """
        count, algebra = len(directions), rays(len(directions), max(orders))
        moved = Moved(tuple(range(count)), (), directions)
        asked = {
            (order - 1) * count + n: math.factorial(order)
            for order in sorted(orders)
            for n in range(count)
        }
        found = self._in_range(algebra, moved, asked)
        places = {order: range((order - 1) * count, order * count) for order in orders}
        return {order: torch.stack([found[n] for n in places[order]]) for order in orders}

    def records_itself(self) -> bool:
        """Check whether autograd can track reverse passes along the path as far as required.

        Without `create_graph`, no graph of these passes is required, so the result is True.
        """
        return not self.create_graph or _autograd.all_twice_differentiable(self.path.nodes)

    def mode(self) -> AbstractContextManager[Any] | None:
        """Return a context that sets grad mode to `create_graph` and turns autocast off.

        Return None if both are as needed already.
        """
        is_cast = _autograd.is_cast(self.inputs)
        if torch.is_grad_enabled() == self.create_graph and not is_cast:
            return None
        modes = ExitStack()
        modes.enter_context(torch.set_grad_enabled(self.create_graph))
        if is_cast:
            modes.enter_context(torch.autocast(self.inputs.device.type, enabled=False))
        return modes

    def _in_range(self, algebra: Algebra, moved: Moved, asked: Factorials) -> dict[int, Tensor]:
        """Return the derivatives for the coefficients in `asked`, each in the shape of outputs.

        `asked` maps the index of a coefficient to its factorial, the factor between coefficient and
        derivative. If a coefficient overflows or underflows, the computation is repeated with
        another scale. `moved` lists the directions and columns along which to differentiate.
        """
        unsupported_if(_autograd.has_tangent(self.outputs), "tangent")
        # Compute with the first scale.
        tried, better = attempts(self.inputs.dtype, asked[max(asked)], algebra.order)
        scale = tried.scale
        found = self._coefficients(algebra, moved, scale).computed()
        # Read the coefficients, and find a better scale if one overflowed or underflowed.
        check = RangeCheck(self.outputs, self.batch, asked)
        has_coefficients = not asked.keys().isdisjoint(found.indices)
        is_readable = has_coefficients and may_read(self.inputs)
        if is_readable and not check.fits_plainly(found, tried.room):
            with torch.no_grad():
                scale = self._best_scale(found, moved, check, tried, better)
            if scale is not tried.scale:
                found = self._coefficients(algebra, moved, scale).computed()
        # Multiply by the factorials, and undo the scale.
        known = dict(zip(found.indices, found.stack.unbind(0), strict=True))
        return {
            index: self._result(known.get(index), scale, factorial, algebra.degrees[index])
            for index, factorial in asked.items()
        }

    def _best_scale(
        self, found: Series, moved: Moved, check: RangeCheck, tried: Attempt, better: Attempt | None
    ) -> Scale:
        """Return the scale with which to compute the result.

        This is the scale of `tried` if the coefficients `found` with it did not overflow or
        underflow, and a better scale otherwise. The coefficients are ``[K, *batch, *channels]``.
        `moved` lists the directions and columns along which to differentiate. `better` is a second
        attempt; None if there is none.
        """
        if check.fits(found, tried.room):
            return tried.scale
        if better is not None:
            exact = self._coefficients(found.algebra, moved, better.scale)
            if check.fits(exact, better.room):
                return tried.scale if check.confirms(found, tried, exact, better) else better.scale
        return self._search_scale(found.algebra, moved, check)

    def _search_scale(self, algebra: Algebra, moved: Moved, check: RangeCheck) -> Scale:
        """Return a scale with which no coefficient overflows or underflows, chosen for each row.

        If a row has no such scale, a value itself is infinite or NaN, and the scale does not
        matter. `moved` lists the directions and columns along which to differentiate.
        """
        tried = search(check.asked[max(check.asked)], algebra.order)
        rows = self.inputs.new_full(self.outputs.shape[: self.batch], -1, dtype=torch.long)
        for number, (scale, room) in enumerate(tried):
            fit = check.rows_that_fit(self._coefficients(algebra, moved, scale), room)
            rows = torch.where((rows < 0) & fit, number, rows)
            if (rows >= 0).all():
                break
        rows = rows.clamp(min=0)
        first = int(rows.max())
        if (rows == first).all():
            return tried[first].scale
        return Scale(torch.float64, tuple(scale.exponents[0] for scale, _ in tried), rows)

    def _coefficients(self, algebra: Algebra, moved: Moved, scale: Scale) -> Series:
        """Return the series ``[K, *batch, *channels]`` of the outputs, computed with this scale.

        `moved` describes the seed, which is the series of the inputs.
        """
        x = self.inputs
        unsupported_if(not is_on(x.device, scale.dtype), "double")
        seed = Series(
            algebra=algebra,
            indices=moved.indices,
            source=scale.seed(self._units(moved, scale.dtype)),
            shape=tuple(x.shape),
        )
        try:
            found = replay(self.path, seed)
        except _autograd.Recomputation:
            found = _autograd.run_in_backward(lambda: self._replay_in_backward(seed))
        return seed.changed(seed.stack[:0], indices=()) if found is None else found

    def _units(self, moved: Moved, dtype: torch.dtype) -> Tensor:
        """Return the directions along which to differentiate, ``[n, *batch, *columns]``.

        There is one for each index of first order in `moved`. For a column, the direction is its
        unit vector. Multiplied by the scale, they are the coefficients of the seed, which is the
        series of the inputs.
        """
        row, device = tuple(self.inputs.shape[self.batch :]), self.inputs.device
        units = _units(moved.columns, row, self.batch, dtype, device)
        if moved.directions is None:
            return units
        directions = moved.directions.to(dtype)
        return torch.cat([directions, units.expand(-1, *directions.shape[1:])])

    @run_in(lambda taylor, _: taylor.mode())
    def _replay_in_backward(self, seed: Series) -> Series | None:
        """Propagate the seed ``[K, *inputs]`` inside a backward pass, for paths with a checkpoint.

        Inside the pass, each checkpoint recomputes its tensors only once. Return the series of the
        outputs, or None if it is zero.
        """
        return replay(self.path, seed, is_in_backward=True)

    def _result(
        self, coefficient: Tensor | None, scale: Scale, factorial: int, degree: int
    ) -> Tensor:
        """Return the derivative for a coefficient, in the shape of outputs and the dtype of inputs.

        If `coefficient` is None, the derivative is zero.
        """
        if coefficient is None:
            return self.inputs.new_zeros(self.outputs.shape)
        shape = self.outputs.shape
        result = coefficient if coefficient.shape == shape else coefficient.expand(shape)
        result = scale.derivative(result, factorial, degree)
        return result if result.dtype == self.inputs.dtype else result.to(self.inputs.dtype)


@lru_cache(maxsize=256)
def _plan(orders: frozenset[MultiIndex]) -> tuple[Algebra, dict[MultiIndex, int], Moved]:
    """Return the algebra for these orders, the index of each multi-index in it, and the `Moved`."""
    indices = closure(orders)
    place = {index: number for number, index in enumerate(basis_of(indices))}
    pairs = sorted((place[index], index.index(1)) for index in indices if sum(index) == 1)
    moved = Moved(indices=tuple(i for i, _ in pairs), columns=tuple(c for _, c in pairs))
    return monomials(indices), place, moved


@make_once
def _units(
    columns: tuple[int, ...],
    row: tuple[int, ...],
    batch: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Return the unit vectors of these columns, ``[n, 1, ..., 1, *row]``.

    There are `batch` axes of size 1.
    """
    with torch.inference_mode(mode=False):
        unit = torch.eye(math.prod(row), dtype=dtype, device=device)
        return unit[[*columns]].reshape(len(columns), *[1] * batch, *row)


@lru_cache(maxsize=256)
def _factorial(order: MultiIndex) -> int:
    """Return alpha! for the multi-index `order`: the product of the factorials of its entries."""
    return math.prod(map(math.factorial, order))
