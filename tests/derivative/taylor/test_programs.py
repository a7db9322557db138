"""Taylor mode gives what reverse mode gives for programs of many steps, up to order eight."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from leafgrad import higher_order_grad
from tests.derivative.taylor.oracle import assert_same, assert_same_thrice, rows

pytestmark = pytest.mark.sweep

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
    assert_same_thrice([ours], [theirs], [w, x], times=2)


@pytest.mark.parametrize(
    "name", ["layer", "sine", "bell", "logistic", "silu", "gelu", "softplus", "root", "atan"]
)
def test_orders_up_to_eight_are_those_of_reverse_mode(name: str) -> None:
    x, w = points(), torch.tensor(0.7, dtype=torch.float64)
    outputs = STEPS[name](torch.cat([x, x, x], 1), x, w)[:, 0]
    orders = list(range(1, 9))
    ours = higher_order_grad(outputs, x, orders, method="taylor", create_graph=False)
    theirs = higher_order_grad(outputs, x, orders, method="reverse", create_graph=False)
    assert_same(ours, theirs)


# --- Of any shape


ANY_SHAPE: dict[str, Step] = {
    "layer": lambda h, _, w: (h @ (w * MATRIX)).tanh(),
    "three axes": lambda h, x, w: (w * h.unsqueeze(-1) * x[..., :1].unsqueeze(-2)).sin().sum(-1),
    "outer product": lambda h, _, w: (h.unsqueeze(-1) @ (w * h).unsqueeze(-2)).mean(-2),
    "gate of each row": lambda h, x, w: h * torch.sigmoid(w * x[..., 1:2]),
    "gate of each feature": lambda h, _, w: h * (w * MATRIX[0]).exp(),
    "shift by a number": lambda h, _, w: (h + w).cos(),
    "divided by its norm": lambda h, _, w: h / (1 + w + h.square().sum(-1, keepdim=True)),
    "softmax": lambda h, _, w: (w * h).softmax(-1),
    "features the other way round": lambda h, *_: h.flip(-1).movedim(-1, 0).sin().movedim(0, -1),
    "flattened and back": lambda h, _, w: (h.reshape(-1, 3) @ MATRIX).exp().reshape(h.shape) * w,
    "parts joined": lambda h, x, w: torch.cat([h[..., 1:], w * x[..., :1] ** 2], -1),
    "stacked": lambda h, _, w: torch.stack([w * part.atan() for part in h.unbind(-1)], -1),
    "expanded": lambda h, _, w: (w * h[..., None, :]).expand(*h.shape, 3).diagonal(0, -2, -1) ** 2,
    "branch": lambda h, x, w: torch.where(x[..., :1] > 0.9, w * h.sin(), h**2),
}
ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "one number a row": lambda h: h.sum(-1),
    "two channels": lambda h: h[..., :2],
    "two axes of channels": lambda h: h[..., :2, None] * h[..., None, 1:],
}
MIXED = [(p, q) for p in range(4) for q in range(4) if 0 < p + q <= 4]


@settings(max_examples=80)
@given(
    names=st.lists(st.sampled_from(sorted(ANY_SHAPE)), min_size=1, max_size=4),
    end=st.sampled_from(sorted(ENDS)),
    batch=st.lists(st.integers(1, 3), max_size=3),
    orders=st.lists(st.sampled_from(MIXED), min_size=1, max_size=3),
)
def test_a_program_of_any_shape_and_its_gradients_are_those_of_reverse_mode(
    names: list[str], end: str, batch: list[int], orders: list[tuple[int, int]]
) -> None:
    x, w = rows(*batch, 2), torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    hidden = torch.cat([x, w * x[..., :1] * x[..., 1:]], dim=-1)
    for name in names:
        hidden = ANY_SHAPE[name](hidden, x, w)
    outputs = ENDS[end](hidden)
    ours = higher_order_grad(outputs, x, orders, method="taylor")
    theirs = higher_order_grad(outputs, x, orders, method="reverse")
    assert [tuple(result.shape) for result in ours] == [tuple(outputs.shape)] * len(orders)
    assert_same_thrice(ours, theirs, [w, x], times=2)


ELEMENTWISE = ["sine", "bell", "logistic", "silu", "gelu", "softplus", "reciprocal", "root"]
ELEMENTWISE += ["power", "atan", "residual", "gated", "branch"]


@settings(max_examples=60)
@given(
    names=st.lists(st.sampled_from(ELEMENTWISE), min_size=1, max_size=4),
    shape=st.lists(st.integers(1, 3), max_size=4),
    order=st.integers(1, 5),
)
def test_a_program_of_each_element_is_differentiated_as_in_reverse_mode(
    names: list[str], shape: list[int], order: int
) -> None:
    x, w = rows(*shape), torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    hidden = w * x**2
    for name in names:
        hidden = STEPS[name](hidden, x, w)
    ours = higher_order_grad(hidden, x, order, method="taylor")
    theirs = higher_order_grad(hidden, x, order, method="reverse")
    assert ours.shape == x.shape
    assert_same_thrice([ours], [theirs], [w, x], times=2)
