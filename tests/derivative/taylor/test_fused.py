"""Fused layers, for all rows at once or block by block, equal nested reverse mode."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from leafgrad import Jet, Series, higher_order_grad, laplacian, taylor_rule
from leafgrad._derivative.taylor.kernels import fused
from leafgrad._derivative.taylor.kernels.sigmoidal import Sigmoidal
from tests.derivative.taylor.oracle import (
    assert_same,
    assert_same_at_last,
    assert_same_recorded_or_not,
    assert_same_thrice,
    mixed,
    rows,
)
from tests.derivative.taylor.packing import packing
from tests.tensors import Cube

METHODS: tuple[Any, ...] = ("taylor", "reverse")
ROWS = 10
Function = Callable[[Tensor, Tensor, Tensor], Tensor]  # (hidden layer, matrix, points)

LAYERS: dict[str, Function] = {
    "products": lambda h, w, _: h @ w @ w.t(),
    "activations": lambda h, w, _: h.tanh().sigmoid().tanh() @ w,
    "layers": lambda h, w, _: ((h @ w).tanh() @ w.t() @ w).sigmoid(),
    "frozen": lambda h, w, _: ((h @ w.detach()).tanh() @ w.detach()).tanh(),
    "a product that is read twice": lambda h, w, _: (t := h @ w).tanh() + t.sin(),
    "an activation that is read twice": lambda h, w, _: (t := h.tanh()) @ w + (t * t) @ w,
    "a product within a rule": lambda h, w, _: nn.functional.silu(h @ w).tanh(),
    "a start of rows": lambda h, w, x: ((h.tanh() * x[:, :1]) @ w).tanh(),
    "a start that rows share": lambda _, w, x: ((x @ w[:2]) @ w).tanh() @ w,
    "an activation that broadcasts": lambda _, w, x: (x[:, :1] + w[0]).tanh() @ w.t(),
    "a product that broadcasts": lambda _, w, x: ((x[:, :1] + w[0]) @ w).tanh(),
    "two bent factors": lambda h, w, _: (
        h.tanh().unsqueeze(1) @ (h.unsqueeze(2) * w).tanh()
    ).squeeze(1),
    "numbers between functions": lambda h, w, _: (-(3 * (h.tanh() / 2).cos() - 1) * 0.7).sin() @ w,
    "numbers before functions": lambda h, w, _: (((h * 2) @ w * 0.3).sin() @ w * -3).exp().sin(),
    "a number before tanh": lambda h, w, _: ((h @ w) * 0.5).tanh() * 0.5,
    "a number that is far from 1": lambda h, w, _: ((h @ w) * 20 / 0.01 * 0.0003).sin() * 8 * 8,
    "an axis in front": lambda h, w, _: (h.tanh().unsqueeze(0) @ w).tanh().squeeze(0),
}
# Linear and other operations after a layer, on one or both factors of a product.
ENDS: dict[str, Function] = {
    "a bias": lambda h, w, _: torch.addmm(w[0], h.sigmoid(), w),
    "a weighted part": lambda h, w, _: 3 + h.tanh()[:, :2] * w[0, :2] - 2,
    "its own input": lambda h, w, _: (h * h.tanh()).tanh() @ w,
    "a skip": lambda h, _, __: h.tanh() + h,
    "both factors": lambda h, w, _: h.tanh() @ w * (h.sigmoid() @ w),
    "itself": lambda h, _, __: (t := h.tanh()) * t,
    "inputs": lambda h, w, x: (h.tanh() @ w) * x[:, :1],
    "a divisor": lambda h, w, _: 1 / (3 + h.tanh() @ w),
    "a quotient": lambda h, w, _: w[0] / (3 + h.tanh() @ w),
    "a power": lambda h, w, _: (h.tanh() @ w) ** 3,
    "an exponential": lambda h, w, _: (h.tanh() @ w).exp(),
    "no activation": lambda h, w, _: (h - 1) @ w,
}


def network(function: Function) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return points, the outputs of a network at these, and the tensors that outputs depend on.

    `function` is the part of the network after its hidden layer.
    """
    x, first, matrix = rows(ROWS, 2), rows(2, 4), rows(4, 4)
    return x, function((x @ first - 3).tanh() - 1, matrix - 1, x), [x, first, matrix]


@pytest.fixture(params=[[ROWS], [3, 3, 3, 1]], ids=str)
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Use blocks of this many rows with four numbers each, or all rows at once."""
    expected: list[int] = request.param
    monkeypatch.setattr(fused, "_NEAR", 1)
    monkeypatch.setattr(fused, "_WORTHWHILE", expected[0] * 4 * 8 // torch.get_num_threads())
    return expected


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("orders", [[(2, 0)], [(1, 0), (1, 2)]], ids=str)
def test_fused_layers_match_nested_reverse_mode(name: str, orders: list[tuple[int, int]]) -> None:
    x, outputs, sources = network(LAYERS[name])
    ours = [*map(mixed, higher_order_grad(outputs, x, orders, method="taylor"))]
    theirs = higher_order_grad(mixed(outputs), x, orders, method="reverse")
    assert_same_recorded_or_not(ours, theirs, sources)
    found = higher_order_grad(outputs, x, orders, method="taylor", create_graph=False)
    assert_same([*map(mixed, found)], theirs)


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("orders", [[(5, 0)], [(1, 1), (0, 2)], [(2, 1), (0, 4)]], ids=str)
@pytest.mark.sweep
def test_derivatives_match_nested_reverse_for_each_operation_after_the_layers(
    name: str, orders: list[tuple[int, int]]
) -> None:
    x, outputs, sources = network(ENDS[name])
    ours = [*map(mixed, higher_order_grad(outputs, x, orders, method="taylor"))]
    theirs = higher_order_grad(mixed(outputs), x, orders, method="reverse")
    assert_same_recorded_or_not(ours, theirs, sources)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ENDS)
def test_laplacians_match_nested_reverse_for_each_operation_after_the_layers(name: str) -> None:
    x, outputs, sources = network(ENDS[name])
    ours, theirs = (laplacian(outputs, x, method=method) for method in METHODS)
    assert_same_thrice([ours], [theirs], sources, times=4)
    assert_same_at_last([ours], [theirs], sources)


class _NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(*_: Any) -> None:
        return None


def test_missing_gradient_of_fused_layers_is_supported() -> None:
    x, weight = rows(3, 1), rows(1, 1)
    derivative = higher_order_grad((x @ weight).tanh(), x, 2, method="taylor")
    total = _NoGradient.apply(derivative).sum() + weight.sum()  # type: ignore[no-untyped-call]
    assert torch.autograd.grad(total, weight)[0].tolist() == [[1.0]]


def test_many_rows_of_the_batch_are_computed_in_blocks(
    blocks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths, solve = [], Sigmoidal.solve

    def note(function: Sigmoidal, value: Tensor, argument: Tensor) -> Tensor:
        lengths.append(len(value))
        return solve(function, value, argument)

    monkeypatch.setattr(Sigmoidal, "solve", note)
    x, matrix = rows(ROWS, 4), rows(4, 4)
    laplacian((x @ matrix).tanh(), x, create_graph=False)
    assert lengths == blocks


class KnownCube(Cube):
    pass


@taylor_rule(KnownCube)
def _cube(ctx: Any, x: Series | None) -> Jet:
    jet = Jet(ctx.saved_tensors[0], x)
    return jet * jet * jet


@pytest.mark.parametrize(
    "function",
    [lambda h: h.tanh() + h.sin(), nn.functional.silu, KnownCube.apply],
    ids=["by two nodes", "by a rule", "by a rule of one's own"],
)
def test_matrix_product_used_twice_is_computed_once(function: Any) -> None:
    x, matrix = rows(ROWS, 4), rows(4, 4)
    outputs = function(x.tanh() @ matrix)
    with torch.profiler.profile(acc_events=True) as profiler:  # PyTorch 2.10 warns without it
        higher_order_grad(outputs, x, (2, 0, 0, 0), create_graph=False, method="taylor")
    products = [event for event in profiler.events() if event.name == "aten::mm"]
    assert len(products) == 1


@pytest.mark.parametrize("is_kept", [True, False])
def test_saved_tensors_are_freed_during_backward_unless_graph_is_retained(
    is_kept: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, first, matrix = rows(ROWS, 1), rows(1, 4), rows(4, 4)
    outputs = ((x @ first).tanh() @ matrix).tanh()
    counts, vjp = [], Sigmoidal.vjp

    def note(*arguments: Any) -> Tensor:
        counts.append(len(packed))
        return vjp(*arguments)

    with packing() as packed:
        derivative = higher_order_grad(outputs, x, 4, method="taylor")
    monkeypatch.setattr(Sigmoidal, "vjp", note)
    before = len(packed)
    found = torch.autograd.grad(derivative.sum(), matrix, retain_graph=is_kept)
    assert counts == [before if is_kept else 0] * 2
    if is_kept:
        assert_same(found, torch.autograd.grad(derivative.sum(), matrix))
    with pytest.raises(RuntimeError, match="a second time"):
        torch.autograd.grad(derivative.sum(), matrix)


@pytest.mark.parametrize("rows_of_x", [5, 40_000], ids=["whole", "in blocks"])
def test_backward_under_dispatch_mode_gives_same_gradients(rows_of_x: int) -> None:
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    model.double()
    x = torch.linspace(-1, 1, 2 * rows_of_x, dtype=torch.float64).reshape(-1, 2)
    loss = laplacian(model, x).square().mean()
    weights = [*model.parameters()][:-1]
    theirs = torch.autograd.grad(loss, weights, retain_graph=True)
    with FlopCounterMode(display=False):
        ours = torch.autograd.grad(loss, weights)
    torch.testing.assert_close(ours, theirs)
