"""Valid and invalid orders."""

from enum import IntEnum
from itertools import count
from time import process_time
from typing import Any

import numpy as np
import pytest
import torch

from leafgrad import higher_order_grad
from tests.derivative.refusals import words


class Two(IntEnum):
    TWO = 2


ONE_COLUMN = (4, 1), (4,)
TWO_COLUMNS = (4, 2), (4,)
POINT = (5,), ()
Shapes = tuple[tuple[int, ...], tuple[int, ...]]


def differentiate(order: Any, shapes: Shapes) -> Any:
    x = torch.ones(shapes[0], requires_grad=True)
    cubes = x**3
    outputs = cubes if len(shapes[1]) == x.dim() else cubes.sum(-1)
    return higher_order_grad(outputs, x, order)


# --- Types of orders


@pytest.mark.parametrize("two", [np.int64(2), np.uint8(2), torch.tensor(2), np.array(2), Two.TWO])
def test_order_can_be_any_integer_type(two: Any) -> None:
    assert differentiate(two, ONE_COLUMN).tolist() == [6.0] * 4
    assert differentiate((two, 0), TWO_COLUMNS).tolist() == [6.0] * 4
    (found,) = differentiate([(two, 0)], TWO_COLUMNS)
    assert found.tolist() == [6.0] * 4


@pytest.mark.parametrize(
    ("order", "shapes", "pattern"),
    [
        (1.5, ONE_COLUMN, words("order.type", name="order", value="1.5", type="float")),
        (True, ONE_COLUMN, words("order.type", value="True", type="bool")),
        (None, ONE_COLUMN, words("order.type", value="None")),
        ("2", ONE_COLUMN, words("order.type", value="'2'")),
        ([1, 2.0], ONE_COLUMN, words("order.type", name="order[1]", help="; write 2")),
        (np.array([2, 0]), TWO_COLUMNS, words("order.write-tuple", counts="2, 0")),
        (np.array([0.5]), ONE_COLUMN, words("order.type", type="ndarray")),
        (torch.tensor(True), ONE_COLUMN, words("order.type", type="Tensor")),
        (count(), ONE_COLUMN, words("order.type", type="count")),
        ([2, 0], TWO_COLUMNS, words("order.list", counts="2, 0", value="[2, 0]")),
        ([[1, 0], [2, 0]], TWO_COLUMNS, words("order.type", name="order[0]", value="[1, 0]")),
        (((2, 0), (0, 2)), TWO_COLUMNS, words("order.several", list="[(2, 0), (0, 2)]")),
        ((1, True), TWO_COLUMNS, words("order.entries", value="(1, True)")),
        ((1, 0.5), TWO_COLUMNS, words("order.entries", value="(1, 0.5)")),
    ],
)
def test_order_of_other_type_raises_type_error(order: object, shapes: Shapes, pattern: str) -> None:
    with pytest.raises(TypeError, match=pattern + "$"):
        differentiate(order, shapes)


ENDLESS = [
    pytest.param(
        10**6, ONE_COLUMN, words("order.too-many", value="(1000000,)", most=1000), id="a high order"
    ),
    pytest.param(10**5000, ONE_COLUMN, words("order.too-long", type="tuple"), id="a long number"),
    pytest.param(
        (10**6, 0),
        TWO_COLUMNS,
        words("order.too-many", value="(1000000, 0)"),
        id="in one of two columns",
    ),
    pytest.param((40, 40), TWO_COLUMNS, words("order.too-many", value="(40, 40)"), id="in both"),
    pytest.param(
        [p for i in range(600) for p in ((i, 0), (0, i))],
        TWO_COLUMNS,
        words("order.too-many-together"),
        id="many",
    ),
    pytest.param([*range(10**5)], ONE_COLUMN, words("order.too-many"), id="as many orders"),
]


@pytest.mark.parametrize(("order", "shapes", "which"), ENDLESS)
def test_endless_iterable_as_order_is_refused_quickly(
    order: object, shapes: Shapes, which: str
) -> None:
    start = process_time()
    with pytest.raises(ValueError, match=which) as caught:
        differentiate(order, shapes)
    assert len(str(caught.value)) < 400
    assert process_time() - start < 2


def test_order_limit_is_one_thousand() -> None:
    x = torch.ones(4, 1, requires_grad=True)
    assert higher_order_grad(x, x, 1000).tolist() == [[0.0]] * 4
    with pytest.raises(ValueError, match=words("order.too-many")):
        differentiate(1001, ONE_COLUMN)


@pytest.mark.parametrize(
    ("order", "shapes", "pattern"),
    [
        (-1, ONE_COLUMN, words("order.negative", value=-1)),
        ((1, -1), TWO_COLUMNS, words("order.negative-counts", value="(1, -1)")),
        ([], ONE_COLUMN, words("order.empty")),
        ((2,), TWO_COLUMNS, words("order.first-column", counts="2, 0")),
        ([(1, 0), (2, 0, 0)], TWO_COLUMNS, words("order.counts", name="order[1]", help="")),
        (2, TWO_COLUMNS, words("order.int", columns=2, value=2)),
        (2, TWO_COLUMNS, words("order.first-column", counts="2, 0")),
        (2, POINT, words("order.one-point", columns=5)),
    ],
)
def test_order_that_does_not_match_inputs_raises_value_error(
    order: object, shapes: Shapes, pattern: str
) -> None:
    with pytest.raises(ValueError, match=pattern + "$"):
        differentiate(order, shapes)
