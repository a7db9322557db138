"""Rules for what takes elements of an axis by their place, or by their size.

The order of coefficients is that of values: where the largest value is, its series is taken. An
axis of the stack ``[K, *shape]`` along which elements are taken must be none of the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor import batch_axes
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.step import Rule, Step
from leafgrad._derivative.taylor.unsupported import Unsupported


def _indexed(step: Step, x: Series) -> Series:
    """Return the places of one axis that an index of numbers holds, in the index's shape."""
    indices = step.saved("indices")
    dims = [n for n, index in enumerate(indices) if index is not None]
    if len(dims) > 1:
        raise Unsupported("it takes elements by numbers along more than one axis")
    (dim,) = dims
    index = indices[dim]
    if index.dtype in {torch.bool, torch.uint8}:
        raise Unsupported("it takes the elements that a mask shows")
    return _taken(step, x, dim, index)


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
    """Return the element of an axis that is largest or smallest, and None for its place."""
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
    "IndexBackward0": Rule(_indexed),
    "IndexSelectBackward0": Rule(
        lambda step, x: _taken(step, x, step.saved("dim"), step.tensor("index"))
    ),
    "GatherBackward0": Rule(lambda step, x: _gather(x, step.saved("dim"), step.tensor("index"))),
    "SortBackward0": Rule(_ordered),
    "SortBackward1": Rule(_ordered),
    "TopkBackward0": Rule(_ordered),
    "MaxBackward0": Rule(_extreme_along),
    "MinBackward0": Rule(_extreme_along),
    "AmaxBackward0": Rule(_extreme),
    "AminBackward0": Rule(_extreme),
    "MaxBackward1": Rule(_extreme),
    "MinBackward1": Rule(_extreme),
}
