"""Jets are added, multiplied and put into functions as the tensors that they stand for."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from leafgrad import Jet, Series, higher_order_grad, taylor_rule

Function = Callable[[Any, Any], Any]

FUNCTIONS: dict[str, Function] = {
    "sum": lambda x, y: x + y + 1.5 + torch.ones(2),
    "sum from the right": lambda x, y: 1.5 + (2 + y) + x,
    "difference": lambda x, y: x - y - 0.5,
    "difference from the right": lambda x, y: (1.5 - x) * (2 - y),
    "negative": lambda x, y: -x * y,
    "product": lambda x, y: 3 * x * y * torch.full((2,), 2.0),
    "quotient": lambda x, y: x / y / 2,
    "quotient from the right": lambda x, y: 2 / x + y / torch.full((2,), 3.0),
    "powers": lambda x, y: x**3 + y**-2 + x**0.5 + y**0,
    "exp": lambda x, y: (x * y).exp(),
    "log": lambda x, y: (x + y).log(),
    "sin": lambda x, y: (x * y).sin(),
    "cos": lambda x, y: (x * y).cos(),
    "tanh": lambda x, y: (x * y).tanh(),
    "sigmoid": lambda x, y: (x * y).sigmoid(),
    "sqrt": lambda x, y: (x * y).sqrt(),
    "rsqrt": lambda x, y: (x * y).rsqrt(),
    "reciprocal": lambda x, y: (x * y).reciprocal(),
}


class OfTwo(torch.autograd.Function):
    """Any function of two tensors, which its backward does not know."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, name: str) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.name = name
        result: Tensor = FUNCTIONS[name](x, y)
        return result


@taylor_rule(OfTwo)
def of_two(ctx: Any, *series: Series | None) -> Jet:
    result: Jet = FUNCTIONS[ctx.name](*map(Jet, ctx.saved_tensors, series))
    return result


@pytest.mark.parametrize("constant", [False, True], ids=["both move", "one is constant"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_jets_is_that_of_tensors(name: str, *, constant: bool) -> None:
    x = torch.linspace(0.5, 1.5, 6, dtype=torch.float64).reshape(3, 2).requires_grad_()
    inner, other = x.sin(), x.detach().cos() if constant else x.cos()
    custom: Any = OfTwo
    orders = [(1, 0), (2, 0), (1, 1), (0, 3)]
    ours = higher_order_grad(custom.apply(inner, other, name), x, orders, method="taylor")
    theirs = higher_order_grad(FUNCTIONS[name](inner, other), x, orders, method="reverse")
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_value_of_a_function_of_jets_is_that_of_tensors(name: str) -> None:
    x, y = torch.tensor([0.5, 0.7]), torch.tensor([0.9, 0.2])
    jet = FUNCTIONS[name](Jet(x, None), Jet(y, None))
    torch.testing.assert_close(jet.value, FUNCTIONS[name](x, y))
    assert jet.series is None
