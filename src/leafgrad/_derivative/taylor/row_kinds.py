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


def _viewed(node: Node, given: Given, _: list[Tensor]) -> Sequence[Axes]:
    """Return the same elements, in the same order, in another shape."""
    (source,) = _all_of(given)
    after = shape_of(node)
    return [] if 0 in after else [batch_axes.viewed(source.axes, source.shape, after)]


def _sliced(node: Node, given: Given, _: list[Tensor]) -> Sequence[Axes]:
    """Return every so many places of an axis, which holds no rows unless they are all of it."""
    (source,) = _all_of(given)
    dim = _autograd.kept(node, "dim")
    if source.axes[dim] and shape_of(node) != source.shape:
        batch_axes.free(source.axes, [dim])
    return [source.axes]


def _selected(node: Node, given: Given, _: list[Tensor]) -> Sequence[Axes]:
    """Return one place of an axis, which is gone then."""
    (source,) = _all_of(given)
    dim = _autograd.kept(node, "dim") % len(source.axes)
    batch_axes.free(source.axes, [dim])
    return [(*source.axes[:dim], *source.axes[dim + 1 :])]


def _transposed(node: Node, given: Given, _: list[Tensor]) -> Sequence[Axes]:
    """Return the same with two axes exchanged."""
    (source,) = _all_of(given)
    axes = list(source.axes)
    one, two = (_autograd.kept(node, name) for name in ("dim0", "dim1"))
    axes[one], axes[two] = axes[two], axes[one]
    return [tuple(axes)]


def _joined(node: Node, given: Given, _: list[Tensor]) -> Sequence[Axes]:
    """Return parts joined along an axis that holds no rows."""
    axes = batch_axes.merged([part.axes for part in _all_of(given)])
    if len(axes) != len(shape_of(node)):  # as that of an empty vector, which is left out
        return []
    batch_axes.free(axes, [_autograd.kept(node, "dim")])
    return [axes]


def _summed(node: Node, given: Given, _: list[Tensor]) -> Sequence[Axes]:
    """Return the sum along axes that hold no rows."""
    (source,) = _all_of(given)
    named = _autograd.kept(node, "dim")
    if not source.axes or not named:
        return []
    dims = {dim % len(source.axes) for dim in named}
    batch_axes.free(source.axes, dims)
    is_kept = _autograd.kept(node, "keepdim")
    return [tuple(axis for n, axis in enumerate(source.axes) if is_kept or n not in dims)]


def _normalised(node: Node, given: Given, _: list[Tensor]) -> Sequence[Axes]:
    """Return the same shape, normalised along its last axes, in which there are no rows."""
    source, *constants = given
    if source is None or any(constants):
        return []
    batch_axes.free(source.axes, range(-len(_autograd.kept(node, "normalized_shape")), 0))
    return [source.axes]


def _all_of(given: Given) -> list[Known]:
    """Return what is known of the inputs that depend on inputs."""
    return [each for each in given if each is not None]


# --- Kinds that Taylor mode cannot pass


def _chosen(node: Node, given: Given, masks: list[Tensor]) -> Sequence[Axes]:
    """Return the rows that a mask shows, whose axis has the mask's own number."""
    mask, (source,) = _mask(node), _all_of(given)
    if mask is None or source.axes[0] != ((0, len(mask)),) or any(source.axes[1:]):
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
    if values is not None and values.axes != (((chosen, values.shape[0]),), *others):
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
    "ViewBackward0": _viewed,
    "UnsafeViewBackward0": _viewed,
    "SqueezeBackward1": _viewed,
    "UnsqueezeBackward0": _viewed,
    "SliceBackward0": _sliced,
    "SelectBackward0": _selected,
    "TransposeBackward0": _transposed,
    "CatBackward0": _joined,
    "SumBackward1": _summed,
    "MeanBackward1": _summed,
    "NativeLayerNormBackward0": _normalised,
    "IndexBackward0": _chosen,
    "IndexPutBackward0": _put,
    "MkldnnRnnLayerBackward0": _recurrent,
}
