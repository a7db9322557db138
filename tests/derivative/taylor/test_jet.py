"""Operations on jets give the same results as on the tensors that they stand for."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from leafgrad import Jet, Series, higher_order_grad, taylor_rule
from tests.derivative.refusals import words

Function = Callable[[Any, Any], Any]

MATRIX = torch.tensor([[0.5, -1.0], [2.0, 0.3]], dtype=torch.float64)


def is_large(x: Any) -> Tensor:
    result: Tensor = getattr(x, "value", x) > 0.7
    return result


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
    "matrix product": lambda x, y: x.sin()[:, :, None] @ y[:, None] @ MATRIX,
    "matrix product from the right": lambda x, y: MATRIX.mT @ (x * y)[..., None] @ y[:, None, :],
    "matrix product with more axes": lambda x, y: (
        x[:, None, None] @ MATRIX.expand(2, 2, 2) * y[:, :, None, None]
    ),
    "layer": lambda x, y: (x @ MATRIX + y).tanh(),
    "parts": lambda x, y: x[..., 0] * y[:, -1] + (x[:, None, 1:] * y[:, None, :1]).sum((1, 2)),
    "part of a part": lambda x, y: (x[:, None, ::2] * y[..., None])[:, 1, 0, None],
    "sum of all": lambda x, y: (x * y).sin().sum(1, keepdim=True) + x.mean(-1, keepdim=True) * y,
    "softmax": lambda x, y: (x * y).softmax(1) * y.softmax(-1),
    "where": lambda x, y: (x * y).where(is_large(x), y.sin()) + x.where(is_large(y), 0.5),
    "where with a tensor": lambda x, y: x.sin().where(is_large(x), torch.ones(2)) * y,
    "erf": lambda x, y: (x * y).erf(),
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
    """A custom function of two tensors whose backward does not contain its formula."""

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
def test_function_of_jets_matches_function_of_tensors(name: str, *, constant: bool) -> None:
    x = torch.linspace(0.5, 1.5, 6, dtype=torch.float64).reshape(3, 2).requires_grad_()
    inner, other = x.sin(), x.detach().cos() if constant else x.cos()
    custom: Any = OfTwo
    orders = [(1, 0), (2, 0), (1, 1), (0, 3)]
    ours = higher_order_grad(custom.apply(inner, other, name), x, orders, method="taylor")
    theirs = higher_order_grad(FUNCTIONS[name](inner, other), x, orders, method="reverse")
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_value_of_function_of_jets_matches_tensors(name: str) -> None:
    x, y = torch.linspace(0.2, 0.9, 12, dtype=torch.float64).reshape(2, 3, 2)
    jet = FUNCTIONS[name](Jet(x, None), Jet(y, None))
    torch.testing.assert_close(jet.value, FUNCTIONS[name](x, y))
    assert jet.series is None


def test_jet_matrix_product_needs_two_axes() -> None:
    jet = Jet(torch.ones(2), None)
    with pytest.raises(TypeError, match=words("jet.matrix", one=1, other=2)):
        jet @ torch.ones(2, 2)
    with pytest.raises(TypeError, match=words("jet.matrix", one=2, other=1)):
        torch.ones(2, 2) @ jet


class Picked(torch.autograd.Function):
    """Selects elements of a tensor by an index, which may also be a slice."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Any) -> Tensor:
        ctx.save_for_backward(x)
        ctx.index = index
        result: Tensor = x[index].clone()
        return result


@taylor_rule(Picked)
def picked(ctx: Any, x: Series) -> Jet:
    return Jet(ctx.saved_tensors[0], x)[ctx.index]


def test_jet_index_must_be_number_or_slice() -> None:
    x = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    custom: Any = Picked
    with pytest.raises(TypeError, match=words("jet.index")):
        higher_order_grad(custom.apply(x, (slice(None), [0, 1])), x, (1, 0), method="taylor")


@pytest.mark.parametrize("index", [slice(1, None), (0, ...), (slice(2),)])
def test_jet_index_of_some_rows_is_refused(index: Any) -> None:
    x = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    custom: Any = Picked
    outputs = custom.apply(x.exp(), index).sum() * x[:, 0]
    with pytest.raises(RuntimeError, match="row of inputs only, but"):
        higher_order_grad(outputs, x, (1, 0), method="taylor")
