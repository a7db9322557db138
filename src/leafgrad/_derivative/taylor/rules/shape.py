"""Rules for views, parts, joints and sums: what takes elements elsewhere without changing them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from leafgrad._derivative.taylor import batch_axes
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.step import Propagate, Rule, Step


def _within(change: Callable[[Tensor, int], Tensor], step: Step, x: Series) -> Series:
    """Change the order along one axis, which must not be one of the batch."""
    dim = x.from_end(step.saved("dim"))
    batch_axes.free(x.axes, [dim])
    return x.changed(change(x.full(dim), dim), shape=step.shape)


# --- Views


def _viewed(step: Step, x: Series) -> Series:
    return x.viewed(step.shape)


def _transposed(step: Step, x: Series) -> Series:
    dims = list(range(x.ndim))
    one, two = step.saved("dim0"), step.saved("dim1")
    dims[one], dims[two] = dims[two], dims[one]
    return x.permuted(dims)


def _expanded(step: Step, x: Series) -> Series:
    return x.broadcast(step.shape)


def _repeated(step: Step, x: Series) -> Series:
    repeats = step.saved("repeats")
    wide = x.broadcast((*[1] * (len(repeats) - x.ndim), *x.shape))
    batch_axes.free(wide.axes, [dim for dim, count in enumerate(repeats) if count != 1])
    return wide.changed(wide.full().repeat(1, *repeats), shape=step.shape)


# --- Parts


def _sliced(step: Step, x: Series) -> Series:
    dim = x.from_end(step.saved("dim"))
    if step.shape == x.shape:
        return x
    batch_axes.free(x.axes, [dim])
    part = slice(*map(step.saved, ("start", "end", "step")))
    taken = x.full(dim).movedim(dim, 0)[part].movedim(0, dim)
    return x.changed(taken, shape=step.shape)


def _selected(step: Step, x: Series) -> Series:
    return x.selected(step.saved("dim"), step.saved("index"))


def _unbound(step: Step, x: Series) -> list[Series]:
    dim = x.from_end(step.saved("dim"))
    return [x.selected(dim, place) for place in range(x.shape[dim])]


def _split(step: Step, x: Series) -> list[Series]:
    dim, size = x.from_end(step.saved("dim")), step.saved("split_size")
    return _split_by(x, dim, [min(size, x.shape[dim] - n) for n in range(0, x.shape[dim], size)])


def _split_with_sizes(step: Step, x: Series) -> list[Series]:
    return _split_by(x, x.from_end(step.saved("dim")), step.saved("split_sizes"))


def _split_by(x: Series, dim: int, sizes: Sequence[int]) -> list[Series]:
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return [x.narrowed(dim, *part) for part in zip(starts, sizes, strict=True)]


def _diagonal(step: Step, x: Series) -> Series:
    one, two = (x.from_end(step.saved(name)) for name in ("dim1", "dim2"))
    batch_axes.free(x.axes, [one, two])
    gone = {one, two}
    axes = tuple(axis for n, axis in enumerate(x.axes) if n - x.ndim not in gone)
    stack = x.full(one, two).diagonal(step.saved("offset"), one, two)
    return x.changed(stack, shape=step.shape, axes=(*axes, ()))


# --- Sums


def _summed(step: Step, x: Series) -> Series:
    return x.summed(step.dims(x), keepdim=step.saved("keepdim"))


def _averaged(step: Step, x: Series) -> Series:
    dims = step.dims(x)
    count = math.prod(x.shape[dim] for dim in dims)
    return x.summed(dims, keepdim=step.saved("keepdim")).scaled(1 / count)


# --- The rest


def _flipped(step: Step, x: Series) -> Series:
    dims = [x.from_end(dim) for dim in step.saved("dims")]
    batch_axes.free(x.axes, dims)
    return x.changed(x.full(*dims).flip(dims))


def _rolled(step: Step, x: Series) -> Series:
    dims = [x.from_end(dim) for dim in step.saved("dims")] or list(range(-x.ndim, 0))
    batch_axes.free(x.axes, dims)
    if not step.saved("dims"):
        flat = x.full().flatten(1).roll(step.saved("shifts"), 1)
        return x.changed(flat.reshape(-1, *x.shape))
    return x.changed(x.full(*dims).roll(step.saved("shifts"), dims))


def _triangle(take: Callable[[Tensor, int], Tensor]) -> Propagate:
    return lambda step, x: x.changed(take(x.full(-2, -1), step.saved("diagonal")))


def _padded(step: Step, x: Series) -> Series:
    pad = step.saved("pad")
    dims = [-1 - number // 2 for number, size in enumerate(pad) if size]
    batch_axes.free(x.axes, dims)
    stack = torch.nn.functional.pad(x.full(*dims), pad) if dims else x.stack
    return x.changed(stack, shape=step.shape)


def _copied(step: Step, x: Series) -> Series:
    return x.changed(x.stack.to(step.results[0].device, step.wide(step.results[0].dtype)))


def _same(_: Any, x: Series) -> Series:
    return x


RULES: dict[str, Rule] = {
    "AliasBackward0": Rule(_same, rowwise=True),
    "CloneBackward0": Rule(_same, rowwise=True),
    "ToCopyBackward0": Rule(_copied, rowwise=True),
    "ViewBackward0": Rule(_viewed),
    "UnsafeViewBackward0": Rule(_viewed),
    "ReshapeAliasBackward0": Rule(_viewed),
    "SqueezeBackward0": Rule(_viewed),
    "SqueezeBackward1": Rule(_viewed),
    "SqueezeBackward2": Rule(_viewed),
    "SqueezeBackward4": Rule(_viewed),
    "SqueezeBackward5": Rule(_viewed),
    "UnsqueezeBackward0": Rule(_viewed),
    "ExpandBackward0": Rule(_expanded),
    "RepeatBackward0": Rule(_repeated),
    "TBackward0": Rule(lambda _, x: x.permuted(range(x.ndim)[::-1])),
    "TransposeBackward0": Rule(_transposed),
    "PermuteBackward0": Rule(lambda step, x: x.permuted(step.saved("dims"))),
    "SliceBackward0": Rule(_sliced),
    "SelectBackward0": Rule(_selected),
    "UnbindBackward0": Rule(_unbound),
    "SplitBackward0": Rule(_split),
    "SplitWithSizesBackward0": Rule(_split_with_sizes),
    "DiagonalBackward0": Rule(_diagonal),
    "SumBackward0": Rule(lambda _, x: x.summed(range(x.ndim), keepdim=False)),
    "SumBackward1": Rule(_summed),
    "MeanBackward0": Rule(
        lambda _, x: x.summed(range(x.ndim), keepdim=False).scaled(1 / math.prod(x.shape))
    ),
    "MeanBackward1": Rule(_averaged),
    "CumsumBackward0": Rule(lambda step, x: _within(Tensor.cumsum, step, x)),
    "FlipBackward0": Rule(_flipped),
    "RollBackward0": Rule(_rolled),
    "TrilBackward0": Rule(_triangle(Tensor.tril), rowwise=True),
    "TriuBackward0": Rule(_triangle(Tensor.triu), rowwise=True),
    "ConstantPadNdBackward0": Rule(_padded),
}
