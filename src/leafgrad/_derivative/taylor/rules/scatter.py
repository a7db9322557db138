"""Rules for operations that write elements of a source tensor into a base tensor.

The coefficients ``[K, *shape]`` of the result are a sum: those of the base, with zeros at
overwritten elements, plus those of the source, scattered into zeros.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leafgrad._derivative.taylor.jet import add
from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.rules.indexing import indices_of
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import unsupported_if

Placing = Callable[[Step, Series | None, Series | None], Series | None]  # (step, base, source)
Clear = Callable[[Step, Tensor, int], Tensor]  # (step, stack [K, *shape], negative axis)
Put = Callable[[Step, Tensor, int, Tensor], Tensor]  # (step, zeros, negative axis, source)


def _along(clear: Clear | None, put: Put) -> Placing:
    """Return the rule of an operation that writes a source into a base along an axis.

    `put` writes the source. `clear` sets the overwritten elements of the base to zero; if it is
    None, the source is added instead.
    """

    def rule(step: Step, base: Series | None, source: Series | None) -> Series | None:
        unsupported_if(not step.shape, "no-axis")
        dim = step.result_dim()
        if base is not None and clear is not None:
            base = base.changed(clear(step, base.full(), dim))
        if source is None:
            return base
        zeros = source.stack.new_zeros(len(source.indices), *step.shape)
        stack = put(step, zeros, dim, source.full())
        return add(base, source.changed(stack, shape=step.shape))

    return rule


def _fill(clear: Clear) -> Callable[[Step, Series], Series]:
    """Return the rule of an operation that fills elements of a tensor with a number.

    `clear` sets the series of these elements to zero, because a number has no series.
    """
    return lambda step, base: base.changed(
        clear(step, base.full(), base.from_end(step.saved("dim")))
    )


def _expand_index(step: Step, stack: Tensor, dim: int) -> Tensor:
    """Return the saved index, expanded to ``[K, *shape of the index]``.

    K is the length of `stack`. Raise `Unsupported` if the shape of the index differs from the
    result's on any axis except `dim`.
    """
    index = step.tensor("index")
    sizes = [*zip(index.shape, step.shape, strict=True)]
    del sizes[dim]
    unsupported_if(any(one != other for one, other in sizes), "part-of-axes")
    return index.expand(len(stack), *index.shape)


def _scatter(
    scatter: Callable[[Tensor, int, Tensor, Tensor], Tensor],
) -> Put:
    """Return a function that writes a source ``[K, *source]`` into zeros, at the saved index.

    `scatter` is the tensor method to call.
    """

    def put(step: Step, zeros: Tensor, dim: int, source: Tensor) -> Tensor:
        index = _expand_index(step, zeros, dim)
        for axis, size in enumerate(index.shape):
            source = source.narrow(axis, 0, size)
        return scatter(zeros, dim, index, source)

    return put


def _scatter_reduce(step: Step, base: Series | None, source: Series | None) -> Series | None:
    """Return ``[K, *shape]`` with the sum, mean or extreme of all elements written to a position.

    The elements of `source` are written into `base`. Raise `Unsupported` for products. None stands
    for a series that is zero.
    """
    kind, joins = step.saved("reduce"), step.saved("include_self")
    unsupported_if(kind == "prod", "multiplies")
    gather = _along(None if joins else _clear_by_places, _scatter(Tensor.scatter_add))
    if kind == "sum":
        return gather(step, base, source)
    dim, index, result = step.saved("dim"), step.tensor("index"), step.tensor("result")
    of_base, of_source = torch.ones_like(result), torch.ones_like(index, dtype=result.dtype)
    if kind != "mean":  # Count the elements that are equal to the extreme.
        of_base = (step.tensor("self") == result).to(result)
        of_source = (
            step.tensor("src")[tuple(map(slice, index.shape))] == result.gather(dim, index)
        ).to(result)
    if not joins:
        of_base = of_base.scatter(dim, index, 0)
    count = of_base.scatter_add(dim, index, of_source)
    if kind == "mean":
        total = gather(step, base, source)
        return total and total.scaled(1 / torch.where(count == 0, 1, count))
    shared = (of_source / count.gather(dim, index), of_base / torch.where(count == 0, 1, count))
    return gather(step, base and base.scaled(shared[1]), source and source.scaled(shared[0]))


def _index_put(step: Step, base: Series | None, source: Series | None) -> Series | None:
    """Return the base after the source replaced the indexed elements, or was added to them.

    None stands for a series that is zero.
    """
    indices, adds = indices_of(step), step.saved("accumulate")
    if base is not None and not adds:
        last = base.full().movedim(0, -1)
        cleared = torch.ops.aten.index_put(last, indices, last.new_zeros(()))
        base = base.changed(cleared.movedim(-1, 0))
    if source is None:
        return base
    zeros = source.stack.new_zeros(*step.shape, len(source.indices))
    stack = torch.ops.aten.index_put(zeros, indices, source.full().movedim(0, -1), adds)
    return add(base, source.changed(stack.movedim(-1, 0), shape=step.shape))


def _clear_by_index(step: Step, stack: Tensor, dim: int) -> Tensor:
    """Return `stack` ``[K, *shape]`` with zeros at the saved positions of the axis `dim`.

    The node is one of `index_fill`.
    """
    return stack.index_fill(dim, step.tensor("index"), 0)


def _clear_by_places(step: Step, stack: Tensor, dim: int) -> Tensor:
    """Return `stack` ``[K, *shape]`` with zeros at the elements that the index selects.

    The node is one of `scatter`, along the axis `dim`.
    """
    index = step.tensor("index")
    return stack.scatter(dim, index.expand(len(stack), *index.shape), 0)


def _index_copy(step: Step, zeros: Tensor, dim: int, source: Tensor) -> Tensor:
    """Return zeros ``[K, *shape]`` with the source written to the saved positions of an axis."""
    return zeros.index_copy(dim, step.tensor("index"), source)


def _index_add(step: Step, zeros: Tensor, dim: int, source: Tensor) -> Tensor:
    """Return zeros ``[K, *shape]`` with ``alpha * source`` added at saved positions of an axis."""
    return zeros.index_add(dim, step.tensor("index"), source, alpha=step.saved("alpha"))


RULES: dict[str, Rule] = {
    "IndexCopyBackward0": Rule(_along(_clear_by_index, _index_copy), is_for_complex=True),
    "IndexAddBackward0": Rule(_along(None, _index_add), is_for_complex=True),
    "IndexFillBackward0": Rule(_fill(_clear_by_index), rowwise=True, is_for_complex=True),
    "ScatterBackward0": Rule(
        _along(_clear_by_places, _scatter(Tensor.scatter)), is_for_complex=True
    ),
    "ScatterBackward1": Rule(_fill(_clear_by_places), rowwise=True, is_for_complex=True),
    "ScatterAddBackward0": Rule(_along(None, _scatter(Tensor.scatter_add)), is_for_complex=True),
    "ScatterReduceBackward0": Rule(_scatter_reduce),
    "IndexPutBackward0": Rule(_index_put, is_for_complex=True),
}
