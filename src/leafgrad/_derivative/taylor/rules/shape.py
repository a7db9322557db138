"""Rules for views, slices, concatenations, sums and other linear functions that move elements.

Each rule applies PyTorch's operation on ``[*shape]`` to every coefficient of ``[K, *shape]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor.rule import Propagate, Rule, Step
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import Unsupported

# --- Views


def _view(step: Step, x: Series) -> Series:
    """Return the series reshaped to the shape of the result. The order of elements is the same."""
    return x.viewed(step.shape)


def _transpose(step: Step, x: Series) -> Series:
    """Return x with the two saved axes swapped."""
    dims = list(range(x.ndim))
    one, two = step.saved("dim0"), step.saved("dim1")
    dims[one], dims[two] = dims[two], dims[one]
    return x.permuted(dims)


def _repeat(step: Step, x: Series) -> Series:
    """Return x repeated along its axes and along new leading axes, as `Tensor.repeat` does."""
    repeats = step.saved("repeats")
    wide = x.broadcast((*[1] * (len(repeats) - x.ndim), *x.shape))
    return wide.changed(wide.full().repeat(1, *repeats), shape=step.shape)


# --- Parts of a tensor


def _slice(step: Step, x: Series) -> Series:
    """Return the saved slice ``start:end:step`` of the saved axis of x."""
    dim = x.from_end(step.saved("dim"))
    if step.shape == x.shape:
        return x
    part = slice(*map(step.saved, ("start", "end", "step")))
    taken = x.full(dim).movedim(dim, 0)[part].movedim(0, dim)
    return x.changed(taken, shape=step.shape)


def _unbind(step: Step, x: Series) -> list[Series]:
    """Return one series for each position along the saved axis, which they lack."""
    dim = x.from_end(step.saved("dim"))
    return [x.selected(dim, place) for place in range(x.shape[dim])]


def _split(step: Step, x: Series) -> list[Series]:
    """Return parts of the saved size along the saved axis of x; the last may be smaller."""
    dim, size = x.from_end(step.saved("dim")), step.saved("split_size")
    return _split_by(x, dim, [min(size, x.shape[dim] - n) for n in range(0, x.shape[dim], size)])


def _split_with_sizes(step: Step, x: Series) -> list[Series]:
    """Return parts with the saved sizes along the saved axis of x."""
    return _split_by(x, x.from_end(step.saved("dim")), step.saved("split_sizes"))


def _split_by(x: Series, dim: int, sizes: Sequence[int]) -> list[Series]:
    """Return parts with these sizes along the axis `dim` of x."""
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return [x.narrowed(dim, *part) for part in zip(starts, sizes, strict=True)]


def _diagonal(step: Step, x: Series) -> Series:
    """Return the diagonals of x along the two saved axes. They are on a new last axis."""
    one, two = (x.from_end(step.saved(name)) for name in ("dim1", "dim2"))
    stack = x.full(one, two).diagonal(step.saved("offset"), one, two)
    return x.changed(stack, shape=step.shape)


def _embed_diagonal(step: Step, x: Series) -> Series:
    """Return matrices ``[K, ..., n, n]`` with the last axis of x on their diagonals, else zeros."""
    ndim = len(step.shape)
    dims = [step.saved(name) % ndim for name in ("dim1", "dim2")]
    stack = x.full(-1).diag_embed(step.saved("offset"), *(dim - ndim for dim in dims))
    return x.changed(stack, shape=step.shape)


# --- Concatenations


def _concatenate(step: Step, *parts: Series | None) -> Series:
    """Return the parts joined along the saved axis. A part that is None is zero."""
    if any(part.ndim != len(step.shape) for part in _drop_none(parts)):
        raise Unsupported("reason.empty-vector")
    dim = step.result_dim()
    return concatenate(parts, _sizes(step, dim, parts), dim)


def _drop_none(parts: Sequence[Series | None]) -> list[Series]:
    """Return the parts ``[K, *shape]`` that are not None."""
    return [part for part in parts if part is not None]


def _sizes(step: Step, dim: int, parts: Sequence[Series | None]) -> list[int]:
    """Return the size of each part along the axis `dim`.

    Raise `Unsupported` if the sizes of two or more constant parts are unknown.
    """
    sizes = [None if part is None else part.shape[dim] for part in parts]
    for number, (size, edge) in enumerate(zip(sizes, step.successors, strict=True)):
        if size is None and edge[0] is not None:
            sizes[number] = _autograd.output_types(edge[0])[edge[1]].shape[dim]
    known = [size for size in sizes if size is not None]
    if len(known) + 1 < len(sizes):
        raise Unsupported("reason.constants")
    rest = step.shape[dim] - sum(known)
    return [rest if size is None else size for size in sizes]


def concatenate(parts: Sequence[Series | None], sizes: Sequence[int], dim: int) -> Series:
    """Return parts joined along the axis `dim`. A part that is None is zero.

    `sizes` contains the size of each part along this axis.
    """
    present = _drop_none(parts)
    first = present[0]
    indices = tuple(sorted({index for part in present for index in part.indices}))
    spread = [part.changed(part.spread(indices), indices=indices) for part in present]
    common = list(torch.broadcast_shapes(*[_size_one_along(part, dim) for part in spread]))
    stacks = iter(part.stack for part in spread)
    blocks = []
    for part, size in zip(parts, sizes, strict=True):
        common[dim] = size
        whole = first.stack.new_zeros(()) if part is None else next(stacks)
        blocks.append(whole.expand(len(indices), *common[1:]))
    shape = list(first.shape)
    shape[dim] = sum(sizes)
    return first.changed(torch.cat(blocks, dim), shape=shape, indices=indices)


def _size_one_along(part: Series, dim: int) -> list[int]:
    """Return the shape of the stack of the series `part`, with size 1 along the axis `dim`."""
    shape = list(part.stack.shape)
    shape[dim] = 1
    return shape


def _stack(step: Step, *parts: Series | None) -> Series:
    """Return parts stacked along a new axis at the saved position. A part that is None is zero."""
    dim = step.result_dim()
    shape = list(_drop_none(parts)[0].shape)
    shape.insert(len(shape) + 1 + dim, 1)
    raised = [None if part is None else part.viewed(shape) for part in parts]
    return concatenate(raised, [1] * len(parts), dim)


# --- Other operations


def _cumsum(step: Step, x: Series) -> Series:
    """Return the cumulative sum along the saved axis, in the shape of x."""
    dim = x.from_end(step.saved("dim"))
    return x.changed(x.full(dim).cumsum(dim), shape=step.shape)


def _flip(step: Step, x: Series) -> Series:
    """Return x with the saved axes in reverse order, in the same shape."""
    dims = [x.from_end(dim) for dim in step.saved("dims")]
    return x.changed(x.full(*dims).flip(dims))


def _roll(step: Step, x: Series) -> Series:
    """Return x rolled along the saved axes, in the same shape. Without axes, roll it flattened."""
    dims = [x.from_end(dim) for dim in step.saved("dims")] or list(range(-x.ndim, 0))
    if not step.saved("dims"):
        flat = x.full().flatten(1).roll(step.saved("shifts"), 1)
        return x.changed(flat.reshape(-1, *x.shape))
    return x.changed(x.full(*dims).roll(step.saved("shifts"), dims))


def _trace(_: Step, x: Series) -> Series:
    """Return the sum of the diagonal of a matrix, ``[K]``."""
    diagonal = x.full().diagonal(dim1=-2, dim2=-1)
    return x.changed(diagonal.sum(-1), shape=())


def _triangle(take: Callable[[Tensor, int], Tensor]) -> Propagate:
    """Return the rule of `tril` or `triu`, which keeps a triangle of the last two axes."""
    return lambda step, x: x.changed(take(x.full(-2, -1), step.saved("diagonal")))


def _pad(step: Step, x: Series) -> Series:
    """Return x padded with zeros along its last axes, by the saved widths."""
    pad = step.saved("pad")
    dims = [-1 - number // 2 for number, size in enumerate(pad) if size]
    stack = torch.nn.functional.pad(x.full(*dims), pad) if dims else x.stack
    return x.changed(stack, shape=step.shape)


def _copy(step: Step, x: Series) -> Series:
    """Return x on the device and in the dtype of the result, in the same shape."""
    result = step.results[0]
    is_cut = x.dtype.is_complex and not result.dtype.is_complex
    stack = x.stack.real if is_cut else x.stack
    return x.changed(stack.to(result.device, step.wide(result.dtype)))


def _pass_on(_: Any, x: Series) -> Series:
    """Return x unchanged, because the operation only copies its input."""
    return x


RULES: dict[str, Rule] = {
    "AliasBackward0": Rule(_pass_on, rowwise=True, is_for_complex=True),
    "CloneBackward0": Rule(_pass_on, rowwise=True, is_for_complex=True),
    "ToCopyBackward0": Rule(_copy, rowwise=True, is_for_complex=True),
    "ViewBackward0": Rule(_view, is_for_complex=True),
    "UnsafeViewBackward0": Rule(_view, is_for_complex=True),
    "ReshapeAliasBackward0": Rule(_view, is_for_complex=True),
    "SqueezeBackward0": Rule(_view, is_for_complex=True),
    "SqueezeBackward1": Rule(_view, is_for_complex=True),
    "SqueezeBackward2": Rule(_view, is_for_complex=True),
    "SqueezeBackward4": Rule(_view, is_for_complex=True),
    "SqueezeBackward5": Rule(_view, is_for_complex=True),
    "UnsqueezeBackward0": Rule(_view, is_for_complex=True),
    "ExpandBackward0": Rule(lambda step, x: x.broadcast(step.shape), is_for_complex=True),
    "RepeatBackward0": Rule(_repeat, is_for_complex=True),
    "TBackward0": Rule(lambda _, x: x.permuted(range(x.ndim)[::-1]), is_for_complex=True),
    "TransposeBackward0": Rule(_transpose, is_for_complex=True),
    "TransposeBackward1": Rule(_transpose, is_for_complex=True),
    "PermuteBackward0": Rule(lambda step, x: x.permuted(step.saved("dims")), is_for_complex=True),
    "SliceBackward0": Rule(_slice, is_for_complex=True),
    "SelectBackward0": Rule(
        lambda step, x: x.selected(step.saved("dim"), step.saved("index")), is_for_complex=True
    ),
    "UnbindBackward0": Rule(_unbind, is_for_complex=True),
    "SplitBackward0": Rule(_split, is_for_complex=True),
    "UnsafeSplitBackward0": Rule(_split, is_for_complex=True),
    "SplitWithSizesBackward0": Rule(_split_with_sizes, is_for_complex=True),
    "UnsafeSplitWithSizesBackward0": Rule(_split_with_sizes, is_for_complex=True),
    "DiagonalBackward0": Rule(_diagonal, is_for_complex=True),
    "SumBackward0": Rule(lambda _, x: x.summed(range(x.ndim), keepdim=False), is_for_complex=True),
    "SumBackward1": Rule(
        lambda step, x: x.summed(step.dims(x), keepdim=step.saved("keepdim")), is_for_complex=True
    ),
    "CumsumBackward0": Rule(_cumsum, is_for_complex=True),
    "FlipBackward0": Rule(_flip, is_for_complex=True),
    "RollBackward0": Rule(_roll, is_for_complex=True),
    "TraceBackward0": Rule(_trace, is_for_complex=True),
    "TrilBackward0": Rule(_triangle(Tensor.tril), rowwise=True, is_for_complex=True),
    "TriuBackward0": Rule(_triangle(Tensor.triu), rowwise=True, is_for_complex=True),
    "ConstantPadNdBackward0": Rule(_pad, is_for_complex=True),
    "DiagEmbedBackward0": Rule(_embed_diagonal, is_for_complex=True),
    "CatBackward0": Rule(_concatenate, is_for_complex=True),
    "StackBackward0": Rule(_stack, is_for_complex=True),
}
