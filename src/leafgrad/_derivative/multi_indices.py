"""Multi-indices of first and second order, column by column."""

from collections.abc import Sequence
from itertools import combinations_with_replacement

from torch import Tensor

from leafgrad._derivative.arguments import Axes, MultiIndex
from leafgrad._messages import message


def check_columns(axes: Axes) -> None:
    """Raise where a row of inputs has no columns to differentiate in."""
    if axes.is_elementwise:
        raise ValueError(message("derivative.no-axes"))
    if not axes.columns:
        raise ValueError(message("derivative.no-columns"))


def index_of(axes: Axes, *columns: int) -> MultiIndex:
    """Return the multi-index that counts each of these columns as often as it is named."""
    index = [0] * axes.columns
    for column in columns:
        index[column] += 1
    return tuple(index)


def pairs_of(axes: Axes) -> list[tuple[int, int]]:
    """Return all pairs of columns, the lower one first."""
    return [*combinations_with_replacement(range(axes.columns), 2)]


def second_order_weights(
    along: Sequence[int] | Tensor, axes: Axes, ndim: int
) -> dict[MultiIndex, Tensor | int]:
    """Return how often each second derivative counts in a sum along columns or directions.

    Along directions ``s_n`` it is ``sum_n s_n^T H s_n``, which is the sum of ``C_ij H_ij`` for
    ``C = sum_n s_n s_n^T``. They are ``[n, *batch, *columns]``, where any axis of the batch may
    have size 1; the weights broadcast to outputs, which have `ndim` axes.
    """
    if not isinstance(along, Tensor):
        return {index_of(axes, column, column): 1 for column in along}
    rows = len(axes.batch)
    s = along.flatten(1 + rows).reshape(*along.shape[: 1 + rows], *[1] * (ndim - rows), -1)
    return {
        index_of(axes, i, j): (s[..., i] * s[..., j]).sum(0) * (1 if i == j else 2)
        for i, j in pairs_of(axes)
    }
