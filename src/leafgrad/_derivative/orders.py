"""Orders of differentiation: how they are given, and which derivative leads to which."""

import math
import operator
import reprlib
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import product

from leafgrad._derivative.axes import Axes

MultiIndex = tuple[int, ...]

# A pass carries as many coefficients, and multiplies each two of them: to plan which of a thousand
# go where takes half a minute, and eight times as long for twice as many. Beyond single columns, as
# many second derivatives as forty columns have are as many.
MOST_DERIVATIVES = 1000


def parse_orders(order: object, axes: Axes) -> list[MultiIndex]:
    """Turn what was given as `order` into multi-indices, or raise where it cannot be one."""
    if not isinstance(order, list):
        orders = [_parse(order, axes, "order")]
    elif not order:
        raise ValueError(
            "order must ask for at least one derivative, not for none as [] does; 0 is outputs "
            "itself"
        )
    elif 1 < axes.columns == len(order) and None not in (counts := list(map(as_count, order))):
        raise TypeError(
            f"order must be a tuple where it is one multi-index, as ({_listed(counts)}), not the "
            f"list {shown(order)}: a list asks for several orders"
        )
    else:
        orders = [_parse(entry, axes, f"order[{place}]") for place, entry in enumerate(order)]
    _check_count(frozenset(orders))
    return orders


def is_by_column(order: object) -> bool:
    """Say whether an order, or one in a list of them, counts the columns one by one."""
    if isinstance(order, list):
        return any(isinstance(entry, tuple) for entry in order)
    return isinstance(order, tuple)


def as_count(value: object) -> int | None:
    """Give a whole number, also one of NumPy or PyTorch, as an int; None for anything else."""
    if isinstance(value, int):
        return None if isinstance(value, bool) else value
    try:
        number = value.item() if hasattr(value, "item") else operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        return None
    return number if type(number) is int else None


def shown(value: object) -> str:
    """Show what was given, in short where it is long."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # a number with too many digits for Python to write
        return f"one of type {type(value).__name__} that is too long to be shown"


_SHORT = reprlib.Repr()
_SHORT.maxtuple = _SHORT.maxlist = 10
_SHORT.maxother = _SHORT.maxstring = 80


def _parse(order: object, axes: Axes, name: str) -> MultiIndex:
    if isinstance(order, tuple):
        return _parse_multi_index(order, axes, name)
    count = as_count(order)
    if count is None:
        raise TypeError(
            f"{name} must be an int, a multi-index (a tuple of ints) or a list of these, "
            f"not {shown(order)} of type {type(order).__name__}{_instead(order)}"
        )
    if count < 0:
        raise ValueError(f"{name} must be 0 or more, not {count}; 1 is the first derivative")
    if axes.columns != 1:
        raise ValueError(_int_for_columns(count, axes, name))
    return (count,)


def _instead(order: object) -> str:
    """Say how what is nearly an order is written."""
    if isinstance(order, float) and order.is_integer():
        return f"; write {int(order)}"
    numbers = order.tolist() if hasattr(order, "tolist") else order
    if isinstance(numbers, list) and None not in (counts := list(map(as_count, numbers))):
        return f"; a multi-index is a tuple, as ({_listed(counts)})"
    return ""


def _parse_multi_index(order: tuple[object, ...], axes: Axes, name: str) -> MultiIndex:
    counts = tuple([count for count in map(as_count, order) if count is not None])
    if len(counts) != len(order):
        if all(isinstance(entry, tuple) for entry in order):
            raise TypeError(
                f"{name} must hold an int for each column of inputs, not {shown(order)}; several "
                f"orders are a list: {shown([*order])}"
            )
        raise TypeError(f"{name} must hold an int for each column of inputs, not {shown(order)}")
    if min(counts, default=0) < 0:
        raise ValueError(f"{name} must hold counts of 0 or more, not {shown(order)}")
    if axes.is_elementwise:
        raise ValueError(f"{name} must be an int where inputs has no columns, not {shown(order)}")
    if len(counts) != axes.columns:
        each = "one count, for the only column"
        if axes.columns != 1:
            each = f"a count for each of the {axes.columns} columns"
        raise ValueError(
            f"{name} must hold {each} of inputs, not {shown(order)}"
            f"{_in_the_first_column(counts, axes)}"
        )
    return counts


def _in_the_first_column(counts: MultiIndex, axes: Axes) -> str:
    """Show the derivative in column 0 alone, where one count was given and may be meant so."""
    if len(counts) != 1 or not axes.columns:
        return ""
    return f"; in column 0 alone it is ({_listed([*counts, *[0] * (axes.columns - 1)])})"


def _listed(counts: Collection[int | None]) -> str:
    """List counts as in a tuple of two or more."""
    return shown(tuple(counts))[1:-1]


def _int_for_columns(order: int, axes: Axes, name: str) -> str:
    """Say why an int is not enough, and what to do where columns were meant as points."""
    message = (
        f"{name} must be a multi-index, with a count for each of the {axes.columns} columns of "
        f"inputs, not the int {shown(order)}, which does not say which column is meant"
    )
    if axes.batch:
        return f"{message}{_in_the_first_column((order,), axes)}"
    return (
        f"{message}; inputs of shape ({axes.columns},) is one point, so for {axes.columns} points "
        f"compute outputs from inputs of shape ({axes.columns}, 1)"
    )


@lru_cache(maxsize=256)
def _check_count(orders: frozenset[MultiIndex]) -> None:
    """Raise where there are so many derivatives on the way to all orders that there is no end."""
    lower: set[MultiIndex] = set()
    for order in orders:
        count = math.prod(counted + 1 for counted in order)
        if count <= MOST_DERIVATIVES + 1:
            lower.update(product(*[range(counted + 1) for counted in order]))
        if max(count, len(lower)) > MOST_DERIVATIVES + 1:
            raise ValueError(
                f"order must lead through {MOST_DERIVATIVES} derivatives at most, which one pass "
                f"can carry, the lower ones on the way counted as well, but {shown(order)} "
                f"{'needs more' if count > MOST_DERIVATIVES + 1 else 'and others need more'}: ask "
                "for lower orders, or for fewer of them in one call"
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
