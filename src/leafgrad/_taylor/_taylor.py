"""Derivatives of a tensor in its graph, from one walk along the path."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._taylor import _batch
from leafgrad._taylor._algebra import (
    Algebra,
    MultiIndex,
    basis_of,
    closure,
    monomials,
    powers,
    squares,
)
from leafgrad._taylor._apart import keep_rows_apart
from leafgrad._taylor._constants import made_once
from leafgrad._taylor._engine import replay
from leafgrad._taylor._refusal import Refusal
from leafgrad._taylor._series import Series


class Moved(NamedTuple):
    """Indices of first order, and the columns of the inputs that they move."""

    indices: tuple[int, ...]
    columns: tuple[int, ...]


class Taylor(NamedTuple):
    """What is to be differentiated with respect to `inputs`, whose first axes count rows."""

    outputs: Tensor
    inputs: Tensor
    batch: int
    path: _autograd.Path
    create_graph: bool

    def derivatives(self, orders: Collection[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Give the derivatives of all `orders`, or raise a `Refusal`."""
        if not self._is_in_mode():
            with self._mode():
                return self.derivatives(orders)
        algebra, place, moved = _plan(frozenset(orders))
        found = self._coefficients(algebra, moved, min([place[order] for order in orders]))
        return {order: self._result(found.get(place[order]), _factorial(order)) for order in orders}

    def laplacian(self, dims: Sequence[int]) -> Tensor:
        """Give the sum of the second derivatives in these columns, or raise a `Refusal`."""
        if not self._is_in_mode():
            with self._mode():
                return self.laplacian(dims)
        moved = Moved(indices=tuple(range(len(dims))), columns=tuple(dims))
        found = self._coefficients(squares(len(dims)), moved, len(dims))
        return self._result(found.get(len(dims)), 2)

    def proves_rows_apart(self) -> bool:
        """Say whether the path alone, without any coefficient, proves that rows are independent.

        Only where PyTorch's own formulas are on the way, which record themselves.
        """
        if keep_rows_apart(self.path, self.inputs.dim(), self.batch):
            return True
        if any(map(_autograd.forward_class, self.path.nodes)):
            return False
        if self.create_graph and any(map(_autograd.is_once_differentiable, self.path.nodes)):
            return False
        with self._mode(), torch.no_grad():
            try:
                self._coefficients(powers(1), Moved(indices=(), columns=()))
            except Refusal:
                return False
        return True

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

    def _coefficients(self, algebra: Algebra, moved: Moved, first: int = 0) -> dict[int, Tensor]:
        """Replay the graph with the columns of the inputs that are `moved`.

        No index before `first` is asked for.
        """
        x = self.inputs
        kept = _seed(algebra, moved, tuple(x.shape), self.batch, x.dtype, x.device)
        seed = kept.changed(kept.stack.clone())  # into which a rule or a user may write
        try:
            found = replay(self.path, seed, first)
        except _autograd.Recomputation:
            found = _autograd.in_backward(lambda: self._replayed_in_backward(seed, first))
        if found is None:
            return {}
        if found.axes != _batch.rows_of(self.outputs.shape, self.batch):
            raise Refusal("the rows of outputs are not those of inputs")
        return dict(zip(found.indices, found.stack.unbind(0), strict=True))

    def _replayed_in_backward(self, seed: Series, first: int) -> Series | None:
        """Replay where a checkpoint computes all that it did not save anew once, not per look."""
        with self._mode():
            return replay(self.path, seed, first, is_in_backward=True)

    def _result(self, coefficient: Tensor | None, factor: float) -> Tensor:
        if coefficient is None:
            return self.inputs.new_zeros(self.outputs.shape)
        shape = self.outputs.shape
        result = coefficient if coefficient.shape == shape else coefficient.expand(shape)
        result = result if factor == 1 else result * factor
        return result if result.dtype == self.inputs.dtype else result.to(self.inputs.dtype)


@lru_cache(maxsize=256)
def _plan(orders: frozenset[MultiIndex]) -> tuple[Algebra, dict[MultiIndex, int], Moved]:
    """Give the algebra of these orders, where each is in it, and which columns move."""
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
    """Give the series of inputs, which has the same coefficients in all rows."""
    row = (1,) * batch + shape[batch:]
    with torch.inference_mode(mode=False):
        unit = torch.eye(math.prod(row), dtype=dtype, device=device)
        units = unit[[*moved.columns]].reshape(len(moved.columns), *row)
    axes = _batch.rows_of(shape, batch)
    return Series(algebra=algebra, indices=moved.indices, source=units, shape=shape, axes=axes)


@lru_cache(maxsize=256)
def _factorial(order: MultiIndex) -> float:
    """Multiply the factorials, which is infinite rather than an error where they are too large."""
    return math.prod(float(n) for count in order for n in range(1, count + 1))
