"""Where coefficients that nobody asks for get no gradient, and where they are needed after all."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from leafgrad import _autograd, higher_order_grad, laplacian
from leafgrad._derivative.taylor.kernels.sigmoidal import Bend
from leafgrad._derivative.taylor.straight import last_bend
from tests.derivative.taylor.oracle import assert_same_at_last, assert_same_thrice, rows

METHODS: tuple[Any, ...] = ("taylor", "reverse")
End = Callable[[Tensor, Tensor], Tensor]  # of a hidden layer and a matrix

# What ends in a bend and what is straight after it, and the name of the bend's node.
STRAIGHT: dict[str, tuple[End, str]] = {
    "nothing": (lambda h, _: h.tanh(), "TanhBackward0"),
    "matrix": (lambda h, w: h.tanh() @ w, "TanhBackward0"),
    "bias": (lambda h, w: torch.addmm(w[0], h.sigmoid(), w), "SigmoidBackward0"),
    "weight": (lambda h, w: w[:3] + h.tanh()[:, :2] * w[0] - 2, "TanhBackward0"),
    "bend": (lambda h, w: h.sigmoid().tanh() @ w, "TanhBackward0"),
    "own input": (lambda h, w: (h * h.tanh()).tanh() @ w, "TanhBackward0"),
}
# What is not straight, or not in one input alone, and the name of the last node that is not.
BENT: dict[str, tuple[End, str]] = {
    "skip": (lambda h, _: h.tanh() + h, "AddBackward0"),
    "both": (lambda h, w: h.tanh() @ w * (h.sigmoid() @ w), "MulBackward0"),
    "itself": (lambda h, _: (t := h.tanh()) * t, "MulBackward0"),
    "divisor": (lambda h, w: 1 / (3 + h.tanh() @ w), "ReciprocalBackward0"),
    "quotient": (lambda h, w: w[:3] / (3 + h.tanh() @ w), "DivBackward0"),
    "power": (lambda h, w: (h.tanh() @ w) ** 3, "PowBackward0"),
    "exp": (lambda h, w: (h.tanh() @ w).exp(), "ExpBackward0"),
    "none": (lambda h, w: (h - 1) @ w, "TanhBackward0"),
}
ENDS = STRAIGHT | BENT
ORDERS: list[list[tuple[int, int]]] = [
    *([(2, 0)], [(1, 1)], [(5, 0)], [(2, 2)]),
    *([(1, 1), (0, 2)], [(3, 0), (1, 0)], [(2, 1), (0, 4)]),
]


def layers(end: End) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Compute what has this end from points and weights."""
    x, first, second, last = rows(3, 2), rows(2, 4), rows(4, 4), rows(4, 2)
    hidden = (x @ first - 3).tanh() @ (second - 1)
    return x, end(hidden, last), [x, first, second, last]


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("orders", ORDERS, ids=str)
def test_what_is_asked_for_alone_equals_nested_reverse(
    name: str, orders: list[tuple[int, int]]
) -> None:
    x, outputs, sources = layers(ENDS[name][0])
    ours, theirs = (higher_order_grad(outputs, x, orders, method=m) for m in METHODS)
    assert_same_thrice(ours, theirs, sources)
    assert_same_at_last(ours, theirs, sources)


@pytest.mark.parametrize("order", [2, 4])
def test_a_product_with_the_inputs_needs_all(order: int) -> None:
    x, weight = rows(3, 1), rows(1, 1)
    outputs = (x @ weight).tanh() * x
    ours, theirs = (higher_order_grad(outputs, x, order, method=m) for m in METHODS)
    assert_same_thrice([ours], [theirs], [x, weight])


@pytest.mark.parametrize("name", ENDS)
def test_a_laplacian_alone_equals_nested_reverse(name: str) -> None:
    x, outputs, sources = layers(ENDS[name][0])
    ours, theirs = (laplacian(outputs, x, method=method) for method in METHODS)
    assert_same_thrice([ours], [theirs], sources, times=4)
    assert_same_at_last([ours], [theirs], sources)


@pytest.mark.parametrize("name", ENDS)
def test_the_last_bend_is_the_last_node_that_is_not_straight(name: str) -> None:
    end, kind = ENDS[name]
    x, outputs, _ = layers(end)
    path = _autograd.path_between(outputs, x)
    assert path is not None
    assert _autograd.node_name(last_bend(path)) == kind


def test_without_a_bend_the_way_back_ends_at_the_inputs() -> None:
    x = rows(3, 2)
    path = _autograd.path_between(2 * x + 1, x)
    assert path is not None
    assert _autograd.node_name(last_bend(path)) == "MulBackward0"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("matrix", [1, 4]), ("skip", [4, 4])],
    ids=["straight", "not straight"],
)
def test_what_nobody_asks_for_gets_no_gradient(
    name: str, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, first = rows(3, 1), rows(1, 4)
    outputs = ENDS[name][0]((x @ first * x).tanh(), rows(4, 4))
    arrived, pulled = [], Bend.pulled

    def note(bend: Bend, value: Tensor, out: Tensor, gradient: Tensor, to_value: Tensor) -> Tensor:
        arrived.append(len(gradient))
        return pulled(bend, value, out, gradient, to_value)

    monkeypatch.setattr(Bend, "pulled", note)
    higher_order_grad(outputs, x, 4, method="taylor").square().sum().backward()
    assert arrived == expected


class _NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(*_: Any) -> None:
        return None


def test_where_no_gradient_arrives_none_is_sent_on() -> None:
    x, weight = rows(3, 1), rows(1, 1)
    derivative = higher_order_grad((x @ weight).tanh(), x, 2, method="taylor")
    total = _NoGradient.apply(derivative).sum() + weight.sum()  # type: ignore[no-untyped-call]
    assert torch.autograd.grad(total, weight)[0].tolist() == [[1.0]]
