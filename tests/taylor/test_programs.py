"""Taylor mode gives what reverse mode gives for programs of many steps, up to order eight."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from leafgrad import higher_order_grad

Step = Callable[[Tensor, Tensor, Tensor], Tensor]

MATRIX = torch.linspace(-1, 1, 9, dtype=torch.float64).view(3, 3)
STEPS: dict[str, Step] = {
    "layer": lambda h, _, w: (h @ (w * MATRIX)).tanh(),
    "sine": lambda h, _, w: (w * h).sin(),
    "bell": lambda h, _, w: (-w * h.square()).exp(),
    "logistic": lambda h, _, w: torch.sigmoid(h + w),
    "silu": lambda h, _, w: functional.silu(w * h),
    "gelu": lambda h, *_: functional.gelu(h),
    "softplus": lambda h, *_: functional.softplus(h),
    "reciprocal": lambda h, _, w: 1 / (2 + w * h.square()),
    "root": lambda h, *_: (1 + h.square()).sqrt(),
    "power": lambda h, *_: (2 + h.sin()) ** 1.3,
    "atan": lambda h, _, w: torch.atan(h * w),
    "softmax": lambda h, *_: h.softmax(1),
    "residual": lambda h, _, w: h + w * h.tanh(),
    "gated": lambda h, x, w: h * torch.sigmoid(w * x),
    "beside": lambda h, x, _: torch.cat([h[:, 1:], x.cos()], 1),
    "centred": lambda h, *_: h - h.mean(1, keepdim=True),
    "attention": lambda h, *_: ((h[:, :, None] * h[:, None]).softmax(2) @ h[:, :, None])[..., 0],
    "branch": lambda h, x, _: torch.where(x > 0.8, h.sin(), h**2),
}


def program(names: list[str], x: Tensor, w: Tensor) -> Tensor:
    hidden = torch.cat([x, x.sin(), w * x**2], dim=1)
    for name in names:
        hidden = STEPS[name](hidden, x, w)
    return hidden[:, :2]


def points() -> Tensor:
    x = torch.tensor([0.3, 0.9, 1.4], dtype=torch.float64)
    return x.unsqueeze(1).requires_grad_()


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    scale = 1 + theirs.detach().abs().amax()
    torch.testing.assert_close(ours / scale, theirs / scale, rtol=0, atol=1e-10)


@settings(max_examples=60)
@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4),
    order=st.integers(1, 4),
)
def test_a_program_and_its_gradients_are_those_of_reverse_mode(
    names: list[str], order: int
) -> None:
    x, w = points(), torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    outputs = program(names, x, w)
    ours = higher_order_grad(outputs, x, order, method="taylor")
    theirs = higher_order_grad(outputs, x, order, method="reverse")
    assert_same(ours, theirs)
    gradients = [
        torch.autograd.grad(
            derivative.square().sum() + 0 * (w + x).sum(),
            [w, x],
            retain_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
        for derivative in (ours, theirs)
    ]
    for one, two in zip(*gradients, strict=True):
        assert_same(one, two)


@pytest.mark.parametrize(
    "name", ["layer", "sine", "bell", "logistic", "silu", "gelu", "softplus", "root", "atan"]
)
def test_orders_up_to_eight_are_those_of_reverse_mode(name: str) -> None:
    x, w = points(), torch.tensor(0.7, dtype=torch.float64)
    outputs = STEPS[name](torch.cat([x, x, x], 1), x, w)[:, 0]
    orders = list(range(1, 9))
    ours = higher_order_grad(outputs, x, orders, method="taylor", create_graph=False)
    theirs = higher_order_grad(outputs, x, orders, method="reverse", create_graph=False)
    for one, two in zip(ours, theirs, strict=True):
        assert_same(one, two)
