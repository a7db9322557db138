"""Truncated Taylor series: the coefficients of a tensor above order 0.

The series of a tensor with a given `shape` is a stack ``[K, *shape]`` of the coefficients at K
indices of an algebra, in ascending order. All other coefficients are zero. The coefficient of a
multi-index alpha is the partial derivative of that order divided by alpha!, and scaled (see
`scale`). If the coefficients are constant along an axis, the stack may have size 1 there:
``stack.shape[1:]`` broadcasts to `shape`. Every operation of this module keeps the stack as small
as it can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import EllipsisType, NoneType

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor.algebra import Algebra, Indices
from leafgrad._derivative.taylor.axis_groups import group_axes
from leafgrad._derivative.taylor.dtypes import at_least, wider
from leafgrad._derivative.taylor.kernels.composed import Composed, Derivatives
from leafgrad._derivative.taylor.kernels.contraction import contract, product
from leafgrad._derivative.taylor.kernels.fused import FusedLayers, Layer, is_near_one
from leafgrad._derivative.taylor.kernels.plans import Recurrence, contraction, recurrence
from leafgrad._derivative.taylor.kernels.products import common_shape, keep_where
from leafgrad._derivative.taylor.kernels.sigmoidal import DerivativeOfValue, Sigmoidal
from leafgrad._derivative.taylor.unsupported import Unsupported
from leafgrad._messages import message

Number = complex | float | int


@dataclass(kw_only=True, slots=True, eq=False)  # A frozen dataclass takes three times as long.
class Series:
    """The Taylor coefficients of a tensor at all orders above 0.

    A rule (see `taylor_rule`) is called with a series for each tensor argument. Most rules only
    pass the series to `Jet` and compute with the jet.

    A Taylor coefficient is a derivative divided by factorials, such as the second derivative
    divided by 2. The coefficient of order 0 would be the value of the tensor. A series does not
    contain it.

    Note:
        A rule that computes with the coefficients themselves finds them in three attributes. The
        tensor ``stack`` contains the coefficients, one after the other along its first axis, except
        those that are known to be zero. ``algebra`` assigns a number to every coefficient that the
        derivatives need, and ``indices`` lists the numbers of the coefficients in ``stack``. If no
        coefficient changes along an axis of the tensor, ``stack`` may have size 1 along this axis.

        Each coefficient is multiplied by a power of two, so that it stays within the range of its
        dtype. This dtype is at least single precision, whatever the dtype of the tensor is.
    """

    algebra: Algebra
    indices: Indices
    source: Tensor | FusedLayers
    shape: tuple[int, ...]

    @property
    def stack(self) -> Tensor:
        """The coefficients, ``[len(indices), *shape]``. An axis may have size 1 (see the class)."""
        return self.source.stack if isinstance(self.source, FusedLayers) else self.source

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the coefficients."""
        source = self.source
        return source.start.dtype if isinstance(source, FusedLayers) else source.dtype

    @property
    def ndim(self) -> int:
        """The number of axes of the tensor. The stack has one more."""
        return len(self.shape)

    def from_end(self, dim: int) -> int:
        """Return the axis `dim` of the tensor as a negative number, which is the same in the stack.

        Raise `Unsupported` if the tensor has no axes.
        """
        if not self.shape:
            raise Unsupported("reason.no-axis")
        return dim - self.ndim if dim >= 0 else dim

    def changed(
        self,
        source: Tensor | FusedLayers,
        *,
        shape: Sequence[int] | None = None,
        indices: Indices | None = None,
    ) -> Series:
        """Return a copy with another source and, if given, another shape or other indices.

        The source is the stack of coefficients, or the layers that compute it.
        """
        return Series(
            algebra=self.algebra,
            indices=self.indices if indices is None else indices,
            source=source,
            shape=self.shape if shape is None else tuple(shape),
        )

    def full(self, *dims: int) -> Tensor:
        """Return the stack, expanded to full size along the axes `dims` or along all axes."""
        sizes = self.stack.shape[1:]
        if sizes == self.shape:
            return self.stack
        wanted = list(sizes)
        for dim in dims or range(self.ndim):
            wanted[dim] = self.shape[dim]
        return self.stack if wanted == [*sizes] else self.stack.expand(-1, *wanted)

    def aligned(self, ndim: int) -> Tensor:
        """Return the stack with `ndim` axes after the first one: ``[K, 1, ..., 1, *shape]``."""
        missing = ndim - self.ndim
        if missing <= 0:
            return self.stack
        return self.stack.reshape(-1, *[1] * missing, *self.stack.shape[1:])

    def broadcast(self, shape: Sequence[int]) -> Series:
        """Return the series of the tensor after it is broadcast to `shape`."""
        if shape == self.shape:
            return self
        shape = tuple(shape)
        return self.changed(self.aligned(len(shape)), shape=shape)

    def __neg__(self) -> Series:
        return self._multiplied(-1)

    def scaled(self, factor: Tensor | Number) -> Series:
        """Return the product with `factor`, a number or a tensor. Shapes are broadcast."""
        number = _autograd.as_number(factor) if isinstance(factor, Tensor) else factor
        if isinstance(number, (int, float)):
            return self._multiplied(number)
        if not isinstance(factor, Tensor):
            return self.changed(self.stack * factor)
        if factor.shape == self.shape or factor.dim() == 0:
            return self.changed(self.stack * factor)
        wide = self.broadcast(common_shape(self.shape, factor.shape))
        return wide.changed(wide.stack * factor)

    def _multiplied(self, number: float) -> Series:
        """Return the product with a number. If the stack is not computed yet, store the number."""
        if number == 1:
            return self
        source = self.source
        if isinstance(source, FusedLayers):
            return self.changed(source.multiplied(number))
        return self.changed(source * number)

    def divided(self, divisor: Tensor) -> Series:
        """Return the quotient by a constant ``[*shape]``.

        If PyTorch converted a Python number to this tensor, the number itself is used: the inverse
        of the tensor would be rounded to single precision.
        """
        number = _autograd.as_number(divisor)
        if number is not None and is_near_one(number):  # The inverse cannot overflow.
            return self._multiplied(1 / number)
        wide = self.broadcast(common_shape(self.shape, divisor.shape))
        return wide.changed(wide.stack / divisor)

    def masked(self, keep: Tensor) -> Series:
        """Return the series with zeros where `keep`, ``[*shape]``, is false, even for NaN."""
        wide = self.broadcast(common_shape(self.shape, keep.shape))
        if wide.dtype.is_complex:
            return wide.changed(torch.where(keep, wide.stack, 0))
        return wide.changed(keep_where(keep.to(wide.dtype), wide.stack))

    def spread(self, indices: Indices) -> Tensor:
        """Return a stack ``[len(indices), *shape]`` with zeros at indices that are missing here."""
        if indices == self.indices:
            return self.stack
        count = len(self.indices)
        if indices[:count] == self.indices:
            zeros = self.stack.new_zeros(len(indices) - count, *self.stack.shape[1:])
            return torch.cat([self.stack, zeros])
        place = {index: number for number, index in enumerate(self.indices)}
        zero = torch.zeros_like(self.stack[0])
        return torch.stack([self.stack[place[i]] if i in place else zero for i in indices])

    def __add__(self, other: Series) -> Series:
        one, two = together(self, other)
        indices = _union(one.indices, two.indices)
        return one.changed(one.spread(indices) + two.spread(indices), indices=indices)

    def __sub__(self, other: Series) -> Series:
        return self + -other

    def plus_product(self, one: Series, two: Series) -> Series:
        """Return this series plus the product of `one` and `two`, ``sum_j a_j b_{k-j}``.

        The values at order 0 are not part of the product. The result has the broadcast shape of the
        two factors.
        """
        one, two = together(one, two)
        products = one.algebra.with_products(one.indices, two.indices)
        if not products:
            return self
        indices = _union(products, self.indices)
        plan = contraction(one.algebra, one.indices, two.indices, indices)
        start = self.spread(indices)
        shape = common_shape(one.stack.shape[1:], two.stack.shape[1:])
        start = start.expand(-1, *common_shape(start.shape[1:], shape))
        stack = contract(plan, 2, one.stack, two.stack, start)
        return one.changed(stack, indices=indices)

    def times_series(self, value: Tensor, other_value: Tensor, other: Series) -> Series | None:
        """Return the series of the product of two tensors, which have these values ``[*shape]``.

        `value` belongs to this series, and `other_value` to `other`. Return None unless both series
        have the same indices and these are the first indices of the product. Then the caller must
        sum the parts of the product itself.
        """
        products = self.algebra.with_products(self.indices, other.indices)
        indices = _union(self.indices, products)
        if self.indices != other.indices or indices[: len(self.indices)] != self.indices:
            return None
        one, two = together(self, other)
        plan = contraction(one.algebra, one.indices, two.indices, indices)
        value, other_value = at_least(value, one.dtype), at_least(other_value, one.dtype)
        stack = product(plan, value, one.stack, other_value, two.stack)
        return one.changed(stack, indices=indices)

    def narrowed(self, dim: int, start: int, length: int) -> Series:
        """Return the series at the positions ``start : start + length`` of the axis `dim`."""
        if (start, length) == (0, self.shape[dim]):
            return self
        shape = list(self.shape)
        shape[dim] = length
        dim = self.from_end(dim)
        return self.changed(self.full(dim).narrow(dim, start, length), shape=shape)

    def selected(self, dim: int, place: int) -> Series:
        """Return the series at position `place` of the axis `dim`. The result lacks this axis."""
        dim = self.from_end(dim)
        shape = list(self.shape)
        del shape[dim]
        return self.changed(self.full(dim).select(dim, place), shape=shape)

    def part(self, index: object) -> Series:
        """Return the part of the series that `index` selects from a tensor ``[*shape]``.

        The index may contain integers, slices, ``...`` and None. Raise TypeError for any other.
        """
        index = index if isinstance(index, tuple) else (index,)
        kinds = {int, slice, EllipsisType, NoneType}
        if not {*map(type, index)} <= kinds:
            raise TypeError(message("derivative.jet.index"))
        stack = self.full()[(slice(None), *index)]
        return self.changed(stack, shape=stack.shape[1:])

    def summed(self, dims: Sequence[int], *, keepdim: bool) -> Series:
        """Return the sum of ``[K, *shape]`` along `dims`, which are kept with size 1 or dropped."""
        dims = [self.from_end(dim) for dim in dims]
        total = self.full(*dims).sum(dims, keepdim=keepdim) if dims else self.stack
        gone = set() if keepdim else {dim + self.ndim for dim in dims}
        sizes = [1 if n - self.ndim in dims else size for n, size in enumerate(self.shape)]
        return self.changed(total, shape=[sizes[n] for n in range(self.ndim) if n not in gone])

    def permuted(self, dims: Sequence[int]) -> Series:
        """Return the series with its axes in the order `dims`. The axis K stays the first one."""
        dims = [dim % self.ndim for dim in dims]
        return self.changed(
            self.stack.permute(0, *(dim + 1 for dim in dims)),
            shape=[self.shape[dim] for dim in dims],
        )

    def transposed(self) -> Series:
        """Return the series with its last two axes swapped: ``[K, ..., n, m]``."""
        return self.permuted([*range(self.ndim - 2), -1, -2])

    def viewed(self, shape: Sequence[int]) -> Series:
        """Return the series reshaped to `shape`. The order of the elements does not change."""
        shape = tuple(shape)
        if shape == self.shape:
            return self
        stack, sizes = self.stack, list(shape)
        merged: list[int] = []
        for group in group_axes(self.shape, shape):
            if group.is_one_axis:
                sizes[group.new[0]] = stack.shape[1 + group.old[0]]
            else:
                merged += group.old
        stack = self.full(*merged) if merged else stack
        return self.changed(stack.reshape(-1, *sizes), shape=shape)

    def function(self, solve: Callable[[Recurrence, Tensor], Tensor]) -> Series:
        """Return the elementwise function of this series that `solve` computes, in the same shape.

        `solve` is called with the plan of a recurrence and the stack.
        """
        if not self.indices:
            return self
        plan = recurrence(self.algebra, self.indices)
        return self.changed(solve(plan, self.stack), indices=plan.indices)

    def apply(
        self, derivative_of_value: DerivativeOfValue, value: Tensor, *, is_of_argument: bool = False
    ) -> Series:
        """Return tanh or the logistic function of this series (see `sigmoidal`), in the same shape.

        `value` is the value at order 0 of the result, or of the argument if `is_of_argument` is
        true.
        """
        return self._then(lambda plan: Sigmoidal(plan, derivative_of_value, is_of_argument), value)

    def compose(self, derivatives: Derivatives, value: Tensor) -> Series:
        """Return an elementwise function of this series, in the same shape.

        `derivatives` yields the derivatives of the function (see `composed`). `value` is the value
        at order 0 of the argument, which this series belongs to.
        """
        return self._then(lambda plan: Composed(plan, derivatives), value)

    def _then(self, function: Callable[[Recurrence], Layer], value: Tensor) -> Series:
        """Return the series ``[N, *shape]`` after one more fused layer, computed on first use.

        `function` returns the layer for a plan, and `value` is the value that the layer reads.
        """
        if not self.indices:
            return self
        plan = recurrence(self.algebra, self.indices)
        return self.changed(self._fused().then(function(plan), value), indices=plan.indices)

    def times(self, matrix: Tensor) -> Series:
        """Return all coefficients ``[K, ..., columns]`` times a matrix ``[columns, others]``."""
        fused = self._fused()
        last = fused.tensors[-1] if fused.tensors else fused.start
        if last.shape[-1] != self.shape[-1]:
            fused = FusedLayers(self.full(-1))
        return self.changed(fused.then(None, matrix), shape=(*self.shape[:-1], matrix.shape[-1]))

    def computed(self) -> Series:
        """Return an equal series with its stack materialised, so that it can be used repeatedly."""
        return self.changed(self.stack) if isinstance(self.source, FusedLayers) else self

    def _fused(self) -> FusedLayers:
        return self.source if isinstance(self.source, FusedLayers) else FusedLayers(self.source)

    def weighted(self) -> Series:
        """Return each coefficient times its degree.

        This is a derivation: it satisfies the product rule.
        """
        return self.changed(self.stack * self.degrees())

    def unweighted(self) -> Series:
        """Return each coefficient divided by its degree, which undoes `weighted`."""
        return self.changed(self.stack / self.degrees())

    def degrees(self) -> Tensor:
        """Return the degrees d(k) as a tensor ``[K, 1, ..., 1]``."""
        kind = self.stack.dtype, self.stack.device
        return self.algebra.degrees_at(self.indices, self.stack.dim() - 1, *kind)


def together(one: Series, two: Series) -> tuple[Series, Series]:
    """Return `one` and `two` broadcast to the same shape and converted to the same dtype."""
    if one.dtype != two.dtype:
        dtype = wider(one.dtype, two.dtype)
        one, two = one.changed(one.stack.to(dtype)), two.changed(two.stack.to(dtype))
    if one.shape == two.shape:
        return one, two
    shape = common_shape(one.shape, two.shape)
    return one.broadcast(shape), two.broadcast(shape)


def _union(one: Indices, two: Indices) -> Indices:
    return one if one == two else tuple(sorted({*one, *two}))
