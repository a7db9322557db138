"""Orders of differentiation: how they are given, and which derivative leads to which."""

from collections.abc import Collection, Iterator
from typing import TypeGuard

from leafgrad._axes import Axes

MultiIndex = tuple[int, ...]


def parse_orders(order: object, axes: Axes) -> list[MultiIndex]:
    """Turn what was given as `order` into multi-indices, or raise where it cannot be one."""
    if not isinstance(order, list):
        return [_parse(order, axes, "order")]
    if not order:
        raise ValueError("order must ask for at least one derivative, not for none as [] does")
    return [_parse(entry, axes, f"order[{place}]") for place, entry in enumerate(order)]


def is_by_column(order: object) -> bool:
    """Say whether an order, or one in a list of them, counts the columns one by one."""
    if isinstance(order, list):
        return any(isinstance(entry, tuple) for entry in order)
    return isinstance(order, tuple)


def _parse(order: object, axes: Axes, name: str) -> MultiIndex:
    if isinstance(order, tuple):
        return _parse_multi_index(order, axes, name)
    if not _is_count(order):
        raise TypeError(
            f"{name} must be an int, a multi-index (a tuple of ints) or a list of these, "
            f"not {order!r} of type {type(order).__name__}"
        )
    if order < 0:
        raise ValueError(f"{name} must be 0 or more, not {order}")
    if axes.columns != 1:
        raise ValueError(_int_for_columns(order, axes, name))
    return (order,)


def _parse_multi_index(order: tuple[object, ...], axes: Axes, name: str) -> MultiIndex:
    counts = tuple(filter(_is_count, order))
    if len(counts) != len(order):
        raise TypeError(f"{name} must hold an int for each column of inputs, not {order!r}")
    if min(counts, default=0) < 0:
        raise ValueError(f"{name} must hold counts of 0 or more, not {order!r}")
    if axes.is_elementwise:
        raise ValueError(f"{name} must be an int where inputs has no columns, not {order!r}")
    if len(counts) != axes.columns:
        raise ValueError(
            f"{name} must hold a count for each of the {axes.columns} columns of inputs, "
            f"not {order!r}"
        )
    return counts


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _int_for_columns(order: int, axes: Axes, name: str) -> str:
    """Say why an int is not enough, and what to do where columns were meant as points."""
    message = (
        f"{name} must be a multi-index, with a count for each of the {axes.columns} columns of "
        f"inputs, not the int {order}, which does not say which column is meant"
    )
    if axes.batch:
        return message
    return (
        f"{message}; inputs of shape ({axes.columns},) is one point, so for {axes.columns} points "
        f"compute outputs from inputs of shape ({axes.columns}, 1)"
    )


def successor(index: MultiIndex, column: int) -> MultiIndex:
    """Count one differentiation more in a column."""
    return (*index[:column], index[column] + 1, *index[column + 1 :])


def plan(orders: Collection[MultiIndex]) -> list[MultiIndex]:
    """Choose the derivatives to differentiate on the way to all `orders`, lower ones first.

    One reverse pass gives all columns at once, so u_x and u_y come together, and u_xx and u_xxy
    share u_xx. The later an order, the more is there to start from.
    """
    known = {tuple(0 for _ in index) for index in orders}
    chosen: list[MultiIndex] = []
    for order in sorted(orders):
        for index in reversed(list(_missing_on_the_way(order, known))):
            chosen.append(index)
            known.update(successor(index, column) for column in range(len(index)))
    return chosen


def _missing_on_the_way(index: MultiIndex, known: Collection[MultiIndex]) -> Iterator[MultiIndex]:
    """Step down from `index` to what is known, by way of what is still to be differentiated."""
    while index not in known:
        below = list(_predecessors(index))
        index = next((lower for lower in below if lower in known), below[0])
        yield index


def _predecessors(index: MultiIndex) -> Iterator[MultiIndex]:
    """Count one differentiation less in each column that has one, the last column first."""
    for column in reversed(range(len(index))):
        if index[column]:
            yield (*index[:column], index[column] - 1, *index[column + 1 :])
