"""Which rows of the inputs the elements of a tensor depend on: between which two of them.

The rows of the inputs have the numbers 0 to n - 1. Of all rows that an element depends on, the
largest number a and the smallest number b are followed, as its span ``(1 + a, n - b)``; ``(0, 0)``
stands for no row. The span of two elements together is the maximum of theirs, so everything here is
a maximum. An element depends on one row at most if its span adds up to n + 1 at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad._derivative.taylor.batch_axes import groups

Shape = tuple[int, ...]


class Rows(NamedTuple):
    """The span of each element of a tensor.

    Attributes:
        span: Integers ``[2, *sizes]``. Each size is that of the shape, or 1 if all places along
            the axis have the same span.
        shape: The shape of the tensor.
    """

    span: Tensor
    shape: Shape

    @property
    def ndim(self) -> int:
        """The number of axes of the tensor."""
        return len(self.shape)

    def aligned(self, ndim: int) -> Tensor:
        """Return the span with axes of size 1 in front, as broadcasting adds them."""
        _, *sizes = self.span.shape
        return self.span if ndim == len(sizes) else self.span.reshape(2, *_ones(ndim, sizes))

    def full(self, *dims: int) -> Tensor:
        """Return the span ``[2, *sizes]`` with the size of the shape along some axes."""
        sizes = [*self.span.shape]
        for dim in dims:
            sizes[1 + dim % self.ndim] = self.shape[dim]
        return self.span.expand(sizes)

    def whole(self) -> Tensor:
        """Return the span ``[2, *shape]`` of each element."""
        return self.span.expand(2, *self.shape)

    def joined(self, dims: Iterable[int]) -> Rows:
        """Return the rows of a tensor of the same shape that mixes all places along some axes."""
        axes = {1 + dim % self.ndim for dim in dims}
        cut = [axis for axis in axes if self.span.shape[axis] > 1]
        return Rows(self.span.amax(cut, keepdim=True), self.shape) if cut else self

    def total(self) -> Tensor:
        """Return the span of all elements together, ``[2]``."""
        return self.span.reshape(2, -1).amax(1)

    def viewed(self, shape: Shape) -> Tensor:
        """Return the span of the same elements, in the same order, in another shape."""
        _, *sizes = self.span.shape
        after = [1] * len(shape)
        before = [*sizes]
        for group in groups(self.shape, shape):
            if any(sizes[axis] > 1 for axis in group.old):
                for axis in group.old:
                    before[axis] = self.shape[axis]
                for axis in group.new:
                    after[axis] = shape[axis]
        return self.span.expand(2, *before).reshape(2, *after)

    def are_apart(self, count: int) -> bool:
        """Return whether each element depends on one of `count` rows at most."""
        return bool((self.span.sum(0) <= count + 1).all())


def _ones(ndim: int, sizes: Sequence[int]) -> list[int]:
    return [1] * (ndim - len(sizes)) + [*sizes]


def numbered(shape: Shape, batch: int) -> Rows:
    """Return the rows of a tensor whose first `batch` axes count them."""
    sizes = shape[:batch]
    count = torch.Size(sizes).numel()
    number = torch.arange(count, dtype=torch.int32, device="cpu")
    span = torch.stack([number + 1, count - number])
    return Rows(span.reshape(2, *sizes, *[1] * (len(shape) - batch)), shape)


def join(spans: Sequence[Tensor]) -> Tensor:
    """Return the span of elements that depend on those of all tensors, which are broadcast."""
    return reduce(torch.maximum, spans)


def placed(
    shape: Shape,
    base: Rows | None,
    source: Rows | None,
    take: Callable[[Tensor], Tensor],
    *,
    replaces: bool,
) -> Tensor:
    """Return the span of a base with a source put, or added, where `take` would take elements."""
    size = torch.Size(shape).numel()
    place = take(torch.arange(size, device="cpu").reshape(shape))
    span = torch.zeros((2, size), dtype=torch.int32, device="cpu")
    if base is not None:
        span = base.aligned(len(shape)).expand(2, *shape).reshape(2, -1).clone()
        if replaces:
            span[:, place.flatten()] = 0
    if source is not None:
        extra = max(source.ndim - place.dim(), 0)  # leading axes of size 1
        put = source.whole().flatten(1, 1 + extra) if extra else source.whole()
        if source.ndim == place.dim():  # of which an index may take a corner
            put = put[(slice(2), *map(slice, place.shape))]
        put = Rows(put, tuple(put.shape[1:])).aligned(place.dim())
        spread = put.expand(2, *place.shape).reshape(2, -1)
        span.scatter_reduce_(1, place.reshape(1, -1).expand(2, -1), spread, "amax")
    return span.reshape(2, *shape)
