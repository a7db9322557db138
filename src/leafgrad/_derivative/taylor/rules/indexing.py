"""Rules for operations that select elements: by an index, or by size like `max` and `sort`.

Selection by size depends only on the values. For example, `max` selects the series of the element
with the largest value.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor.kernels.products import common_shape
from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import Unsupported, unsupported_if


def _index(step: Step, x: Series) -> Series:
    """Return the elements of x that the saved indices or masks select."""
    indices = indices_of(step)
    dims, numbers = number_places(indices)
    if len(dims) == 1:
        return _take(step, x, dims[0], numbers[0])
    stack = torch.ops.aten.index(x.full(*dims).movedim(0, -1), indices).movedim(-1, 0)
    return x.changed(stack, shape=step.shape)


def indices_of(step: Step) -> list[Tensor | None]:
    """Return the saved indices of the axes, with None for an axis without one.

    An index contains positions along its axis, in the shape ``[*places]`` of all indices. A mask
    can belong to several axes. Masks of dtype uint8 are converted to bool.
    """
    return [
        index.bool() if index is not None and index.dtype == torch.uint8 else index
        for index in step.saved("indices")
    ]


def number_places(indices: Sequence[Tensor | None]) -> tuple[list[int], list[Tensor]]:
    """Return the axes that are indexed, and the index ``[*places]`` of each of them.

    An index contains positions along its axis. A mask with n axes is converted to n such indices.
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


def _take(step: Step, x: Series, dim: int, index: Tensor) -> Series:
    """Return the positions of the axis `dim` that `index` selects.

    The axes of `index` replace the axis `dim`.
    """
    dim = x.from_end(dim)
    stack = x.full(dim).index_select(dim, index.reshape(-1) % x.shape[dim])
    shape = (*stack.shape[:dim], *index.shape, *stack.shape[stack.dim() + dim + 1 :])
    return x.changed(stack.reshape(shape), shape=step.shape)


def _gather(x: Series, dim: int, index: Tensor) -> Series:
    """Return elements of x, gathered along the axis `dim` as by `torch.gather`.

    Raise `Unsupported` if another axis of the index has a different size.
    """
    dim = x.from_end(dim)
    others = [n - x.ndim for n in range(x.ndim) if n - x.ndim != dim]
    if any(index.shape[n] != x.shape[n] for n in others):
        raise Unsupported("reason.part-of-axes")
    stack = x.full().gather(dim, index.expand(len(x.indices), *index.shape))
    return x.changed(stack, shape=index.shape)


def _sort(step: Step, x: Series) -> list[Series | None]:
    """Return x in the order of the sorted values, and None for the integer indices."""
    return [_gather(x, step.saved("dim"), step.tensor("indices")), None]


def _embed(step: Step, x: Series) -> Series:
    """Return the rows of a weight ``[K, rows, columns]`` that the saved index selects.

    The series of the padding row is zero.
    """
    unsupported_if(step.saved("scale_grad_by_freq"), "frequencies")
    index, padding = step.tensor("indices"), step.saved("padding_idx")
    rows = _take(step, x, 0, index)
    return rows.masked((index != padding).unsqueeze(-1)) if padding < x.shape[0] else rows


def _select_by_mask(step: Step, x: Series) -> Series:
    """Return the elements of x where the saved mask is true, as ``[K, n]``."""
    mask = step.tensor("mask")
    wide = x.broadcast(common_shape(x.shape, mask.shape))
    stack = wide.full()[:, mask.expand(wide.shape)]
    return wide.changed(stack, shape=stack.shape[1:])


def _extreme_along(step: Step, x: Series) -> list[Series | None]:
    """Return the series of the maximum or minimum along the saved axis, and None for the index."""
    dim, index = x.from_end(step.saved("dim")), step.tensor("indices")
    if step.saved("keepdim"):
        return [_gather(x, dim, index), None]
    return [_gather(x, dim, index.unsqueeze(dim)).selected(dim, 0), None]


def _extreme(step: Step, x: Series) -> Series:
    """Return the series of the maximum or minimum along the saved axes, or of all elements.

    If several elements are equal to the maximum or minimum, return the mean of their series.
    """
    value, result = step.tensor("self"), step.tensor("result")
    dims = step.dims(x) if _autograd.keeps(step.node, "dim") else range(x.ndim)
    keepdim = step.saved("keepdim") if _autograd.keeps(step.node, "keepdim") else False
    if not keepdim:
        for dim in sorted(dim % x.ndim for dim in dims):
            result = result.unsqueeze(dim)
    return _mean_where(value == result, x, dims, keepdim=keepdim)


def _mean_where(
    is_counted: Tensor, x: Series, dims: Sequence[int], *, keepdim: bool = False
) -> Series:
    """Return the mean along `dims` of those elements of x for which `is_counted` is true."""
    counted = is_counted.to(x.dtype)
    share = counted / counted.sum(list(dims), keepdim=True)
    return x.scaled(share).summed(list(dims), keepdim=keepdim)


RULES: dict[str, Rule] = {
    "IndexBackward0": Rule(_index, is_for_complex=True),
    "IndexSelectBackward0": Rule(
        lambda step, x: _take(step, x, step.saved("dim"), step.tensor("index")),
        is_for_complex=True,
    ),
    "GatherBackward0": Rule(
        lambda step, x: _gather(x, step.saved("dim"), step.tensor("index")), is_for_complex=True
    ),
    "EmbeddingBackward0": Rule(_embed),
    "MaskedSelectBackward0": Rule(_select_by_mask, is_for_complex=True),
    "SortBackward0": Rule(_sort),
    "SortBackward1": Rule(_sort),
    "TopkBackward0": Rule(_sort),
    "MaxBackward0": Rule(_extreme_along),
    "MinBackward0": Rule(_extreme_along),
    "AmaxBackward0": Rule(_extreme),
    "AminBackward0": Rule(_extreme),
    "MaxBackward1": Rule(_extreme),
    "MinBackward1": Rule(_extreme),
}
