"""Tangents of forward-mode AD: a derivative changes along a tangent as its backward predicts."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from leafgrad import explain_derivative, higher_order_grad, laplacian
from tests.derivative.refusals import words
from tests.derivative.taylor.oracle import rows
from tests.messages import message

# PyTorch warns when the first dual tensor is created.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.torch.jit.script. is deprecated:DeprecationWarning"
)

WEIGHT = rows(2, 3)
Differentiable = Callable[[Tensor, Tensor], Tensor]


class Sine(Function):
    """Has no rule, so the dependence of rows is tested by gradients that contain NaN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradients[0] * x.cos()

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        (x,) = ctx.saved_tensors
        return tangents[0] * x.cos()


FUNCTIONS: dict[str, Differentiable] = {
    "network": lambda x, weight: (x @ weight).tanh().sum(-1),
    "a rule tells its rows": lambda x, weight: (x.sin().prod(-1, keepdim=True) @ weight[:1]).tanh(),
    "no rule": lambda x, weight: Sine.apply(x @ weight),  # type: ignore[no-untyped-call]
}
DERIVATIVES: dict[str, Callable[..., Tensor]] = {
    "first": lambda u, x, **options: higher_order_grad(u, x, (1, 0), **options),
    "second": lambda u, x, **options: higher_order_grad(u, x, (1, 1), **options),
    "Laplacian": laplacian,
}


def change(derivative: Tensor, of: Tensor, tangent: Tensor) -> Tensor:
    """Return how much each element of `derivative` changes if `of` moves along the tangent.

    It is computed by a backward pass for each element.
    """
    found = [
        torch.autograd.grad(element, of, retain_graph=True)[0] for element in derivative.flatten()
    ]
    return torch.stack([(gradient * tangent).sum() for gradient in found]).view(derivative.shape)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("differentiate", DERIVATIVES.values(), ids=DERIVATIVES)
@pytest.mark.parametrize("moved", ["inputs", "weight"])
@pytest.mark.parametrize("create_graph", [True, False])
def test_tangent_of_derivative_matches_exact_change(
    function: Differentiable,
    differentiate: Callable[..., Tensor],
    moved: str,
    *,
    create_graph: bool,
) -> None:
    x, weight = rows(4, 2), rows(2, 3)
    tangent = torch.cos(torch.arange(1.0, 9 if moved == "inputs" else 7, dtype=torch.float64))
    tangent = tangent.view_as(x if moved == "inputs" else weight)
    exact = differentiate(function(x, weight), x)
    expected = change(exact, x if moved == "inputs" else weight, tangent)
    with forward_ad.dual_level():
        if moved == "inputs":
            x = forward_ad.make_dual(x, tangent)
        else:
            weight = forward_ad.make_dual(weight, tangent)
        found = forward_ad.unpack_dual(
            differentiate(function(x, weight), x, create_graph=create_graph)
        )
        assert found.primal.requires_grad == create_graph
    torch.testing.assert_close(found.primal, exact)
    torch.testing.assert_close(found.tangent, expected)


def test_tangent_of_inputs_reaches_function() -> None:
    x, tangent = torch.tensor([[0.5], [1.0]]), torch.tensor([[2.0], [3.0]])
    with forward_ad.dual_level():
        slope = higher_order_grad(torch.sin, forward_ad.make_dual(x, tangent), (2,))
        found = forward_ad.unpack_dual(slope)
    torch.testing.assert_close(found.primal, -x.sin())
    torch.testing.assert_close(found.tangent, -x.cos() * tangent)


def test_tangent_of_one_of_several_inputs_is_used() -> None:
    x, y = torch.tensor([0.5, 1.0]), torch.tensor([2.0, 3.0])
    with forward_ad.dual_level():
        x = forward_ad.make_dual(x, torch.ones(2))
        found = forward_ad.unpack_dual(higher_order_grad(lambda x, y: x**3 * y, (x, y), (1, 1)))
        torch.testing.assert_close(found.primal, 3 * torch.tensor([0.5, 1.0]) ** 2)
        torch.testing.assert_close(found.tangent, 6 * torch.tensor([0.5, 1.0]))


def test_taylor_mode_refuses_tangents() -> None:
    x = rows(4, 2)
    with forward_ad.dual_level():
        u = (x @ forward_ad.make_dual(WEIGHT, WEIGHT.detach())).tanh()
        told = explain_derivative(u, x, (2, 0))
        assert told.method == "reverse"
        assert message("derivative.reason.tangent") in told.because
        with pytest.raises(
            RuntimeError, match=words("not-taylor", reason=message("derivative.reason.tangent"))
        ):
            higher_order_grad(u, x, (2, 0), method="taylor")
