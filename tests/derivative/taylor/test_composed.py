"""Activations whose derivatives are known are right wherever they are taken, up to any order."""

import math
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from leafgrad import higher_order_grad, laplacian
from leafgrad._derivative.taylor.algebra import closure, monomials
from leafgrad._derivative.taylor.kernels import derivatives
from leafgrad._derivative.taylor.kernels.composed import MOST, Composed, Derivatives
from leafgrad._derivative.taylor.kernels.plans import recurrence
from tests.derivative.taylor.oracle import (
    assert_same,
    assert_same_recorded_or_not,
    assert_same_thrice,
    mixed,
    rows,
)

METHODS: tuple[Any, ...] = ("taylor", "reverse")


def logistic(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


# The derivatives of each, the function itself, and the largest size of any of them.
FUNCTIONS: dict[str, tuple[Derivatives, Callable[[Any], Any]]] = {
    "sin": (derivatives.of_sin, mpmath.sin),
    "cos": (derivatives.of_cos, mpmath.cos),
    "softplus": (
        partial(derivatives.of_softplus, threshold=math.inf),
        lambda x: mpmath.log(1 + mpmath.exp(x)),
    ),
    "SiLU": (derivatives.of_silu, lambda x: x * logistic(x)),
    "Mish": (derivatives.of_mish, lambda x: x * mpmath.tanh(mpmath.log(1 + mpmath.exp(x)))),
    "GELU": (derivatives.of_gelu, lambda x: x * mpmath.ncdf(x)),
    "erf": (derivatives.of_erf, mpmath.erf),
    "LogSigmoid": (derivatives.of_log_sigmoid, lambda x: -mpmath.log(1 + mpmath.exp(-x))),
    "ELU": (
        partial(derivatives.of_elu, slope=1.5, depth=0.75),
        lambda x: 1.5 * x if x > 0 else 0.75 * (mpmath.exp(x) - 1),
    ),
}
LARGEST = 2.0  # of any derivative up to the fifth, or nearly


def values(name: str, x: float) -> list[float]:
    """Give the derivatives from the first to one above the highest order of a sum."""
    point = torch.tensor([x], dtype=torch.float64)
    found = [*islice(FUNCTIONS[name][0](point), MOST + 1)]
    assert len(found) == MOST + 1
    return [tensor.item() * factor for tensor, factor in found]


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=60, deadline=None)
@given(x=st.one_of(st.floats(-6, 6), st.floats(-60, 60)).filter(lambda x: abs(x) > 1e-3))
@pytest.mark.sweep
def test_derivatives_are_exact_beside_thirty_digits(name: str, x: float) -> None:
    with mpmath.workdps(30):
        _, *exact = mpmath.diffs(FUNCTIONS[name][1], mpmath.mpf(x), MOST + 1)
    for ours, theirs in zip(values(name, x), exact, strict=True):
        assert abs(ours - theirs) <= 1e-14 * LARGEST


def test_where_no_square_counts_the_slope_is_all() -> None:
    mixed_alone = monomials(closure([(1, 1)]))  # whose coefficients are those of x, y and x y
    sine = Composed(recurrence(mixed_alone, (0,)), derivatives.of_sin)
    value, argument = torch.tensor([0.5, 1.0]), torch.tensor([[2.0, -3.0]])
    with torch.no_grad():
        torch.testing.assert_close(sine.solve(value, argument), value.cos() * argument)


@pytest.mark.parametrize("x", [0.0, 1e-8, 0.1, -0.5, 0.9, -0.99999])
def test_derivatives_of_the_arc_sine_are_exact_up_to_its_ends(x: float) -> None:
    point = torch.tensor([x], dtype=torch.float64)
    ours = [tensor.item() * factor for tensor, factor in derivatives.of_asin(point)]
    assert len(ours) == MOST + 1
    with mpmath.workdps(40):
        _, *exact = mpmath.diffs(mpmath.asin, mpmath.mpf(x), MOST + 1)
        for one, other in zip(ours, exact, strict=True):
            assert abs(one - other) <= 1e-15 * abs(other) + 1e-30


@pytest.mark.parametrize("name", ["softplus", "SiLU", "Mish", "GELU", "ELU"])
@pytest.mark.parametrize("x", [1e3, 1e30, 1e300, math.inf])
def test_far_out_an_activation_is_a_line_or_nothing(name: str, x: float) -> None:
    slope = 1.5 if name == "ELU" else 1.0
    assert values(name, x) == [slope, 0, 0, 0, 0]
    assert values(name, -x) == [0, 0, 0, 0, 0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_not_a_number_stays_so(name: str) -> None:
    assert all(map(math.isnan, values(name, math.nan)))


def test_at_its_kink_elu_has_the_slope_from_the_left_and_no_bend() -> None:
    assert values("ELU", 0.0) == [0.75, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "function",
    [
        *(derivatives.of_asin, derivatives.of_acos),
        *(derivatives.of_silu, derivatives.of_mish, derivatives.of_log_sigmoid),
    ],
)
def test_as_many_as_are_needed_are_there(function: Derivatives) -> None:
    assert len([*function(torch.zeros(1))]) >= MOST + 1


def test_a_product_whose_factors_carry_no_graph_above_order_0_is_differentiated_on() -> None:
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
    "orders", [[(1, 0), (2, 0)], [(1, 1)], [(3, 0)], [(2, 2)], [(0, 5)], [(6, 0)]], ids=str
)
def test_layers_of_an_activation_equal_nested_reverse(
    name: str, orders: list[tuple[int, int]]
) -> None:
    activation = ACTIVATIONS[name]
    x, first, second = rows(5, 2), rows(2, 4), rows(4, 3)
    outputs = activation(activation(x @ (first - 1)) @ (second - 1) * 2)
    ours = [*map(mixed, higher_order_grad(outputs, x, orders, method="taylor"))]
    theirs = higher_order_grad(mixed(outputs), x, orders, method="reverse")
    sources = [x, first, second]
    if sum(map(max, orders)) < MOST:
        assert_same_recorded_or_not(ours, theirs, sources)
    found = higher_order_grad(outputs, x, orders, method="taylor", create_graph=False)
    assert_same([*map(mixed, found)], theirs)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.sweep
def test_laplacians_of_an_activation_equal_nested_reverse(name: str) -> None:
    activation = ACTIVATIONS[name]
    x, first, second = rows(5, 3), rows(3, 4), rows(4, 2)
    outputs = activation(activation(x @ (first - 1)) @ (second - 1))
    ours, theirs = (laplacian(outputs, x, method=method) for method in METHODS)
    assert_same_thrice([ours], [theirs], [x, first, second])


@pytest.mark.sweep
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("order", [1, 2, 4])
def test_gradients_of_derivatives_are_those_of_finite_differences(name: str, order: int) -> None:
    x = rows(3, 1)

    def derivative(weight: Tensor) -> Tensor:
        return higher_order_grad(ACTIVATIONS[name](x * weight), x, order, method="taylor")

    weight = torch.tensor([-0.7, 0.9], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(derivative, weight)
    assert torch.autograd.gradgradcheck(derivative, weight)


@pytest.mark.parametrize("name", ["SiLU", "GELU", "Softplus", "ELU"])
def test_where_an_activation_is_flat_or_straight_nothing_is_sent_back(name: str) -> None:
    x = torch.tensor([[-1e30], [-900.0], [900.0], [1e30]], dtype=torch.float64, requires_grad=True)
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    slope, bend = higher_order_grad(ACTIVATIONS[name](x * weight), x, [1, 2], method="taylor")
    assert slope.tolist() == [[0], [0], [1], [1]]
    assert bend.tolist() == [[0], [0], [0], [0]]
    found = torch.autograd.grad(slope.sum() + bend.sum(), [x, weight])
    assert found[0].tolist() == [[0], [0], [0], [0]]
    assert found[1].item() == 2
