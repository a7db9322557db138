"""How kinds of nodes move axes: which of the result comes from which of what a node is given.

    view        [a, b, c] -> [a, d]        a stays, the others are put together or parted
    select      [a, b, c] -> [a, c]        b is gone
    sum         [a, b, c] -> [a, c]        b is added up

Rows may meet in an axis that is cut, reduced, joined or put together. A network asks of many nodes,
so what follows from sizes and arguments alone is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from torch.autograd.graph import Node

from leafgrad import _autograd


class Move(NamedTuple):
    """What a kind of node does to the axes of what it is given, the same to each.

    Attributes:
        touched: The axes that are cut, reduced, joined or put together, so that rows in one of
            them may meet.
        left: Of each axis of the result, the axis that it comes from, None for none.
    """

    touched: Sequence[int]
    left: Sequence[int | None]


# Of how many axes, one at least, what a node is given was counted to have, and of what its kind
# reads at the node. It may have more axes, as those in front were not counted: then the move is
# wrong, but takes none of these away. None where it does not show.
Follow = Callable[..., Move | None]


class Moves(NamedTuple):
    """How a kind moves axes: what it reads at a node, and what follows from that."""

    read: Callable[[Node], Any]
    follow: Follow

    def of(self, node: Node, ndim: int) -> Move | None:
        """Return the move of a node that is given so many axes."""
        given = self.read(node)
        try:
            return _followed(self.follow, ndim, given)
        except TypeError:  # a size that is no number yet has no hash
            return _followed.__wrapped__(self.follow, ndim, given)

    def left(self, node: Node, ndim: int, batch: int) -> int:
        """Return how many axes a node leaves, 0 where the first of them, the batch's, may not."""
        given = self.read(node)
        try:
            return _left(self.follow, ndim, batch, given)
        except TypeError:
            return _left.__wrapped__(self.follow, ndim, batch, given)


@lru_cache(maxsize=1024)
def _followed(follow: Follow, ndim: int, given: Any) -> Move | None:
    return follow(ndim, _autograd.signed(given))


@lru_cache(maxsize=1024)
def _left(follow: Follow, ndim: int, batch: int, given: Any) -> int:
    move = follow(ndim, _autograd.signed(given))
    if move is None or any(axis < batch for axis in move.touched):
        return 0
    return len(move.left) if [*move.left[:batch]] == [*range(batch)] else 0


def _reshaped(ndim: int, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Move | None:
    """Keep the first axes whose sizes stay, and put what follows them in others in its order."""
    before, after = shapes
    if len(before) != ndim:
        return None
    stay = 0
    while stay < min(ndim, len(after)) and before[stay] == after[stay]:
        stay += 1
    return Move(range(stay, ndim), [*range(stay), *[None] * (len(after) - stay)])


def _unsqueezed(ndim: int, dim: int) -> Move:
    """Put in an axis of size 1."""
    dim %= ndim + 1
    return Move((), [*range(dim), None, *range(dim, ndim)])


def _cut(ndim: int, dim: int) -> Move:
    """Take places of an axis, or join parts along it."""
    return Move((dim % ndim,), range(ndim))


def _selected(ndim: int, dim: int) -> Move:
    """Take one place of an axis, which is gone then."""
    dim %= ndim
    return Move((dim,), [*range(dim), *range(dim + 1, ndim)])


def _transposed(ndim: int, dims: tuple[int, int]) -> Move:
    """Exchange two axes."""
    left = [*range(ndim)]
    one, two = (dim % ndim for dim in dims)
    left[one], left[two] = left[two], left[one]
    return Move((), left)


def _summed(ndim: int, given: tuple[tuple[int, ...] | None, bool]) -> Move | None:
    """Add up along axes, which have size 1 then, or are gone; none that is named means all."""
    named, is_kept = given
    dims = {dim % ndim for dim in named or ()}
    if not named or len(dims) != len(named):
        return None
    return Move([*dims], [axis for axis in range(ndim) if is_kept or axis not in dims])


def _normalised(ndim: int, shape: tuple[int, ...]) -> Move:
    """Normalise along the last axes, which are those of weight and bias as well."""
    first = max(ndim - len(shape), 0)
    return Move(range(first, ndim), range(ndim))


RESHAPED = Moves(_autograd.shapes_around, _reshaped)
UNSQUEEZED = Moves(_autograd.reader_of_kept("dim"), _unsqueezed)
CUT = Moves(_autograd.reader_of_kept("dim"), _cut)
SELECTED = Moves(_autograd.reader_of_kept("dim"), _selected)
TRANSPOSED = Moves(_autograd.reader_of_kept("dim0", "dim1"), _transposed)
SUMMED = Moves(_autograd.reader_of_kept("dim", "keepdim"), _summed)
NORMALISED = Moves(_autograd.reader_of_kept("normalized_shape"), _normalised)
