"""Derivatives of a tensor in its graph, from one walk along the path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._taylor import _batch
from leafgrad._taylor._algebra import (
    Algebra,
    Indices,
    MultiIndex,
    basis_of,
    closure,
    monomials,
    squares,
)
from leafgrad._taylor._engine import replay
from leafgrad._taylor._refusal import Refusal
from leafgrad._taylor._series import Series


@dataclass(frozen=True, kw_only=True)
class Taylor:
    """What is to be differentiated with respect to `inputs`; `batch` axes of it count rows."""

    inputs: Tensor
    batch: int
    create_graph: bool

    def derivatives(
        self, outputs: Tensor, path: Sequence[Node], orders: Sequence[MultiIndex]
    ) -> dict[MultiIndex, Tensor]:
        """Give the derivatives of all `orders`, or raise a `Refusal`."""
        indices = closure(orders)
        basis = basis_of(indices)
        columns = range(len(basis[0]))
        units = [tuple(int(n == column) for n in columns) for column in columns]
        used = {basis.index(unit): column for column, unit in enumerate(units) if unit in indices}
        used = dict(sorted(used.items()))
        with self._recorded():
            found = self._replayed(outputs, path, monomials(indices), used)
            coefficients = _coefficients(found)
            return {
                order: self._scaled(
                    coefficients.get(basis.index(order)),
                    math.prod(float(n) for count in order for n in range(1, count + 1)),
                    outputs,
                )
                for order in orders
            }

    def laplacian(self, outputs: Tensor, path: Sequence[Node], dims: Sequence[int]) -> Tensor:
        """Give the sum of the second derivatives in these columns, or raise a `Refusal`."""
        with self._recorded():
            used = dict(enumerate(dims))
            found = self._replayed(outputs, path, squares(len(dims)), used)
            return self._scaled(_coefficients(found).get(len(dims)), 2, outputs)

    def _recorded(self) -> nullcontext[None] | torch.no_grad:
        return nullcontext() if self.create_graph else torch.no_grad()

    def _replayed(
        self, outputs: Tensor, path: Sequence[Node], algebra: Algebra, used: dict[int, int]
    ) -> Series | None:
        start, end = _autograd.edge(self.inputs), _autograd.edge(outputs)
        found = replay(path, start, self._seed(algebra, used), end)
        if found is not None and found.axes != _batch.rows_of(outputs.shape, self.batch):
            raise Refusal("the rows of outputs are not those of inputs")
        return found

    def _seed(self, algebra: Algebra, used: dict[int, int]) -> Series:
        """Give the series of the inputs: each index of first order moves one column."""
        shape, kind = self.inputs.shape, {"dtype": self.inputs.dtype, "device": self.inputs.device}
        columns = shape[self.batch :]
        stack = torch.zeros(len(used), *[1] * self.batch, *(columns or [1]), **kind)
        for place, column in enumerate(used.values()):
            stack[place, ..., column : column + 1] = 1
        return Series(
            algebra=algebra,
            indices=tuple(used),
            stack=stack.reshape(-1, *[1] * self.batch, *columns),
            shape=tuple(shape),
            axes=_batch.rows_of(shape, self.batch),
        )

    def _scaled(self, coefficient: Tensor | None, factor: float, outputs: Tensor) -> Tensor:
        if coefficient is None:
            return self.inputs.new_zeros(outputs.shape)
        return (coefficient.expand(outputs.shape) * factor).to(self.inputs.dtype)


def _coefficients(series: Series | None) -> dict[int, Tensor]:
    if series is None:
        return {}
    return dict(zip(series.indices, series.stack.unbind(0), strict=True))
