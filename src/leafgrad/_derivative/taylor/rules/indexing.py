"""Rules for what takes elements of an axis by their place, or by their size.

The order of coefficients is that of values: where the largest value is, its series is taken. An
axis of the stack ``[K, *shape]`` along which elements are taken must be none of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor import batch_axes
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.step import Rule, Step
from leafgrad._derivative.taylor.unsupported import Unsupported


def _indexed(step: Step, x: Series) -> Series:
    """Return the elements at some places, or where a mask holds, in the shape of the index."""
    indices = indices_of(step)
    dims, numbers = numbered(indices)
    if len(dims) == 1:
        return _taken(step, x, dims[0], numbers[0])
    batch_axes.free(x.axes, dims)
    axes = indexed_axes(x.axes, dims, len(step.shape))
    stack = torch.ops.aten.index(x.full(*dims).movedim(0, -1), indices).movedim(-1, 0)
    return x.changed(stack, shape=step.shape, axes=axes)


def indices_of(step: Step) -> list[Tensor | None]:
    """Return what is indexed by, axis by axis, with truth values for bytes."""
    return [
        index.bool() if index is not None and index.dtype == torch.uint8 else index
        for index in step.saved("indices")
    ]


def numbered(indices: Sequence[Tensor | None]) -> tuple[list[int], list[Tensor]]:
    """Return the axes that are indexed, and the numbers of places along each of them.

    A mask of n axes stands for n of them.
    """
    dims: list[int] = []
    numbers: list[Tensor] = []
    dim = 0
    for index in indices:
        if index is None:
            dim += 1
            continue
        found = index.nonzero().unbind(1) if index.dtype == torch.bool else (index,)
        dims += range(dim, dim + len(found))
        numbers += found
        dim += len(found)
    return dims, numbers


def indexed_axes(axes: batch_axes.Axes, dims: Sequence[int], ndim: int) -> batch_axes.Axes:
    """Return the axes of what is taken, `ndim` of them, along indexed axes `dims`.

    Those of the index take the place of the indexed ones where these are neighbours, or else come
    first.
    """
    kept = [axis for dim, axis in enumerate(axes) if dim not in dims]
    first = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    return (*kept[:first], *[()] * (ndim - len(kept)), *kept[first:])


def _taken(step: Step, x: Series, dim: int, index: Tensor) -> Series:
    """Return the places of an axis that the index holds, which takes the shape of the index."""
    dim = x.from_end(dim)
    batch_axes.free(x.axes, [dim])
    before, after = x.axes[:dim], x.axes[x.ndim + dim + 1 :]
    stack = x.full(dim).index_select(dim, index.reshape(-1) % x.shape[dim])
    shape = (*stack.shape[:dim], *index.shape, *stack.shape[stack.dim() + dim + 1 :])
    axes = before + ((),) * index.dim() + after
    return x.changed(stack.reshape(shape), shape=step.shape, axes=axes)


def _gather(x: Series, dim: int, index: Tensor) -> Series:
    """Return the places of an axis that the index holds, one by one, in the index's shape."""
    dim = x.from_end(dim)
    batch_axes.free(x.axes, [dim])
    others = [n - x.ndim for n in range(x.ndim) if n - x.ndim != dim]
    if any(index.shape[n] != x.shape[n] for n in others):
        raise Unsupported("it takes elements of a part of the other axes")
    stack = x.full().gather(dim, index.expand(len(x.indices), *index.shape))
    return x.changed(stack, shape=index.shape)


def _ordered(step: Step, x: Series) -> list[Series | None]:
    """Return elements in the order along an axis that values have, and None for their places."""
    return [_gather(x, step.saved("dim"), step.tensor("indices")), None]


def _extreme_along(step: Step, x: Series) -> list[Series | None]:
    """Return the element of an axis that is largest, or the like, and None for its place."""
    dim, index = x.from_end(step.saved("dim")), step.tensor("indices")
    if step.saved("keepdim"):
        return [_gather(x, dim, index), None]
    return [_gather(x, dim, index.unsqueeze(dim)).selected(dim, 0), None]


def _extreme(step: Step, x: Series) -> Series:
    """Return the largest or smallest along axes: the mean of all that are equal."""
    value, result = step.tensor("self"), step.tensor("result")
    dims = step.dims(x) if _autograd.keeps(step.node, "dim") else range(x.ndim)
    keepdim = step.saved("keepdim") if _autograd.keeps(step.node, "keepdim") else False
    if not keepdim:
        for dim in sorted(dim % x.ndim for dim in dims):
            result = result.unsqueeze(dim)
    is_extreme = (value == result).to(value.dtype)
    share = is_extreme / is_extreme.sum(list(dims), keepdim=True)
    return x.scaled(share).summed(list(dims), keepdim=keepdim)


RULES: dict[str, Rule] = {
    "IndexBackward0": Rule(_indexed, is_for_complex=True),
    "IndexSelectBackward0": Rule(
        lambda step, x: _taken(step, x, step.saved("dim"), step.tensor("index")),
        is_for_complex=True,
    ),
    "GatherBackward0": Rule(
        lambda step, x: _gather(x, step.saved("dim"), step.tensor("index")), is_for_complex=True
    ),
    "SortBackward0": Rule(_ordered),
    "SortBackward1": Rule(_ordered),
    "TopkBackward0": Rule(_ordered),
    "MaxBackward0": Rule(_extreme_along),
    "MinBackward0": Rule(_extreme_along),
    "KthvalueBackward0": Rule(_extreme_along),
    "ModeBackward0": Rule(_extreme_along),
    "MedianBackward1": Rule(_extreme_along),
    "NanmedianBackward1": Rule(_extreme_along),
    "CummaxBackward0": Rule(_ordered),
    "CumminBackward0": Rule(_ordered),
    "AmaxBackward0": Rule(_extreme),
    "AminBackward0": Rule(_extreme),
    "MaxBackward1": Rule(_extreme),
    "MinBackward1": Rule(_extreme),
}
