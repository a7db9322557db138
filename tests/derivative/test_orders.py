"""What counts as an order."""

from enum import IntEnum
from itertools import count
from time import process_time
from typing import Any

import numpy as np
import pytest
import torch

from leafgrad import higher_order_grad


class Two(IntEnum):
    TWO = 2


# Shapes of inputs and of outputs.
ELEMENTS = (4, 2), (4, 2)
ONE_COLUMN = (4, 1), (4,)
TWO_COLUMNS = (4, 2), (4,)
POINT = (5,), ()
Shapes = tuple[tuple[int, ...], tuple[int, ...]]


def differentiate(order: Any, shapes: Shapes) -> Any:
    x = torch.ones(shapes[0], requires_grad=True)
    cubes = x**3
    outputs = cubes if len(shapes[1]) == x.dim() else cubes.sum(-1)
    return higher_order_grad(outputs, x, order)


# --- What counts as an order


@pytest.mark.parametrize("two", [np.int64(2), np.uint8(2), torch.tensor(2), np.array(2), Two.TWO])
def test_a_whole_number_of_any_kind_counts(two: Any) -> None:
    assert differentiate(two, ONE_COLUMN).tolist() == [6.0] * 4
    assert differentiate((two, 0), TWO_COLUMNS).tolist() == [6.0] * 4
    (found,) = differentiate([(two, 0)], TWO_COLUMNS)
    assert found.tolist() == [6.0] * 4


NOT_AN_ORDER = "order must be an int, a multi-index (a tuple of ints) or a list of these, not "


@pytest.mark.parametrize(
    ("order", "shapes", "message"),
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
def test_what_is_no_order_is_a_type_error(order: object, shapes: Shapes, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        differentiate(order, shapes)
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


@pytest.mark.parametrize(("order", "shapes", "which"), ENDLESS)
def test_an_order_without_end_is_refused_at_once(order: object, shapes: Shapes, which: str) -> None:
    start = process_time()
    with pytest.raises(ValueError, match="order must lead through 1000 derivatives") as caught:
        differentiate(order, shapes)
    assert which in str(caught.value)
    assert len(str(caught.value)) < 400
    assert process_time() - start < 2


def test_as_many_orders_as_a_pass_carries_are_taken() -> None:
    x = torch.ones(4, 1, requires_grad=True)
    assert higher_order_grad(x, x, 1000).tolist() == [[0.0]] * 4
    with pytest.raises(ValueError, match="order must lead through"):
        differentiate(1001, ONE_COLUMN)


@pytest.mark.parametrize(
    ("order", "shapes", "message"),
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
    ],
)
def test_an_order_that_does_not_fit_is_a_value_error(
    order: object, shapes: Shapes, message: str
) -> None:
    with pytest.raises(ValueError, match="order") as caught:
        differentiate(order, shapes)
    assert str(caught.value) == message
