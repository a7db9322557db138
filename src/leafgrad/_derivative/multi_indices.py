"""Multi-indices of orders one and two, and the parsing of `dims` and `directions`."""

from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement, islice
from typing import cast

from torch import Tensor

from leafgrad._derivative.arguments import Axes, MultiIndex, as_count, check_differentiable, shorten
from leafgrad._messages import message


def check_columns(axes: Axes) -> None:
    """Raise an error if a row of inputs has no columns or if the axes are elementwise."""
    if axes.is_elementwise:
        raise ValueError(message("derivative.no-axes"))
    if not axes.columns:
        raise ValueError(message("derivative.no-columns"))


def index_of(axes: Axes, *columns: int) -> MultiIndex:
    """Return the multi-index that differentiates once for each entry of `columns`.

    `axes` defines its length: the number of columns of the inputs.
    """
    index = [0] * axes.columns
    for column in columns:
        index[column] += 1
    return tuple(index)


def pairs_of(columns: Iterable[int]) -> list[tuple[int, int]]:
    """Return all pairs (i, j) from `columns`, with i not after j. A pair may repeat a column."""
    return [*combinations_with_replacement(columns, 2)]


def second_order_weights(
    along: Sequence[int] | Tensor, axes: Axes, ndim: int
) -> dict[MultiIndex, Tensor | int]:
    """Return a dict from multi-index to the weight of this second derivative in a Laplacian.

    `along` contains the columns or the directions to sum over. For directions ``s_n`` and the
    Hessian H, the sum is ``sum_n s_n^T H s_n``. It equals the sum of ``C_ij H_ij`` for
    ``C = sum_n s_n s_n^T``. Directions are ``[n, *batch, *columns]``, and any axis of the batch may
    have size 1. The weights broadcast to the outputs, which have `ndim` axes.
    """
    if not isinstance(along, Tensor):
        return {index_of(axes, column, column): 1 for column in along}
    rows = len(axes.batch)
    s = along.flatten(1 + rows).reshape(*along.shape[: 1 + rows], *[1] * (ndim - rows), -1)
    return {
        index_of(axes, i, j): (s[..., i] * s[..., j]).sum(0) * (1 if i == j else 2)
        for i, j in pairs_of(range(axes.columns))
    }


def read_directions(directions: Tensor, inputs: Tensor, axes: Axes) -> Tensor:
    """Check `directions` and return them as ``[n, *batch, *columns]``.

    If all rows share them, the axes of the batch have size 1.
    """
    check_differentiable("directions", directions)
    batch, row, _ = axes
    if directions.dtype != inputs.dtype or directions.device != inputs.device:
        types = {"dtype": inputs.dtype, "device": inputs.device, "other": directions.dtype}
        types["other_device"] = directions.device
        raise TypeError(message("derivative.laplacian.directions-type", **types))
    if directions.shape[1:] == row and len(directions):
        return directions.reshape(-1, *[1] * len(batch), *row)
    if directions.shape[1:] == inputs.shape and len(directions):
        return directions
    sizes = {"row": _list_sizes(row), "inputs": _list_sizes(inputs.shape)}
    shape = tuple(directions.shape)
    raise ValueError(message("derivative.laplacian.directions-shape", shape=shape, **sizes))


def _list_sizes(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes))


def read_columns(dims: Sequence[int] | None, axes: Axes) -> list[int]:
    """Return the columns in `dims`, all if it is None. Raise an error if they are invalid.

    `axes` defines how many columns there are.
    """
    columns = list(range(axes.columns)) if dims is None else _ints(dims, at_most=axes.columns)
    if not columns:
        raise ValueError(message("derivative.laplacian.dims-empty", value=shorten(dims)))
    count = axes.columns
    if not set(columns) <= set(range(count)) or len(set(columns)) < len(columns):
        words = {"last": count - 1, "value": shorten(dims)}
        if min(columns) >= 0 or not all(-count <= column < count for column in columns):
            raise ValueError(message("derivative.laplacian.dims-range", **words))
        counted = [column % count for column in columns]
        raise ValueError(message("derivative.laplacian.dims-from-end", counted=counted, **words))
    return columns


def _ints(dims: object, at_most: int) -> list[int]:
    """Convert the entries of `dims` to ints, or raise an error if one is not an integer.

    At most `at_most` + 1 entries are read. This is enough to notice that there are too many.
    """
    if isinstance(dims, Iterable) and not (isinstance(dims, Tensor) and not dims.dim()):
        counts = [as_count(dim) for dim in islice(dims, at_most + 1)]
        if None not in counts:
            return cast("list[int]", counts)
    count = as_count(dims)
    key = "derivative.laplacian.dims-type" if count is None else "derivative.laplacian.dims-int"
    raise TypeError(message(key, value=shorten(dims), count=count))
