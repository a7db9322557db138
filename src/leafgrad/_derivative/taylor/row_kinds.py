"""Where rows go in kinds of nodes that are not row-wise, told from shapes and arguments alone.

What is here is here for speed, as the rule of a kind tells as much, or since the kind has no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.taylor import batch_axes
from leafgrad._derivative.taylor.batch_axes import Axes


class Known(NamedTuple):
    """The axes of a tensor, and the edge along which its gradient arrives."""

    axes: Axes
    edge: _autograd.Edge

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return shape_of(*self.edge)


Given = Sequence[Known | None]  # of each input, None for one that does not depend on inputs
# Of a node, of what is known of its inputs, and of masks that were met: the axes of its results,
# and nothing where these do not show.
Look = Callable[[Node, Given, list[Tensor]], Sequence[Axes]]


def shape_of(node: Node, number: int = 0) -> tuple[int, ...]:
    """Return the shape of a result."""
    return tuple(_autograd.output_types(node)[number].shape)


# --- Kinds with a rule


class Move(NamedTuple):
    """What a kind of node does to the axes of what it is given, the same to each.

    Attributes:
        touched: The axes that are cut, reduced, joined or put together, so that rows in one of
            them may meet.
        left: Of each axis of the result, the axis that it comes from, None for none.
    """

    touched: Sequence[int]
    left: Sequence[int | None]


# Of a node and of how many axes, one at least, what it is given was counted to have. It may have
# more, as those in front were not: then the move is wrong, but takes none of these away. None where
# it does not show.
Moves = Callable[[Node, int], Move | None]


def _reshaped(node: Node, ndim: int) -> Move | None:
    """Keep the first axes whose sizes stay, and put what follows them in others in its order."""
    ((source, number),) = _autograd.next_functions(node)
    before, after = () if source is None else shape_of(source, number), shape_of(node)
    if len(before) != ndim:
        return None
    stay = 0
    while stay < min(ndim, len(after)) and before[stay] == after[stay]:
        stay += 1
    return Move(range(stay, ndim), [*range(stay), *[None] * (len(after) - stay)])


def _unsqueezed(node: Node, ndim: int) -> Move:
    """Put in an axis of size 1."""
    dim = _autograd.kept(node, "dim") % (ndim + 1)
    return Move((), [*range(dim), None, *range(dim, ndim)])


def _cut(node: Node, ndim: int) -> Move:
    """Take places of an axis, or join parts along it."""
    return Move((_autograd.kept(node, "dim") % ndim,), range(ndim))


def _selected(node: Node, ndim: int) -> Move:
    """Take one place of an axis, which is gone then."""
    dim = _autograd.kept(node, "dim") % ndim
    return Move((dim,), [*range(dim), *range(dim + 1, ndim)])


def _transposed(node: Node, ndim: int) -> Move:
    """Exchange two axes."""
    left = [*range(ndim)]
    one, two = (_autograd.kept(node, name) % ndim for name in ("dim0", "dim1"))
    left[one], left[two] = left[two], left[one]
    return Move((), left)


def _summed(node: Node, ndim: int) -> Move | None:
    """Add up along axes, which have size 1 then, or are gone."""
    named = _autograd.kept(node, "dim")
    dims = {dim % ndim for dim in named}
    if not dims or len(dims) != len(named):
        return None
    is_kept = _autograd.kept(node, "keepdim")
    return Move([*dims], [axis for axis in range(ndim) if is_kept or axis not in dims])


def _normalised(node: Node, ndim: int) -> Move:
    """Normalise along the last axes, which are those of weight and bias as well."""
    first = max(ndim - len(_autograd.kept(node, "normalized_shape")), 0)
    return Move(range(first, ndim), range(ndim))


MOVES: dict[str, Moves] = {
    "ViewBackward0": _reshaped,
    "UnsafeViewBackward0": _reshaped,
    "SqueezeBackward1": _reshaped,
    "UnsqueezeBackward0": _unsqueezed,
    "SliceBackward0": _cut,
    "SelectBackward0": _selected,
    "TransposeBackward0": _transposed,
    "CatBackward0": _cut,
    "SumBackward1": _summed,
    "MeanBackward1": _summed,
    "NativeLayerNormBackward0": _normalised,
}


def _moved(moves: Moves) -> Look:
    """Return the look that follows axes wherever they are."""

    def look(node: Node, given: Given, _: list[Tensor]) -> Sequence[Axes]:
        parts = [part.axes for part in _all_of(given)]
        ndim = len(parts[0])
        if not ndim or any(len(axes) != ndim for axes in parts):
            return []
        move = moves(node, ndim)
        if move is None or len(move.left) != len(shape_of(node)):
            return []
        axes = batch_axes.merged(parts)
        batch_axes.free(axes, move.touched)
        return [tuple([() if axis is None else axes[axis] for axis in move.left])]

    return look


def _sliced(node: Node, given: Given, _: list[Tensor]) -> Sequence[Axes]:
    """Return every so many places of an axis, which holds no rows unless they are all of it."""
    (source,) = _all_of(given)
    if shape_of(node) != source.shape:
        batch_axes.free(source.axes, [_autograd.kept(node, "dim")])
    return [source.axes]


def _viewed(node: Node, given: Given, _: list[Tensor]) -> Sequence[Axes]:
    """Return the same elements, in the same order, in another shape."""
    (source,) = _all_of(given)
    after = shape_of(node)
    return [] if 0 in after else [batch_axes.viewed(source.axes, source.shape, after)]


def _all_of(given: Given) -> list[Known]:
    """Return what is known of the inputs that depend on inputs."""
    return [each for each in given if each is not None]


# --- Kinds that Taylor mode cannot pass


def _chosen(node: Node, given: Given, masks: list[Tensor]) -> Sequence[Axes]:
    """Return the rows that a mask shows, whose axis has the mask's own number."""
    mask, (source,) = _mask(node), _all_of(given)
    if (
        0 in shape_of(node)
        or mask is None
        or source.axes[0] != ((0, len(mask)),)
        or any(source.axes[1:])
    ):
        return []
    return [(((_number(mask, masks), shape_of(node)[0]),), *source.axes[1:])]


def _put(node: Node, given: Given, masks: list[Tensor]) -> Sequence[Axes]:
    """Return rows, some of which were written over by those that the same mask shows."""
    mask = _mask(node)
    if mask is None:
        return []
    others: Axes = ((),) * (len(shape_of(node)) - 1)
    rows, chosen = ((0, len(mask)),), _number(mask, masks)
    below, values = given
    if below is not None and below.axes != (rows, *others):
        return []
    if values is not None and (  # PyTorch takes leading axes of size 1 off
        len(values.shape) != len(shape_of(node))
        or values.axes != (((chosen, values.shape[0]),), *others)
    ):
        return []
    return [(rows, *others)]


def _mask(node: Node) -> Tensor | None:
    """Return the mask ``[rows]`` that a node takes or writes rows by, None without one."""
    mask: Tensor | None
    mask, *others = _autograd.kept(node, "indices")
    if mask is None or others or mask.dtype != torch.bool:
        return None
    return mask if mask.dim() == 1 and mask.is_contiguous() else None


def _number(mask: Tensor, masks: list[Tensor]) -> int:
    """Return a number that is no axis of a batch, and the same for what is the same mask.

    All masks are kept until the end, so that no two of them are at one place in memory.
    """
    masks.append(mask)
    places = [(each.data_ptr(), len(each)) for each in masks]
    return -1 - places.index(places[-1])


def _recurrent(node: Node, given: Given, _: list[Tensor]) -> Sequence[Axes]:
    """Return a layer's outputs ``[steps, rows, features]``, and its last states ``[rows, ...]``."""
    source, *others = given
    if source is None or source.axes[0] or source.axes[2] or any(others):
        return []
    rows, states = source.axes[1], len(_autograd.output_types(node)) - 1
    return [((), rows, ()), *[(rows, ())] * states]


LOOKS: dict[str, Look] = {
    **{name: _moved(moves) for name, moves in MOVES.items()},
    "ViewBackward0": _viewed,
    "UnsafeViewBackward0": _viewed,
    "SqueezeBackward1": _viewed,
    "SliceBackward0": _sliced,
    "IndexBackward0": _chosen,
    "IndexPutBackward0": _put,
    "MkldnnRnnLayerBackward0": _recurrent,
}
