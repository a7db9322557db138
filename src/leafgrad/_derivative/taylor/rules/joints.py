"""Rules for what joins tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from leafgrad import _autograd
from leafgrad._derivative.taylor import batch_axes
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.step import Rule, Step
from leafgrad._derivative.taylor.unsupported import Unsupported


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
        raise Unsupported("it joins several constants, whose sizes it does not keep")
    rest = step.shape[dim] - sum(known)
    return [rest if size is None else size for size in sizes]


def _catenated(
    first: Series, parts: Sequence[Series | None], sizes: Sequence[int], dim: int
) -> Series:
    present = _present(parts)
    axes = batch_axes.merged([part.axes for part in present])
    batch_axes.free(axes, [dim])
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


RULES: dict[str, Rule] = {
    "CatBackward0": Rule(_joined),
    "StackBackward0": Rule(_stacked),
}
