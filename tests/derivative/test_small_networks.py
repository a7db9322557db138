"""For few points, nested passes give the results and errors of Taylor mode."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leafgrad import explain_derivative, higher_order_grad, laplacian
from leafgrad._derivative import small_networks
from leafgrad._derivative.wrong_formulas import WRONG_FORMULAS
from tests.messages import message

CALLS: dict[str, tuple[int, Callable[[Tensor, Any], Any]]] = {
    "first": (1, lambda u, x: higher_order_grad(u, x, 1)),
    "second": (1, lambda u, x: higher_order_grad(u, x, 2)),
    "third": (1, lambda u, x: higher_order_grad(u, x, (3,))),
    "mixed": (2, lambda u, x: higher_order_grad(u, x, (1, 1))),
    "list": (2, lambda u, x: torch.stack(higher_order_grad(u, x, [(1, 0), (0, 2)]))),
    "laplacian": (2, laplacian),
}
MIXED: dict[str, Callable[[Tensor], Tensor]] = {
    "cat": lambda h: torch.cat([h[1:], h[:1]], 0),
    "sum": lambda h: h * h.sum(0, keepdim=True),
    "transpose": lambda h: h + h.t(),
}
PRECISE: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "silu": (nn.functional.silu, True),
    "saturated": (lambda x: nn.functional.silu(x + 9), False),
    "large": (lambda x: (1e12 * x).sin(), False),
    "softplus": (nn.functional.softplus, False),
}
# Pairs with equal nodes and shapes: the first function keeps rows independent, the second does not.
PAIRS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "softmax": (lambda h: h.softmax(1), lambda h: h.softmax(0)),
    "mean": (lambda h: h - h.mean(1, keepdim=True), lambda h: h - h.mean(0, keepdim=True)),
    "sum": (lambda h: h + h.sum(1, True), lambda h: h + h.sum(0, True)),
    "select": (lambda h: h + h.unsqueeze(1)[:, 0].softmax(1), lambda h: h + h.unsqueeze(0)[0].t()),
    "constant": (
        lambda h: h.softmax(1) @ torch.ones(5, 5),
        lambda h: torch.ones(5, 5) @ h.softmax(1),
    ),
    "split": (
        lambda h: h.view(5, 5, 1).transpose(1, 2).split(1, 1)[0].view(5, 5),
        lambda h: h.view(5, 5, 1).transpose(0, 2).split(1, 0)[0].view(5, 5),
    ),
}
SMALL = message("derivative.because.small")


def network(columns: int) -> tuple[nn.ParameterList, Callable[[Tensor], Tensor]]:
    torch.manual_seed(0)
    first, second = torch.randn(columns, 8), torch.randn(8, 1)
    weights = nn.ParameterList([first.double(), second.double()])

    def call(x: Tensor) -> Tensor:
        h = x @ weights[0]
        h = torch.cat([h[:, :4].tanh() * h[:, 4:].sin(), nn.functional.silu(h[:, 4:])], 1)
        result: Tensor = (2 - h / 3) @ weights[1]
        return result

    return weights, call


@pytest.mark.parametrize("is_several", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_nested_passes_cached_plan_and_taylor_mode_give_equal_results(
    name: str, monkeypatch: pytest.MonkeyPatch, *, is_several: bool
) -> None:
    columns, call = CALLS[name]
    weights, net = network(columns)
    found = []
    for most in (small_networks._MOST_ELEMENTS, {(2, 2): 1, (2, 3): 1, (3, 3): 1}):
        monkeypatch.setattr(small_networks, "_MOST_ELEMENTS", most)
        monkeypatch.setattr(small_networks, "_plans", {})
        for _ in range(2):  # The second call uses the cached plan.
            x = torch.linspace(-1, 1, 5 * columns).double().reshape(5, columns)
            parts = [part.clone().requires_grad_() for part in x.split(1, 1)]
            inputs = tuple(parts) if is_several else x.requires_grad_()
            outputs = net(torch.cat(parts, 1) if is_several else x)
            derivative = call(outputs, inputs)
            found.append((derivative, *torch.autograd.grad(derivative.square().sum(), [*weights])))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert torch.allclose(one, two, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("mix", MIXED.values(), ids=MIXED)
def test_dependent_rows_are_refused_after_plan_was_cached(order: int, mix: Any) -> None:
    x = torch.rand(5, 1, requires_grad=True)
    first, last = nn.Linear(1, 5), nn.Linear(5, 1)

    def call(move: Callable[[Tensor], Tensor]) -> Tensor:
        return higher_order_grad(last(move(first(x).tanh()).sin()), x, order)

    for _ in range(2):
        call(lambda h: torch.cat([h[:, 1:], h[:, :1]], 1))
    with pytest.raises(RuntimeError, match="each row of outputs must depend on the same row"):
        call(mix)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("apart", "mixed"), PAIRS.values(), ids=PAIRS)
def test_dependent_rows_are_refused_after_similar_graph_was_proven(
    order: int, apart: Callable[[Tensor], Tensor], mixed: Callable[[Tensor], Tensor]
) -> None:
    x = torch.rand(5, 5, requires_grad=True)

    def call(move: Callable[[Tensor], Tensor]) -> Tensor:
        return higher_order_grad(move(x.tanh()).sin() @ torch.ones(5, 1), x, (order, 0, 0, 0, 0))

    for _ in range(2):
        call(apart)
    with pytest.raises(RuntimeError, match="each row of outputs must depend on the same row"):
        call(mixed)


def test_nested_passes_use_no_wrong_formula_of_pytorch() -> None:
    nested = small_networks._EXACT | small_networks._EXACT_TOO
    assert {kind.__name__ for kind in nested}.isdisjoint(WRONG_FORMULAS)


@pytest.mark.parametrize(("function", "is_small"), PRECISE.values(), ids=PRECISE)
def test_small_network_uses_nested_passes_only_if_they_are_precise(
    function: Callable[[Tensor], Tensor], *, is_small: bool
) -> None:
    x = torch.rand(3, 1, requires_grad=True)
    assert (explain_derivative(function, x, 2).because == SMALL) == is_small


def test_bool_order_is_refused_after_plan_for_equal_int_was_cached() -> None:
    x = torch.rand(3, 1, requires_grad=True)
    higher_order_grad(x.sin(), x, 1)
    order: Any = True
    with pytest.raises(TypeError):
        higher_order_grad(x.sin(), x, order)
