"""`explain_derivative` reports the method of a derivative, and the reason for it."""

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leafgrad import explain_derivative, hessian, higher_order_grad, jacobian, laplacian
from leafgrad.types import DerivativeExplanation
from tests.derivative.refusals import words
from tests.derivative.taylor.oracle import rows
from tests.messages import message
from tests.tensors import Cube


class Unread(Cube):
    """Detaches the gradient in its backward, so the graph does not show whether it mixes rows."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        sent: Tensor = 3 * x**2 * (gradient + gradient.detach()) / 2
        return sent


def cubed(x: Tensor) -> Tensor:
    result: Tensor = Cube.apply(x)  # type: ignore[no-untyped-call]
    return result


@pytest.mark.parametrize(
    ("function", "order", "method", "because"),
    [
        (torch.sin, (2, 0), "taylor", "because.rules"),
        (lambda x: x.erf()[:, 0], (0, 2), "taylor", "because.rules"),
        (torch.sin, [(1, 0), (2, 0)], "taylor", "because.rules"),
        (lambda x: x.sin().prod(1), (1, 0), "reverse", "because.first"),
        (cubed, (2, 0), "reverse", "register-rule"),
        (torch.sin, (0, 0), None, "because.order-0"),
    ],
)
@pytest.mark.parametrize("create_graph", [True, False])
def test_method_is_explained_with_its_reason(
    function: Any, order: Any, method: str | None, because: str, *, create_graph: bool
) -> None:
    told = explain_derivative(function, rows(4, 2), order, create_graph=create_graph)
    assert told.method == method
    assert re.search(words(because), told.because)
    proven = method and "proven"
    assert told.to_dict() == {"method": method, "because": told.because, "rows": proven}
    assert str(told).startswith(f"derivative\n  method  {method}\n  rows    {proven}\n  - ")
    assert html.escape(told.because).split(",")[0] in " ".join(told._repr_html_().split())


def test_derivatives_that_are_zero_by_construction_are_explained() -> None:
    x = rows(4, 2)
    constant = higher_order_grad(3 * x, x, (2, 0))
    told = explain_derivative(constant, x, (1, 0))
    assert told.method is None
    assert told.because == message("derivative.because.zeros")
    assert told == DerivativeExplanation(method=None, because=told.because, rows=None)


def test_method_that_explain_derivative_returns_computes_the_derivative() -> None:
    x = rows(4, 2)
    for function in (torch.sin, cubed):
        method = explain_derivative(function(x), x, (2, 0)).method
        assert method is not None
        higher_order_grad(function(x), x, (2, 0), method=method)
    with pytest.raises(RuntimeError, match=words("not-taylor")):
        higher_order_grad(cubed(x), x, (2, 0), method="taylor")


@pytest.mark.parametrize("order", [laplacian, jacobian, hessian, (1, 1)])
def test_explain_derivative_covers_each_function_and_whether_rows_are_proven(order: Any) -> None:
    x = rows(4, 2)
    outputs: Any = Unread.apply(x.sin())  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError, match="UnreadBackward"):
        explain_derivative(outputs, x, order, create_graph=False)
    vouched = explain_derivative(outputs, x, order, create_graph=False, rows="independent")
    assert (vouched.method, vouched.rows) == ("reverse", "vouched for")
    assert explain_derivative(x.sin(), x, order, rows="independent").rows == "proven"


def test_explain_derivative_refuses_other_functions() -> None:
    x = rows(4, 2)
    with pytest.raises(ValueError, match=words("explained-function", value=torch.sin)):
        explain_derivative(x.sin(), x, torch.sin)


def test_explain_derivative_refuses_mixed_rows_and_ignores_grad_mode() -> None:
    x = rows(4, 2)
    with pytest.raises(RuntimeError, match=words("rows-must.row")):
        explain_derivative(x - x.mean(0), x, (2, 0))
    with torch.no_grad(), torch.inference_mode():
        assert explain_derivative(torch.sin, x.detach(), (2, 0)).method == "taylor"


@pytest.mark.parametrize(
    ("function", "order", "told"),
    [
        (lambda u: u.relu(), (2, 0), message("derivative.because.piecewise-linear", kinds="relu")),
        (
            lambda u: nn.functional.leaky_relu(u).abs() + u,
            (1, 1),
            message("derivative.because.piecewise-linear", kinds="leakyrelu, abs"),
        ),
        (lambda u: u * 3.0 - u.sum(1, keepdim=True), (2, 0), message("derivative.because.linear")),
        (lambda u: u.relu(), (1, 0), None),
        (lambda u: u.relu() * u, (2, 0), None),
        (lambda u: u.relu() @ torch.ones(4, 1) * u[:, :1], (2, 0), None),
        (lambda u: u.tanh().relu(), (2, 0), None),
    ],
    ids=["relu", "two kinds", "linear", "first order", "product", "product of parts", "tanh"],
)
def test_zeros_of_a_piecewise_linear_network_are_explained(
    function: Callable[[torch.Tensor], torch.Tensor], order: tuple[int, int], told: str | None
) -> None:
    x = torch.rand(5, 2, requires_grad=True)
    u = function(nn.Linear(2, 4)(x))
    because = explain_derivative(u, x, order).because
    assert because == message("derivative.because.rules") + (told or "")
    if told:
        assert not higher_order_grad(u, x, order).any()
