"""The rows of the inputs that each element of a tensor depends on.

The rows of the inputs are numbered 0 to n - 1 along the axes of the batch. The dependence is stored
as an upper bound, in one of two forms:

Labels. Each axis of the tensor has a label: the number of the batch axis that it corresponds to, or
    None if all positions along it depend on the same rows. An element depends on the row whose
    batch index is the element's own index along the labelled axes. Most tensors of a network can be
    described by labels. Labels cost no memory and are valid for symbolic sizes, as in code that is
    being compiled. Leading Nones are not stored, so broadcasting does not change the labels.
A span. If the rows of an element have the largest number a and the smallest number b, its span is
    ``(1 + a, n - b)``. The span ``(0, 0)`` means no row. The span of two elements together is the
    elementwise maximum of their spans. An element depends on at most one row if the two numbers of
    its span add up to at most n + 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad._derivative.taylor.axis_groups import group_axes

Shape = tuple[int, ...]
Labels = tuple[int | None, ...]
Span = Tensor | Labels


class SymbolicSizeError(Exception):
    """Raised if the rows that a tensor depends on cannot be found while sizes are symbolic.

    Labels do not need the sizes but cannot describe these rows, and a span needs the sizes. The
    module docstring describes both forms.
    """


class Rows(NamedTuple):
    """The input rows that each element of a tensor depends on (see the module docstring).

    Attributes:
        span: Labels, or a span as integers ``[2, *sizes]``. Each of the sizes is the size of the
            tensor's axis, or 1 if the span is constant along this axis.
        shape: The shape of the tensor.
    """

    span: Span
    shape: Shape

    @property
    def ndim(self) -> int:
        """The number of axes of the tensor that these rows describe."""
        return len(self.shape)

    @property
    def labels(self) -> Labels | None:
        """The label of each axis (see the module docstring), None if there is only a span."""
        if isinstance(self.span, Tensor):
            return None
        return (None,) * (self.ndim - len(self.span)) + self.span

    @property
    def numbers(self) -> Tensor:
        """The span (see the module docstring) as integers ``[2, *sizes]``. Labels are converted."""
        if isinstance(self.span, Tensor):
            return self.span
        return _span_of_labels(self.labels or (), self.shape)

    def aligned(self, ndim: int) -> Rows:
        """Return the rows with axes of size 1 added in front, so that there are `ndim` axes."""
        missing = [1] * (ndim - self.ndim)
        if not missing or not isinstance(self.span, Tensor):
            return Rows(self.span, (*missing, *self.shape))
        _, *sizes = self.span.shape
        return Rows(self.span.reshape(2, *missing, *sizes), (*missing, *self.shape))

    def full(self, *dims: int) -> Tensor:
        """Return the span ``[2, *sizes]`` (see the module), expanded along the axes `dims`."""
        numbers = self.numbers
        sizes = [*numbers.shape]
        for dim in dims:
            sizes[1 + dim % self.ndim] = self.shape[dim]
        return numbers.expand(sizes)

    def whole(self) -> Tensor:
        """Return the span (see the module docstring) of every element: a tensor ``[2, *shape]``."""
        return self.numbers.expand(2, *self.shape)

    def is_alike_along(self, dims: Iterable[int]) -> bool:
        """Check whether all positions along the axes `dims` depend on the same rows."""
        labels = self.labels
        if labels is not None:
            return all(labels[dim] is None for dim in dims)
        return all(self.numbers.shape[1 + dim % self.ndim] == 1 for dim in dims)

    def join_along(self, dims: Iterable[int]) -> Rows:
        """Return the rows after an operation that mixes all positions along the axes `dims`."""
        dims = [*dims]
        if self.is_alike_along(dims):
            return self
        axes = sorted({1 + dim % self.ndim for dim in dims})
        return Rows(self.numbers.amax(axes, keepdim=True), self.shape)

    def move_axes(self, order: Sequence[int | None]) -> Rows:
        """Return the rows of the tensor with its axes in another order.

        None in `order` adds an axis of size 1. The rows must be constant along the axes that
        `order` leaves out.
        """
        shape = tuple(1 if dim is None else self.shape[dim] for dim in order)
        labels = self.labels
        if labels is not None:
            return Rows(strip(tuple(None if dim is None else labels[dim] for dim in order)), shape)
        stay = [dim % self.ndim for dim in order if dim is not None]
        gone = [dim for dim in range(self.ndim) if dim not in stay]
        numbers = self.numbers
        sizes = [1 if dim is None else numbers.shape[1 + dim % self.ndim] for dim in order]
        moved = numbers.permute(0, *[1 + dim for dim in (*stay, *gone)])
        return Rows(moved.reshape(2, *sizes), shape)

    def drop_axes(self, dims: Iterable[int]) -> Rows:
        """Return the rows without the axes `dims`, along which they must be constant."""
        gone = {dim % self.ndim for dim in dims}
        return self.move_axes([dim for dim in range(self.ndim) if dim not in gone])

    def total(self) -> Tensor:
        """Return the span (see the module docstring) of all elements together: a tensor ``[2]``."""
        return self.numbers.reshape(2, -1).amax(1)

    def view(self, shape: Shape) -> Rows:
        """Return the rows of the tensor after it is reshaped to `shape`."""
        groups, labels = group_axes(self.shape, shape), self.labels
        if labels is not None:
            axes = {group.old[0]: group.new[0] for group in groups if group.is_one_axis}
            new: list[int | None] = [None] * len(shape)
            for old, label in enumerate(labels):
                if label is not None and old in axes:
                    new[axes[old]] = label
            if sum(label is not None for label in new) == len({*labels} - {None}):
                return Rows(strip(tuple(new)), shape)
        numbers, after = self.numbers, [1] * len(shape)
        _, *before = sizes = [*numbers.shape]
        for group in groups:
            if any(sizes[1 + axis] > 1 for axis in group.old):
                for axis in group.old:
                    before[axis] = self.shape[axis]
                for axis in group.new:
                    after[axis] = shape[axis]
        return Rows(numbers.expand(2, *before).reshape(2, *after), shape)

    def are_apart(self, count: int) -> bool:
        """Check whether each element depends on at most one of the `count` rows."""
        return not isinstance(self.span, Tensor) or bool((self.span.sum(0) <= count + 1).all())


def strip(labels: Labels) -> Labels:
    """Return labels (see the module docstring) without the Nones at the beginning."""
    first = next((n for n, label in enumerate(labels) if label is not None), len(labels))
    return labels[first:]


def label_batch(shape: Sequence[int], batch: int) -> Labels:
    """Return the labels of a tensor of this shape whose first `batch` axes count the rows.

    Labels are described in the module docstring. An axis of size 1 gets no label, because it may be
    broadcast to another size later.
    """
    if batch and 1 not in shape[:batch]:
        return (*range(batch), *(None,) * (len(shape) - batch))
    first = tuple(None if size == 1 else axis for axis, size in enumerate(shape[:batch]))
    return strip((*first, *[None] * (len(shape) - batch)))


def _span_of_labels(labels: Labels, shape: Shape) -> Tensor:
    """Return the span ``[2, *sizes]`` that describes the same dependence on rows as `labels`.

    Labels name the batch axis of each axis. A span contains the first and last row that each
    element depends on, as ``(1 + a, n - b)``. Both are described in the module docstring. `shape`
    is the shape of the tensor.
    """
    sizes = {label: shape[axis] for axis, label in enumerate(labels) if label is not None}
    if any(type(size) is not int for size in sizes.values()):
        raise SymbolicSizeError
    count = math.prod(sizes.values())
    number = torch.arange(count, dtype=torch.int32, device="cpu")
    number = number.reshape([sizes[label] for label in sorted(sizes)])
    number = number.permute([sorted(sizes).index(label) for label in labels if label is not None])
    number = number.reshape([1 if label is None else sizes[label] for label in labels])
    return torch.stack([number + 1, count - number])


def join(parts: Iterable[Rows | None]) -> Rows:
    """Return the rows of the elementwise result of several tensors, which are broadcast.

    `parts` contains the rows of each tensor, or None if the tensor depends on no row. At least one
    part must not be None.
    """
    present = [rows for rows in parts if rows is not None]
    longest = max(present, key=lambda rows: rows.ndim)
    spans = [rows.span for rows in present]
    are_labels = all(type(span) is tuple for span in spans)
    if len(spans) == 1 or (are_labels and all(span == longest.span for span in spans)):
        return longest
    numbers = reduce(torch.maximum, [rows.aligned(longest.ndim).numbers for rows in present])
    return Rows(numbers, tuple(numbers.shape[1:]))


def put_rows(
    shape: Shape,
    base: Rows | None,
    source: Rows | None,
    take: Callable[[Tensor], Tensor],
    *,
    replaces: bool,
) -> Tensor:
    """Return the span of a tensor of this shape after a source is written into it.

    Spans are described in the module docstring. `base` and `source` are the rows of the tensor
    before the write and of the source. The source replaces the elements that `take` selects or, if
    `replaces` is false, is added to them. They are None if they depend on no row.
    """
    size = torch.Size(shape).numel()
    place = take(torch.arange(size, device="cpu").reshape(shape))
    span = torch.zeros((2, size), dtype=torch.int32, device="cpu")
    if base is not None:
        numbers = base.aligned(len(shape)).numbers
        span = numbers.expand(2, *shape).reshape(2, -1).clone()
        if replaces:
            span[:, place.flatten()] = 0
    if source is not None:
        extra = max(source.ndim - place.dim(), 0)  # number of leading axes of size 1
        put = source.whole().flatten(1, 1 + extra) if extra else source.whole()
        if source.ndim == place.dim():  # The index may be smaller than the source.
            put = put[(slice(2), *map(slice, place.shape))]
        put = Rows(put, tuple(put.shape[1:])).aligned(place.dim()).numbers
        spread = put.expand(2, *place.shape).reshape(2, -1)
        span.scatter_reduce_(1, place.reshape(1, -1).expand(2, -1), spread, "amax")
    return span.reshape(2, *shape)
