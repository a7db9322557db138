"""Activations with known derivatives are right in any layer, up to any order."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from leafgrad import higher_order_grad
from tests.derivative.taylor.oracle import (
    assert_same,
    assert_same_recorded_or_not,
    assert_same_thrice,
    mixed,
    rows,
)

METHODS: tuple[Any, ...] = ("taylor", "reverse")


def test_derivative_of_product_with_linear_factor_can_be_differentiated() -> None:
    x = rows(3, 1)
    for outputs in (x * x.sin(), x.sin() * x):
        for orders in ([1], [1, 2, 3]):
            ours, theirs = (higher_order_grad(outputs, x, orders, method=m) for m in METHODS)
            assert_same_thrice(ours, theirs, [x])


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sin": torch.sin,
    "cos": torch.cos,
    "SiLU": functional.silu,
    "Mish": functional.mish,
    "GELU": functional.gelu,
    "Softplus": functional.softplus,
    "Softplus, steep": partial(functional.softplus, beta=3, threshold=2),
    "erf": torch.erf,
    "asin": lambda x: torch.asin(torch.sin(x) / 1.5),
    "acos": lambda x: torch.acos(torch.sin(x) / 1.5),
    "square": torch.square,
    "cube": lambda x: x**3,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "LogSigmoid": functional.logsigmoid,
    "ELU": functional.elu,
    "SELU": functional.selu,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize(
    "orders",
    [
        [(1, 0), (2, 0)],
        [(1, 1)],
        [(3, 0)],
        [(2, 2)],
        pytest.param([(0, 5)], marks=pytest.mark.sweep),
        pytest.param([(6, 0)], marks=pytest.mark.sweep),
    ],
    ids=str,
)
def test_layers_with_activation_match_nested_reverse(
    name: str, orders: list[tuple[int, int]]
) -> None:
    activation = ACTIVATIONS[name]
    x, first, second = rows(5, 2), rows(2, 4), rows(4, 3)
    outputs = activation(activation(x @ (first - 1)) @ (second - 1) * 2)
    ours = [*map(mixed, higher_order_grad(outputs, x, orders, method="taylor"))]
    theirs = higher_order_grad(mixed(outputs), x, orders, method="reverse")
    sources = [x, first, second]
    if sum(map(max, orders)) < 4:
        assert_same_recorded_or_not(ours, theirs, sources)
    found = higher_order_grad(outputs, x, orders, method="taylor", create_graph=False)
    assert_same([*map(mixed, found)], theirs)


@pytest.mark.parametrize("name", ["SiLU", "GELU", "Softplus", "ELU"])
def test_activation_far_from_zero_has_exact_slopes_and_gradients(name: str) -> None:
    x = torch.tensor([[-1e30], [-900.0], [900.0], [1e30]], dtype=torch.float64, requires_grad=True)
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    slope, bend = higher_order_grad(ACTIVATIONS[name](x * weight), x, [1, 2], method="taylor")
    assert slope.tolist() == [[0], [0], [1], [1]]
    assert bend.tolist() == [[0], [0], [0], [0]]
    found = torch.autograd.grad(slope.sum() + bend.sum(), [x, weight])
    assert found[0].tolist() == [[0], [0], [0], [0]]
    assert found[1].item() == 2


@pytest.mark.parametrize("name", sorted({*ACTIVATIONS} - {"square", "cube", "asin", "acos"}))
def test_derivatives_at_nan_are_nan(name: str) -> None:
    x = torch.full((1, 1), math.nan, dtype=torch.float64, requires_grad=True)
    for derivative in higher_order_grad(ACTIVATIONS[name](x), x, [1, 2, 3], method="taylor"):
        assert derivative.isnan().all()
