"""Rules for views, parts, joints and sums: what takes elements elsewhere without changing them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._taylor import _batch
from leafgrad._taylor._refusal import Refusal
from leafgrad._taylor._series import Series
from leafgrad._taylor._step import Rule, Step


def _within(change: Callable[[Tensor, int], Tensor], step: Step, x: Series) -> Series:
    """Change the order along one axis, which must not be one of the batch."""
    dim = x.from_end(step.saved("dim"))
    _batch.free(x.axes, [dim])
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
    _batch.free(wide.axes, [dim for dim, count in enumerate(repeats) if count != 1])
    return wide.changed(wide.full().repeat(1, *repeats), shape=step.shape)


# --- Parts


def _sliced(step: Step, x: Series) -> Series:
    dim = x.from_end(step.saved("dim"))
    if step.shape == x.shape:
        return x
    _batch.free(x.axes, [dim])
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
    _batch.free(x.axes, [one, two])
    gone = {one, two}
    axes = tuple(axis for n, axis in enumerate(x.axes) if n - x.ndim not in gone)
    stack = x.full(one, two).diagonal(step.saved("offset"), one, two)
    return x.changed(stack, shape=step.shape, axes=(*axes, ()))


# --- Parts by number


def _indexed(step: Step, x: Series) -> Series:
    indices = step.saved("indices")
    (dim,) = _only([n for n, index in enumerate(indices) if index is not None])
    index = indices[dim]
    if index.dtype == torch.bool:
        raise Refusal("it takes the elements that a mask shows")
    return _taken(step, x, dim, index)


def _only(dims: list[int]) -> list[int]:
    if len(dims) > 1:
        raise Refusal("it takes elements by numbers along more than one axis")
    return dims


def _taken(step: Step, x: Series, dim: int, index: Tensor) -> Series:
    """Take the places of an axis that the index holds, whatever its shape."""
    dim = x.from_end(dim)
    _batch.free(x.axes, [dim])
    before, after = x.axes[:dim], x.axes[x.ndim + dim + 1 :]
    stack = x.full(dim).index_select(dim, index.reshape(-1) % x.shape[dim])
    shape = (*stack.shape[:dim], *index.shape, *stack.shape[stack.dim() + dim + 1 :])
    axes = before + ((),) * index.dim() + after
    return x.changed(stack.reshape(shape), shape=step.shape, axes=axes)


def _gathered(step: Step, x: Series) -> Series:
    return _gather(x, step.saved("dim"), step.tensor("index"))


def _gather(x: Series, dim: int, index: Tensor) -> Series:
    dim = x.from_end(dim)
    _batch.free(x.axes, [dim])
    others = [n - x.ndim for n in range(x.ndim) if n - x.ndim != dim]
    if any(index.shape[n] != x.shape[n] for n in others):
        raise Refusal("it takes elements of a part of the other axes")
    stack = x.full().gather(dim, index.expand(len(x.indices), *index.shape))
    return x.changed(stack, shape=index.shape)


def _ordered(step: Step, x: Series) -> list[Series | None]:
    return [_gather(x, step.saved("dim"), step.tensor("indices")), None]


def _extreme_along(step: Step, x: Series) -> list[Series | None]:
    dim, index = x.from_end(step.saved("dim")), step.tensor("indices")
    if step.saved("keepdim"):
        return [_gather(x, dim, index), None]
    return [_gather(x, dim, index.unsqueeze(dim)).selected(dim, 0), None]


def _extreme(step: Step, x: Series) -> Series:
    """Share the largest or smallest among all that are equal, as PyTorch does."""
    value, result = step.tensor("self"), step.tensor("result")
    dims = _dims(step, x) if _autograd.keeps(step.node, "dim") else range(x.ndim)
    keepdim = step.saved("keepdim") if _autograd.keeps(step.node, "keepdim") else False
    if not keepdim:
        for dim in sorted(dim % x.ndim for dim in dims):
            result = result.unsqueeze(dim)
    is_extreme = (value == result).to(value.dtype)
    share = is_extreme / is_extreme.sum(list(dims), keepdim=True)
    return x.scaled(share).summed(list(dims), keepdim=keepdim)


# --- Joints


def _joined(step: Step, *parts: Series | None) -> Series:
    present = _present(parts)
    dim = step.saved("dim")
    dim -= len(step.shape) if dim >= 0 else 0
    sizes = _sizes(step, dim, parts)
    return _catenated(present[0], parts, sizes, dim)


def _present(parts: Sequence[Series | None]) -> list[Series]:
    return [part for part in parts if part is not None]


def _sizes(step: Step, dim: int, parts: Sequence[Series | None]) -> list[int]:
    """Give the size of each part along the axis, where at most one of them is not known."""
    sizes = [None if part is None else part.shape[dim] for part in parts]
    for number, (size, edge) in enumerate(zip(sizes, step.successors, strict=True)):
        if size is None and edge[0] is not None:
            sizes[number] = _autograd.output_types(edge[0])[edge[1]].shape[dim]
    known = [size for size in sizes if size is not None]
    if len(known) + 1 < len(sizes):
        raise Refusal("it joins several constants, whose sizes it does not keep")
    rest = step.shape[dim] - sum(known)
    return [rest if size is None else size for size in sizes]


def _catenated(
    first: Series, parts: Sequence[Series | None], sizes: Sequence[int], dim: int
) -> Series:
    present = _present(parts)
    axes = _batch.merged([part.axes for part in present])
    _batch.free(axes, [dim])
    indices = tuple(sorted({index for part in present for index in part.indices}))
    spread = [part.changed(part.spread(indices), indices=indices) for part in present]
    common = list(torch.broadcast_shapes(*[_open(part, dim) for part in spread]))
    stacks = iter(part.stack for part in spread)
    blocks = []
    for part, size in zip(parts, sizes, strict=True):
        common[dim] = size
        whole = first.stack.new_zeros(()) if part is None else next(stacks)
        blocks.append(whole.expand(len(indices), *common[1:]))
    shape = list(first.shape)
    shape[dim] = sum(sizes)
    return first.changed(torch.cat(blocks, dim), shape=shape, axes=axes, indices=indices)


def _open(part: Series, dim: int) -> list[int]:
    """Give the shape of the stack, with size 1 along the axis that is joined."""
    shape = list(part.stack.shape)
    shape[dim] = 1
    return shape


def _stacked(step: Step, *parts: Series | None) -> Series:
    dim = step.saved("dim")
    dim -= len(step.shape) if dim >= 0 else 0
    present = _present(parts)
    shape = list(present[0].shape)
    shape.insert(len(shape) + 1 + dim, 1)
    raised = [None if part is None else part.viewed(shape) for part in parts]
    return _catenated(_present(raised)[0], raised, [1] * len(parts), dim)


# --- Sums


def _dims(step: Step, x: Series) -> list[int]:
    dims = step.saved("dim")
    dims = [dims] if isinstance(dims, int) else dims
    return [x.from_end(dim) for dim in dims or range(x.ndim)]


def _summed(step: Step, x: Series) -> Series:
    return x.summed(_dims(step, x), keepdim=step.saved("keepdim"))


def _averaged(step: Step, x: Series) -> Series:
    dims = _dims(step, x)
    count = math.prod(x.shape[dim] for dim in dims)
    return x.summed(dims, keepdim=step.saved("keepdim")).scaled(1 / count)


# --- The rest


def _flipped(step: Step, x: Series) -> Series:
    dims = [x.from_end(dim) for dim in step.saved("dims")]
    _batch.free(x.axes, dims)
    return x.changed(x.full(*dims).flip(dims))


def _rolled(step: Step, x: Series) -> Series:
    dims = [x.from_end(dim) for dim in step.saved("dims")] or list(range(-x.ndim, 0))
    _batch.free(x.axes, dims)
    if not step.saved("dims"):
        flat = x.full().flatten(1).roll(step.saved("shifts"), 1)
        return x.changed(flat.reshape(-1, *x.shape))
    return x.changed(x.full(*dims).roll(step.saved("shifts"), dims))


def _triangle(take: Callable[[Tensor, int], Tensor]) -> Rule:
    return lambda step, x: x.changed(take(x.full(-2, -1), step.saved("diagonal")))


def _padded(step: Step, x: Series) -> Series:
    pad = step.saved("pad")
    dims = [-1 - number // 2 for number, size in enumerate(pad) if size]
    _batch.free(x.axes, dims)
    stack = torch.nn.functional.pad(x.full(*dims), pad) if dims else x.stack
    return x.changed(stack, shape=step.shape)


def _copied(step: Step, x: Series) -> Series:
    return x.changed(x.stack.to(step.results[0].device, step.results[0].dtype))


def _same(_: Any, x: Series) -> Series:
    return x


RULES: dict[str, Rule] = {
    "AliasBackward0": _same,
    "CloneBackward0": _same,
    "ToCopyBackward0": _copied,
    "ViewBackward0": _viewed,
    "UnsafeViewBackward0": _viewed,
    "ReshapeAliasBackward0": _viewed,
    "SqueezeBackward0": _viewed,
    "SqueezeBackward1": _viewed,
    "SqueezeBackward2": _viewed,
    "SqueezeBackward4": _viewed,
    "SqueezeBackward5": _viewed,
    "UnsqueezeBackward0": _viewed,
    "ExpandBackward0": _expanded,
    "RepeatBackward0": _repeated,
    "TBackward0": lambda _, x: x.permuted(range(x.ndim)[::-1]),
    "TransposeBackward0": _transposed,
    "PermuteBackward0": lambda step, x: x.permuted(step.saved("dims")),
    "SliceBackward0": _sliced,
    "SelectBackward0": _selected,
    "UnbindBackward0": _unbound,
    "SplitBackward0": _split,
    "SplitWithSizesBackward0": _split_with_sizes,
    "DiagonalBackward0": _diagonal,
    "IndexBackward0": _indexed,
    "IndexSelectBackward0": lambda step, x: _taken(
        step, x, step.saved("dim"), step.tensor("index")
    ),
    "GatherBackward0": _gathered,
    "SortBackward0": _ordered,
    "SortBackward1": _ordered,
    "TopkBackward0": _ordered,
    "MaxBackward0": _extreme_along,
    "MinBackward0": _extreme_along,
    "AmaxBackward0": _extreme,
    "AminBackward0": _extreme,
    "MaxBackward1": _extreme,
    "MinBackward1": _extreme,
    "CatBackward0": _joined,
    "StackBackward0": _stacked,
    "SumBackward0": lambda _, x: x.summed(range(x.ndim), keepdim=False),
    "SumBackward1": _summed,
    "MeanBackward0": lambda _, x: x.summed(range(x.ndim), keepdim=False).scaled(
        1 / math.prod(x.shape)
    ),
    "MeanBackward1": _averaged,
    "CumsumBackward0": lambda step, x: _within(Tensor.cumsum, step, x),
    "FlipBackward0": _flipped,
    "RollBackward0": _rolled,
    "TrilBackward0": _triangle(Tensor.tril),
    "TriuBackward0": _triangle(Tensor.triu),
    "ConstantPadNdBackward0": _padded,
}
