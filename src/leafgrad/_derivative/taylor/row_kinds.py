"""Where rows go in kinds of nodes that are not row-wise, told from shapes and arguments alone.

Of what a node is given, ``[*shape]``, each axis has the rows that it counts (see `batch_axes`), and
what is told is which axis of the result each of them becomes: how the kind `moves` axes, or

    some rows, by a mask     [rows, a] -> [chosen, a]                those that this mask shows
    LSTM                     [steps, rows, a] -> [steps, rows, b]    rows stay on axis 1

An axis that a node cuts, reduces or joins must count no rows: those in it may meet.

What is here is here for speed, as the rule of a kind tells as much, or since the kind has no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.taylor import batch_axes
from leafgrad._derivative.taylor.batch_axes import Axes
from leafgrad._derivative.taylor.kernels import contraction, fused, recurrences
from leafgrad._derivative.taylor.moves import Moves
from leafgrad._derivative.taylor.rules import RULES


class Known(NamedTuple):
    """The axes of a tensor, and the edge along which its gradient arrives."""

    axes: Axes
    edge: _autograd.Edge

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return shape_of(*self.edge)


Given = Sequence[Known | None]  # of each input, None for one that does not depend on inputs
# Of masks that were met, by their place in memory and size: a number, and the mask.
Masks = dict[tuple[int, int], tuple[int, Tensor]]
# Of a node, of what is known of its inputs, and of masks that were met: the axes of its results,
# and nothing where these do not show.
Look = Callable[[Node, Given, Masks], Sequence[Axes]]


def shape_of(node: Node, number: int = 0) -> tuple[int, ...]:
    """Return the shape of a result."""
    return tuple(_autograd.output_types(node)[number].shape)


# --- Kinds with a rule


def _moved(moves: Moves) -> Look:
    """Return the look that follows axes wherever they are."""

    def look(node: Node, given: Given, _: Masks) -> Sequence[Axes]:
        axes, *others = [part.axes for part in given if part is not None]
        if others:
            if any(len(other) != len(axes) for other in others):
                return []
            axes = batch_axes.merged([axes, *others])
        move = moves.of(node, len(axes)) if axes else None
        if move is None or len(move.left) != len(_autograd.output_types(node)[0].shape):
            return []
        batch_axes.free(axes, move.touched)
        return [tuple([() if axis is None else axes[axis] for axis in move.left])]

    return look


def _sliced(node: Node, given: Given, _: Masks) -> Sequence[Axes]:
    """Return every so many places of an axis, which holds no rows unless they are all of it."""
    (source,) = _all_of(given)
    if shape_of(node) != source.shape:
        batch_axes.free(source.axes, [_autograd.kept(node, "dim")])
    return [source.axes]


def _viewed(node: Node, given: Given, _: Masks) -> Sequence[Axes]:
    """Return the same elements, in the same order, in another shape."""
    (source,) = _all_of(given)
    after = shape_of(node)
    return [] if 0 in after else [batch_axes.viewed(source.axes, source.shape, after)]


def _all_of(given: Given) -> list[Known]:
    """Return what is known of the inputs that depend on inputs."""
    return [each for each in given if each is not None]


# --- Kinds that Taylor mode cannot pass


def _chosen(node: Node, given: Given, masks: Masks) -> Sequence[Axes]:
    """Return the rows that a mask shows, whose axis has the mask's own number."""
    mask, (source,), shape = _mask(node), _all_of(given), shape_of(node)
    if 0 in shape or mask is None or source.axes[0] != ((0, mask.numel()),) or any(source.axes[1:]):
        return []
    return [(((_number(mask, masks), shape[0]),), *source.axes[1:])]


def _put(node: Node, given: Given, masks: Masks) -> Sequence[Axes]:
    """Return rows, some of which were written over by those that the same mask shows."""
    mask = _mask(node)
    if mask is None:
        return []
    others: Axes = ((),) * (len(shape_of(node)) - 1)
    rows, chosen = ((0, mask.numel()),), _number(mask, masks)
    below, values = given
    if below is not None and below.axes != (rows, *others):
        return []
    shape = () if values is None else values.shape
    if values is not None and (  # PyTorch takes leading axes of size 1 off
        len(shape) != 1 + len(others) or values.axes != (((chosen, shape[0]),), *others)
    ):
        return []
    return [(rows, *others)]


def _mask(node: Node) -> Tensor | None:
    """Return the mask ``[rows]`` that a node takes or writes rows by, None without one."""
    mask: Tensor | None
    mask, *others = _indices(node)
    if mask is None or others or mask.dtype != torch.bool:
        return None
    return mask if mask.dim() == 1 and mask.is_contiguous() else None


_indices = _autograd.reader_of_kept("indices")


def _number(mask: Tensor, masks: Masks) -> int:
    """Return a number that is no axis of a batch, the same for what is the same mask ``[rows]``.

    All masks are kept until the end, so that no two of them are at one place in memory.
    """
    place = mask.data_ptr(), mask.numel()
    number, _ = masks.setdefault(place, (-1 - len(masks), mask))
    return number


def _recurrent(node: Node, given: Given, _: Masks) -> Sequence[Axes]:
    """Return a layer's outputs ``[steps, rows, features]``, and its last states ``[rows, ...]``."""
    source, *others = given
    if source is None or source.axes[0] or source.axes[2] or any(others):
        return []
    rows, states = source.axes[1], len(_autograd.output_types(node)) - 1
    return [((), rows, ()), *[(rows, ())] * states]


def _layers(node: Node, given: Given, masks: Masks) -> Sequence[Axes]:
    """Return the coefficients that layers make, ``[N, *rows, columns]``.

    Matrices that depend on inputs are not followed, and columns of which they make others no rows.
    """
    own: Any = node
    are_products = [False, *(layer is None for layer in own.layers)]
    if any(each and is_one for each, is_one in zip(given, are_products, strict=True)):
        return []
    if any(are_products):
        for part in _all_of(given):
            batch_axes.free(part.axes, [-1])
    return _stacked(node, given, masks)


def _stacked(node: Node, given: Given, _: Masks) -> Sequence[Axes]:
    """Return coefficients ``[N, *shape]`` that are computed place by place of ``shape``.

    They come from other coefficients ``[n, *shape]``, and from values ``[*shape]``.
    """
    ndim = len(shape_of(node))
    axes = batch_axes.merged([batch_axes.aligned(part.axes, ndim) for part in _all_of(given)])
    batch_axes.free(axes, [0])
    return [axes]


def _of_own(*looks: tuple[Sequence[type[Function]], Look]) -> dict[str, Look]:
    """Return looks at functions of leafgrad by name, with nothing told of others of that name."""

    def checked(own: type[Function], look: Look) -> Look:
        def told(node: Node, given: Given, masks: Masks) -> Sequence[Axes]:
            return look(node, given, masks) if _autograd.forward_class(node) is own else []

        return told

    return {f"{own.__name__}Backward": checked(own, look) for kinds, look in looks for own in kinds}


LOOKS: dict[str, Look] = {
    **{name: _moved(rule.moves) for name, rule in RULES.items() if rule.moves},
    "ViewBackward0": _viewed,
    "UnsafeViewBackward0": _viewed,
    "SqueezeBackward1": _viewed,
    "SliceBackward0": _sliced,
    "IndexBackward0": _chosen,
    "IndexPutBackward0": _put,
    "MkldnnRnnLayerBackward0": _recurrent,
    **_of_own(
        (fused.FUNCTIONS, _layers), ((*contraction.FUNCTIONS, *recurrences.FUNCTIONS), _stacked)
    ),
}
