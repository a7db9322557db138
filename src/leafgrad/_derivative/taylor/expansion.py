"""Derivatives of a tensor in its graph, from one walk along the path.

Inputs ``[*batch, columns]`` are moved along some columns: each column that moves is an index of
first order, whose coefficient is 1 there and 0 elsewhere. The walk carries this seed to the outputs
``[*batch, *channels]``, whose coefficient of a multi-index alpha is then the derivative divided by
alpha!, for every row of the batch at once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor import batch_axes
from leafgrad._derivative.taylor.algebra import (
    Algebra,
    MultiIndex,
    basis_of,
    closure,
    monomials,
    squares,
)
from leafgrad._derivative.taylor.attempts import Attempt, attempts, search
from leafgrad._derivative.taylor.constants import made_once
from leafgrad._derivative.taylor.dtypes import is_on
from leafgrad._derivative.taylor.propagate import replay
from leafgrad._derivative.taylor.range_check import Factorials, Look
from leafgrad._derivative.taylor.row_wise import axes_at_end, keep_rows_apart
from leafgrad._derivative.taylor.scale import Scale
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import Unsupported, unsupported_if


class Moved(NamedTuple):
    """Indices of first order, and the columns of the inputs that they move."""

    indices: tuple[int, ...]
    columns: tuple[int, ...]


class Taylor(NamedTuple):
    """What is to be differentiated with respect to `inputs`, whose first axes count rows.

    Attributes:
        outputs: ``[*batch, *channels]``.
        inputs: ``[*batch, columns]``, or ``[*batch]`` where each element is a row.
        batch: The number of axes that count rows.
        path: The nodes between the two.
        create_graph: Whether the derivatives are to be differentiated on.
    """

    outputs: Tensor
    inputs: Tensor
    batch: int
    path: _autograd.Path
    create_graph: bool

    def derivatives(self, orders: Collection[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Return derivatives of the shape of outputs for all `orders`, or raise `Unsupported`."""
        if not self._is_in_mode():
            with self._mode():
                return self.derivatives(orders)
        algebra, place, moved = _plan(frozenset(orders))
        found = self._in_range(
            algebra, moved, {place[order]: _factorial(order) for order in orders}
        )
        return {order: found[place[order]] for order in orders}

    def laplacian(self, dims: Sequence[int]) -> Tensor:
        """Return the sum of the second derivatives in these columns, or raise `Unsupported`.

        It has the shape of outputs.
        """
        if not self._is_in_mode():
            with self._mode():
                return self.laplacian(dims)
        moved = Moved(indices=tuple(range(len(dims))), columns=tuple(dims))
        return self._in_range(squares(len(dims)), moved, {len(dims): 2})[len(dims)]

    def proves_rows_apart(self) -> bool:
        """Return whether the path alone, without any coefficient, proves that rows are independent.

        Only where PyTorch's own formulas are on the way.
        """
        if keep_rows_apart(self.path, self.inputs.dim(), self.batch):
            return True
        with self._mode(), torch.no_grad():
            try:
                axes = axes_at_end(self.path, self.inputs, self.batch)
            except (Unsupported, _autograd.Recomputation):
                return False
        return axes == batch_axes.rows_of(self.outputs.shape, self.batch)

    def records_itself(self) -> bool:
        """Return whether a derivative carries its graph, or need not, if formulas are PyTorch's."""
        is_once = _autograd.is_once_differentiable
        return not self.create_graph or not any(map(is_once, self.path.nodes))

    def _is_in_mode(self) -> bool:
        return torch.is_grad_enabled() == self.create_graph and not _autograd.is_cast(self.inputs)

    @contextmanager
    def _mode(self) -> Iterator[None]:
        """Record if the result is to be differentiated, and compute in the dtypes of the graph."""
        device, is_cast = self.inputs.device.type, _autograd.is_cast(self.inputs)
        with (
            torch.set_grad_enabled(self.create_graph),
            torch.autocast(device, enabled=False) if is_cast else nullcontext(),
        ):
            yield

    def _in_range(self, algebra: Algebra, moved: Moved, asked: Factorials) -> dict[int, Tensor]:
        """Return what is asked for times its factorials, each of the shape of outputs.

        No coefficient has left the range on the way: where one did, another scale is taken.
        """
        tried, better = attempts(self.inputs.dtype, asked[max(asked)], algebra.order)
        scale = tried.scale
        found = self._coefficients(algebra, moved, scale).computed()
        look = Look(self.outputs, self.batch, asked)
        if self._is_looked_at(found, asked) and not look.fits_plainly(found, tried.room):
            with torch.no_grad():
                scale = self._best_scale(found, moved, look, tried, better)
            if scale is not tried.scale:
                found = self._coefficients(algebra, moved, scale).computed()
        known = dict(zip(found.indices, found.stack.unbind(0), strict=True))
        return {
            index: self._result(known.get(index), scale, factorial, algebra.degrees[index])
            for index, factorial in asked.items()
        }

    def _is_looked_at(self, found: Series, asked: Factorials) -> bool:
        """Return whether there are coefficients to look at, which waits for the device they are on.

        While a CUDA graph is captured nothing is computed yet.
        """
        if _autograd.is_intercepted() or asked.keys().isdisjoint(found.indices):
            return False
        return not (self.inputs.is_cuda and torch.cuda.is_current_stream_capturing())

    def _best_scale(
        self, found: Series, moved: Moved, look: Look, tried: Attempt, better: Attempt | None
    ) -> Scale:
        """Return the scale that was tried, with which these were found, or a better one."""
        if look.fits(found, tried.room):
            return tried.scale
        if better is not None:
            exact = self._coefficients(found.algebra, moved, better.scale)
            if look.fits(exact, better.room):
                return tried.scale if look.confirms(found, tried, exact, better) else better.scale
        return self._searched(found.algebra, moved, look)

    def _searched(self, algebra: Algebra, moved: Moved, look: Look) -> Scale:
        """Return for each row the first scale with which no coefficient leaves the range.

        Where there is none, that is no matter of scale: a function is infinite, or not a number.
        """
        tried = search(look.asked[max(look.asked)], algebra.order)
        rows = self.inputs.new_full(self.outputs.shape[: self.batch], -1, dtype=torch.long)
        for number, (scale, room) in enumerate(tried):
            fit = look.rows_that_fit(self._coefficients(algebra, moved, scale), room)
            rows = torch.where((rows < 0) & fit, number, rows)
            if (rows >= 0).all():
                break
        rows = rows.clamp(min=0)
        first = int(rows.max())
        if (rows == first).all():
            return tried[first].scale
        return Scale(torch.float64, tuple(scale.exponents[0] for scale, _ in tried), rows)

    def _coefficients(self, algebra: Algebra, moved: Moved, scale: Scale) -> Series:
        """Return the series ``[K, *batch, *channels]`` of outputs where columns are `moved`."""
        x = self.inputs
        unsupported_if(not is_on(x.device, scale.dtype), "its order takes double precision")
        kept = _seed(algebra, moved, tuple(x.shape), self.batch, scale.dtype, x.device)
        seed = kept.changed(scale.seed(kept.stack))
        try:
            found = replay(self.path, seed)
        except _autograd.Recomputation:
            found = _autograd.in_backward(lambda: self._replayed_in_backward(seed))
        if found is None:
            return seed.changed(seed.stack[:0], indices=())
        if found.axes != batch_axes.rows_of(self.outputs.shape, self.batch):
            raise Unsupported("the rows of outputs are not those of inputs")
        return found

    def _replayed_in_backward(self, seed: Series) -> Series | None:
        """Replay where a checkpoint computes all that it did not save anew once, not per look."""
        with self._mode():
            return replay(self.path, seed, is_in_backward=True)

    def _result(
        self, coefficient: Tensor | None, scale: Scale, factorial: int, degree: int
    ) -> Tensor:
        """Return a derivative, of the shape and dtype asked for, from its coefficient."""
        if coefficient is None:
            return self.inputs.new_zeros(self.outputs.shape)
        shape = self.outputs.shape
        result = coefficient if coefficient.shape == shape else coefficient.expand(shape)
        result = scale.derivative(result, factorial, degree)
        return result if result.dtype == self.inputs.dtype else result.to(self.inputs.dtype)


@lru_cache(maxsize=256)
def _plan(orders: frozenset[MultiIndex]) -> tuple[Algebra, dict[MultiIndex, int], Moved]:
    """Return the algebra of these orders, where each is in it, and which columns move."""
    indices = closure(orders)
    place = {index: number for number, index in enumerate(basis_of(indices))}
    pairs = sorted((place[index], index.index(1)) for index in indices if sum(index) == 1)
    moved = Moved(indices=tuple(i for i, _ in pairs), columns=tuple(c for _, c in pairs))
    return monomials(indices), place, moved


@made_once
def _seed(
    algebra: Algebra,
    moved: Moved,
    shape: tuple[int, ...],
    batch: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Series:
    """Return the series ``[n, *batch, columns]`` of inputs, with size 1 along the batch."""
    row = (1,) * batch + shape[batch:]
    with torch.inference_mode(mode=False):
        unit = torch.eye(math.prod(row), dtype=dtype, device=device)
        units = unit[[*moved.columns]].reshape(len(moved.columns), *row)
    axes = batch_axes.rows_of(shape, batch)
    return Series(algebra=algebra, indices=moved.indices, source=units, shape=shape, axes=axes)


@lru_cache(maxsize=256)
def _factorial(order: MultiIndex) -> int:
    """Return the product of the factorials of what is counted in each column."""
    return math.prod(map(math.factorial, order))
