"""Derivatives up to the tenth are as exact as float64 allows, beside sixty digits of mpmath.

A derivative cannot be exact to 1e-15 of itself everywhere: near one of its zeros, the rounding of
the input, or of a sum or product that PyTorch computed on the way, is all that is left of it. So
the error is held against the largest value of that derivative at any of the points; and, at each
point by itself, against the derivative and what it changes by where the input moves by one.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath
import pytest
import torch
from torch import Tensor

from leafgrad import higher_order_grad

pytestmark = pytest.mark.sweep

Function = Callable[[Any], Any]
HIGHEST = 10
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Function]] = {
    "tanh": (torch.tanh, mpmath.tanh),
    "neuron": (lambda x: torch.tanh(1.25 * x - 0.5), lambda x: mpmath.tanh(1.25 * x - 0.5)),
    "sin": (lambda x: torch.sin(3 * x), lambda x: mpmath.sin(3 * x)),
    "cos": (torch.cos, mpmath.cos),
    "exp": (lambda x: torch.exp(-2 * x), lambda x: mpmath.exp(-2 * x)),
    "polynomial": (lambda x: x**11 - 4 * x**5 + x, lambda x: x**11 - 4 * x**5 + x),
    "product": (lambda x: x**3 * x.exp(), lambda x: x**3 * mpmath.exp(x)),
    "product of waves": (lambda x: x.sin() * x.cos(), lambda x: mpmath.sin(x) * mpmath.cos(x)),
    "reciprocal": (lambda x: 1 / (2 + x), lambda x: 1 / (2 + x)),
    "log": (lambda x: torch.log(2 + x), lambda x: mpmath.log(2 + x)),
    "erf": (torch.erf, mpmath.erf),
    "atan": (torch.atan, mpmath.atan),
    "power": (lambda x: (2 + x) ** 1.3, lambda x: (2 + x) ** mpmath.mpf(1.3)),
    "logistic": (torch.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x))),
    "root": (lambda x: torch.sqrt(2 + x), lambda x: mpmath.sqrt(2 + x)),
}
# Where the rounded value, which is all that PyTorch saves, moves the tenth derivative by more.
LARGEST = {"logistic": 2e-15, "root": 3e-15}
# Where terms nearly cancel out before anything is differentiated.
AT_EACH_POINT = {"product": 2e-15, "atan": 2e-15}


def points() -> Tensor:
    return torch.linspace(-1.5, 1.4, 13, dtype=torch.float64).unsqueeze(1).requires_grad_()


@cache
def exact(name: str) -> list[list[Any]]:
    """Give the derivatives from the first on, one more than is compared, at each point."""
    function = FUNCTIONS[name][1]
    with mpmath.workdps(60):
        series = [
            mpmath.taylor(function, mpmath.mpf(point), HIGHEST + 1)
            for point in points()[:, 0].tolist()
        ]
        orders = range(1, HIGHEST + 2)
        return [[c[order] * mpmath.factorial(order) for c in series] for order in orders]


def errors(name: str) -> list[list[Any]]:
    """Give how far each derivative is from the exact one, at each point."""
    x, orders = points(), list(range(1, HIGHEST + 1))
    outputs = FUNCTIONS[name][0](x)
    ours = higher_order_grad(outputs, x, orders, create_graph=False, method="taylor")
    with mpmath.workdps(60):
        return [
            [abs(mpmath.mpf(one) - other) for one, other in zip(of_one, of_other, strict=True)]
            for of_one, of_other in zip(
                [derivative[:, 0].tolist() for derivative in ours], exact(name)[:-1], strict=True
            )
        ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_error_is_tiny_beside_the_largest_value_of_the_derivative(name: str) -> None:
    for error, derivative in zip(errors(name), exact(name)[:-1], strict=True):
        assert max(error) <= LARGEST.get(name, 1e-15) * max(map(abs, derivative))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_error_at_a_point_is_that_of_an_input_which_is_rounded(name: str) -> None:
    limit = AT_EACH_POINT.get(name, 1e-15)
    for order, error in enumerate(errors(name)):
        derivative, change = exact(name)[order : order + 2]
        for one, here, by_input in zip(error, derivative, change, strict=True):
            assert one <= limit * (abs(here) + abs(by_input))


@pytest.mark.parametrize("name", ["cos", "exp"])
def test_what_loses_nothing_is_exact_to_the_last_places_of_each_value(name: str) -> None:
    for error, derivative in zip(errors(name), exact(name)[:-1], strict=True):
        assert all(one <= 1e-15 * abs(here) for one, here in zip(error, derivative, strict=True))


def test_mixed_derivatives_are_as_exact() -> None:
    number = torch.arange(14, dtype=torch.float64).reshape(7, 2)
    x = (number.sin() / 2).requires_grad_()
    outputs = torch.tanh(x[:, 0]) * torch.sin(x[:, 1])
    derivative = higher_order_grad(outputs, x, (5, 5), create_graph=False, method="taylor")
    with mpmath.workdps(60):
        expected = [
            mpmath.diff(mpmath.tanh, mpmath.mpf(a), 5) * mpmath.cos(mpmath.mpf(b))
            for a, b in x.tolist()
        ]
        error = [abs(mpmath.mpf(d) - e) for d, e in zip(derivative.tolist(), expected, strict=True)]
    assert max(error) <= 1e-15 * max(map(abs, expected))
