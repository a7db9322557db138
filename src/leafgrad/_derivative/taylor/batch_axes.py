"""Where the rows of a batch lie in a tensor, so that the walk itself proves that they stay apart.

Each axis of a tensor on the path is a tuple of parts, from the slowest to the fastest: a part that
counts an axis of the batch has that axis's number, any other has None, and an axis that has nothing
to do with the batch has no parts at all. An entry of a tensor depends on the rows of the inputs
that have its own numbers along these axes, and on no others. An axis of rows that were chosen has
their places beside the number: that of rows 4 and 2 of axis 0 is ``(0, [4, 2])``.

So inputs ``[rows, columns]`` have the axes ``(((0, rows),), ())``, and where they are flattened to
``[rows * columns]``, this is ``(((0, rows), (None, columns)),)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from leafgrad._derivative.taylor.unsupported import Unsupported

Result = TypeVar("Result")

# Which axis of the batch, or of which one which rows: a list, so that nothing keeps it as a key.
Number = int | tuple["Number | None", list[int]]
Part = tuple[Number | None, int]  # that, and the size
Axis = tuple[Part, ...]
Axes = tuple[Axis, ...]

_MIXED = "it may carry something from row to row of the batch"


def rows_of(shape: Sequence[int], batch: int) -> Axes:
    """Return the axes of a tensor whose first `batch` axes are those of the batch."""
    counted = [((number, size),) if size != 1 else () for number, size in enumerate(shape[:batch])]
    return (*counted, *[()] * (len(shape) - batch))


def aligned(axes: Axes, ndim: int) -> Axes:
    """Return axes with others in front, so that they are `ndim`, as broadcasting adds them."""
    return ((),) * (ndim - len(axes)) + axes


def merged(operands: Iterable[Axes]) -> Axes:
    """Return the axes of what is computed elementwise from tensors broadcast against each other.

    Each of them has each axis of the batch once, so where they differ, rows meet other rows.
    """
    first, *others = operands
    if any(other != first for other in others):
        raise Unsupported(_MIXED)
    return first


def free(axes: Axes, dims: Iterable[int]) -> None:
    """Raise where one of the axes that are reduced, cut or reordered is one of the batch."""
    for dim in dims:
        if axes[dim]:
            raise Unsupported(_MIXED)


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring axes before and after a view that hold the same elements in the same order."""

    old: list[int]
    new: list[int]

    @property
    def is_one_axis(self) -> bool:
        """Whether one axis stays one axis."""
        return len(self.old) == len(self.new) == 1


def _remembered(function: Callable[..., Result]) -> Callable[..., Result]:
    """Keep what follows from values that have a hash, as networks have few kinds of views.

    A size that is no number yet has none, and neither have the places of rows.
    """
    known = lru_cache(maxsize=1024)(function)

    def call(*given: object) -> Result:
        try:
            return known(*given)
        except TypeError:
            return function(*given)

    return call


@_remembered
def groups(old: tuple[int, ...], new: tuple[int, ...]) -> Sequence[Group]:
    """Return which axes of a view come from which; axes of size 1 come from nowhere."""
    before = [axis for axis, size in enumerate(old) if size != 1]
    after = [axis for axis, size in enumerate(new) if size != 1]
    found = []
    while before:
        group = Group([before.pop(0)], [after.pop(0)])
        while (left := math.prod(old[axis] for axis in group.old)) != (
            right := math.prod(new[axis] for axis in group.new)
        ):
            if left < right:
                group.old.append(before.pop(0))
            else:
                group.new.append(after.pop(0))
        found.append(group)
    return found


@_remembered
def viewed(axes: Axes, old: tuple[int, ...], new: tuple[int, ...]) -> Axes:
    """Return the axes of a view with another shape of the same elements in the same order."""
    result: list[Axis] = [()] * len(new)
    for group in groups(old, new):
        parts = [part for axis in group.old for part in axes[axis] or ((None, old[axis]),)]
        parts.reverse()
        for axis in group.new:
            result[axis] = _taken(parts, new[axis])
    return tuple(result)


def _taken(parts: list[Part], size: int) -> Axis:
    """Return parts from the end of the list, taken off it, that make up an axis of this size."""
    axis: list[Part] = []
    while size > 1:
        number, length = parts.pop()
        if length > size and number is None and length % size == 0:
            parts.append((None, length // size))
            length = size
        if size % length:
            raise Unsupported(_MIXED)
        axis.append((number, length))
        size //= length
    return tuple(axis) if any(number is not None for number, _ in axis) else ()
