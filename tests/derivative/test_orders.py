"""Orders: what counts as one, and which derivatives are differentiated on the way to others."""

from enum import IntEnum
from itertools import count, product
from time import process_time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leafgrad._derivative.arguments import MOST_DERIVATIVES, Axes, MultiIndex, parse_orders
from leafgrad._derivative.reverse import plan, successor


class Two(IntEnum):
    TWO = 2


ELEMENTS = Axes(batch=torch.Size([4, 2]), row=torch.Size(), is_elementwise=True)
ONE_COLUMN = Axes(batch=torch.Size([4]), row=torch.Size([1]), is_elementwise=False)
TWO_COLUMNS = Axes(batch=torch.Size([4]), row=torch.Size([2]), is_elementwise=False)
POINT = Axes(batch=torch.Size([]), row=torch.Size([5]), is_elementwise=False)
NO_COLUMN = Axes(batch=torch.Size([4]), row=torch.Size([0]), is_elementwise=False)

# --- What counts as an order


@pytest.mark.parametrize(
    ("order", "axes", "multi_indices"),
    [
        pytest.param(3, ELEMENTS, [(3,)], id="an int, elementwise"),
        pytest.param(0, ONE_COLUMN, [(0,)], id="zero"),
        pytest.param((2,), ONE_COLUMN, [(2,)], id="a multi-index of one column"),
        pytest.param((2, 0), TWO_COLUMNS, [(2, 0)], id="a multi-index"),
        pytest.param((), NO_COLUMN, [()], id="the multi-index of no column"),
        pytest.param([(2, 0), (1, 1)], TWO_COLUMNS, [(2, 0), (1, 1)], id="a list"),
        pytest.param([1, 2, 1], ELEMENTS, [(1,), (2,), (1,)], id="a list of ints"),
        pytest.param([1, (2,)], ONE_COLUMN, [(1,), (2,)], id="a mixed list"),
    ],
)
def test_an_order_becomes_multi_indices(
    order: object, axes: Axes, multi_indices: list[MultiIndex]
) -> None:
    assert parse_orders(order, axes) == multi_indices


@pytest.mark.parametrize("two", [np.int64(2), np.uint8(2), torch.tensor(2), np.array(2), Two.TWO])
def test_a_whole_number_of_any_kind_counts(two: object) -> None:
    for order, axes in ((two, ONE_COLUMN), ((two, 0), TWO_COLUMNS), ([(two, 0)], TWO_COLUMNS)):
        (found,) = parse_orders(order, axes)
        assert found == (2, 0)[: axes.columns]
        assert type(found[0]) in (int, type(two))


NOT_AN_ORDER = "order must be an int, a multi-index (a tuple of ints) or a list of these, not "


@pytest.mark.parametrize(
    ("order", "axes", "message"),
    [
        (1.5, ONE_COLUMN, NOT_AN_ORDER + "1.5 of type float"),
        (True, ONE_COLUMN, NOT_AN_ORDER + "True of type bool"),
        (None, ONE_COLUMN, NOT_AN_ORDER + "None of type NoneType"),
        ("2", ONE_COLUMN, NOT_AN_ORDER + "'2' of type str"),
        (
            [1, 2.0],
            ONE_COLUMN,
            NOT_AN_ORDER.replace("order", "order[1]", 1) + "2.0 of type float; write 2",
        ),
        (
            np.array([2, 0]),
            TWO_COLUMNS,
            NOT_AN_ORDER + "array([2, 0]) of type ndarray; a multi-index is a tuple, as (2, 0)",
        ),
        (np.array([0.5]), ONE_COLUMN, NOT_AN_ORDER + "array([0.5]) of type ndarray"),
        (torch.tensor(True), ONE_COLUMN, NOT_AN_ORDER + "tensor(True) of type Tensor"),
        (count(), ONE_COLUMN, NOT_AN_ORDER + "count(0) of type count"),
        (
            [2, 0],
            TWO_COLUMNS,
            (
                "order must be a tuple where it is one multi-index, as (2, 0), not the list "
                "[2, 0]: a list asks for several orders"
            ),
        ),
        (
            [[1, 0], [2, 0]],
            TWO_COLUMNS,
            NOT_AN_ORDER.replace("order", "order[0]", 1)
            + "[1, 0] of type list; a multi-index is a tuple, as (1, 0)",
        ),
        (
            ((2, 0), (0, 2)),
            TWO_COLUMNS,
            (
                "order must hold an int for each column of inputs, not ((2, 0), (0, 2)); several "
                "orders are a list: [(2, 0), (0, 2)]"
            ),
        ),
        ((1, True), TWO_COLUMNS, "order must hold an int for each column of inputs, not (1, True)"),
        ((1, 0.5), TWO_COLUMNS, "order must hold an int for each column of inputs, not (1, 0.5)"),
    ],
)
def test_what_is_no_order_is_a_type_error(order: object, axes: Axes, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        parse_orders(order, axes)
    assert str(caught.value) == message


INT_FOR_COLUMNS = (
    "order must be a multi-index, with a count for each of the {} columns of inputs, not the int "
    "2, which does not say which column is meant"
)
COLUMNS_FOR_POINTS = (
    "; inputs of shape (5,) is one point, so for 5 points compute outputs from inputs of shape "
    "(5, 1)"
)
ENDLESS = [
    pytest.param(10**6, ONE_COLUMN, "(1000000,) needs more", id="a high order"),
    pytest.param(10**5000, ONE_COLUMN, "one of type tuple that is too long", id="a long number"),
    pytest.param((10**6, 0), TWO_COLUMNS, "(1000000, 0) needs more", id="in one of two columns"),
    pytest.param((40, 40), TWO_COLUMNS, "(40, 40) needs more", id="in both"),
    pytest.param(
        [p for i in range(600) for p in ((i, 0), (0, i))], TWO_COLUMNS, "and others", id="many"
    ),
    pytest.param([*range(10**5)], ONE_COLUMN, "needs more", id="as many orders"),
]


@pytest.mark.parametrize(("order", "axes", "which"), ENDLESS)
def test_an_order_without_end_is_refused_at_once(order: object, axes: Axes, which: str) -> None:
    start = process_time()
    with pytest.raises(ValueError, match="order must lead through 1000 derivatives") as caught:
        parse_orders(order, axes)
    assert which in str(caught.value)
    assert len(str(caught.value)) < 400
    assert process_time() - start < 2


def test_as_many_orders_as_a_pass_carries_are_taken() -> None:
    assert parse_orders(MOST_DERIVATIVES, ONE_COLUMN) == [(MOST_DERIVATIVES,)]
    with pytest.raises(ValueError, match="order must lead through"):
        parse_orders(MOST_DERIVATIVES + 1, ONE_COLUMN)
    assert len(parse_orders([2] * 10**5, ONE_COLUMN)) == 10**5


MULTI_INDEX_FOR_ELEMENTS = "order must be an int where inputs has no columns, not (2, 0)"


@pytest.mark.parametrize(
    ("order", "axes", "message"),
    [
        (-1, ONE_COLUMN, "order must be 0 or more, not -1; 1 is the first derivative"),
        ((1, -1), TWO_COLUMNS, "order must hold counts of 0 or more, not (1, -1)"),
        (
            [],
            ONE_COLUMN,
            (
                "order must ask for at least one derivative, not for none as [] does; 0 is outputs "
                "itself"
            ),
        ),
        (
            (2,),
            TWO_COLUMNS,
            (
                "order must hold a count for each of the 2 columns of inputs, not (2,); in column "
                "0 alone it is (2, 0)"
            ),
        ),
        (
            [(1, 0), (2, 0, 0)],
            TWO_COLUMNS,
            "order[1] must hold a count for each of the 2 columns of inputs, not (2, 0, 0)",
        ),
        (
            2,
            TWO_COLUMNS,
            INT_FOR_COLUMNS.format(2) + "; in column 0 alone it is (2, 0)",
        ),
        (
            2,
            POINT,
            INT_FOR_COLUMNS.format(5) + COLUMNS_FOR_POINTS,
        ),
        (
            (2, 0),
            ELEMENTS,
            MULTI_INDEX_FOR_ELEMENTS,
        ),
    ],
)
def test_an_order_that_does_not_fit_is_a_value_error(
    order: object, axes: Axes, message: str
) -> None:
    with pytest.raises(ValueError, match="order") as caught:
        parse_orders(order, axes)
    assert str(caught.value) == message


# --- Which derivatives are differentiated


def test_u_xx_and_u_xxy_share_u_xx() -> None:
    assert plan([(2, 0), (2, 1)]) == [(0, 0), (1, 0), (2, 0)]


def test_one_pass_gives_all_columns() -> None:
    assert plan([(1, 0, 0), (0, 1, 0), (0, 0, 1)]) == [(0, 0, 0)]


def test_a_derivative_starts_from_what_the_others_leave_there() -> None:
    assert plan([(1, 1), (0, 2)]) == plan([(0, 2), (1, 1)]) == [(0, 0), (0, 1)]


def test_order_zero_takes_no_pass() -> None:
    assert plan([(0, 0)]) == []


MULTI_INDICES = st.tuples(*[st.integers(0, 3)] * 3)


@given(st.lists(MULTI_INDICES, min_size=1, max_size=5))
def test_each_pass_starts_from_what_the_passes_before_gave(orders: list[MultiIndex]) -> None:
    known: set[MultiIndex] = {(0, 0, 0)}
    for index in plan(orders):
        assert index in known
        known.update(successor(index, column) for column in range(3))
    assert known.issuperset(orders)


@given(st.lists(MULTI_INDICES, min_size=1, max_size=5))
def test_no_pass_is_taken_twice_nor_beyond_what_is_asked(orders: list[MultiIndex]) -> None:
    steps = plan(orders)
    below = {
        lower
        for index in orders
        for lower in product(*(range(count + 1) for count in index))
        if lower != index
    }
    assert len(set(steps)) == len(steps)
    assert below.issuperset(steps)
