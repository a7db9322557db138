"""Independent rows are proven, and programs that mix rows are refused."""

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leafgrad import (
    explain_derivative,
    hessian,
    higher_order_grad,
    jacobian,
    laplacian,
    trace_graph,
)
from tests.derivative.refusals import words
from tests.derivative.row_programs import APART, MATRIX, MIXED, Program
from tests.derivative.taylor.oracle import assert_same, rows

ALIKE = {*APART} & {*MIXED}


def is_proven(program: Program, x: Tensor) -> bool:
    try:
        return explain_derivative(program(x), x, (1, 0)).rows == "proven"
    except RuntimeError as error:
        if "must depend on the same row" not in str(error):
            raise
        return False


@pytest.mark.parametrize("name", APART)
def test_independent_rows_are_proven_and_differentiated(name: str) -> None:
    x = rows(5, 2)
    outputs = APART[name](x)
    assert is_proven(APART[name], x)
    found = higher_order_grad(outputs, x, (1, 0))
    (expected,) = torch.autograd.grad(outputs.sum(), x)
    assert torch.allclose(found.reshape(5, -1).sum(1), expected[:, 0], rtol=1e-12, atol=1e-12)
    if "Backward" in name:
        assert name in {node.name for node in trace_graph(outputs).nodes}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_or_moved_rows_are_refused(name: str) -> None:
    x = rows(2 if name in ALIKE else 5, 2)
    assert not is_proven(MIXED[name], x)
    with pytest.raises(RuntimeError, match=r"row of inputs only, but|has no rule"):
        higher_order_grad(MIXED[name](x), x, (2, 0), method="taylor")


BATCHES: dict[str, Program] = {
    "layers": lambda x: (x @ MATRIX).tanh() @ MATRIX.t(),
    "flattened and back": lambda x: (x.reshape(-1, 2) @ MATRIX).tanh().reshape(*x.shape[:-1], 4),
    "flattened with channels and back": lambda x: (
        (x @ MATRIX).reshape(-1).sin().reshape(*x.shape[:-1], 2, 2)
    ),
    "moved and back": lambda x: x.movedim(-1, 0).sin().movedim(0, -1),
    "columns joined": lambda x: torch.cat([x.unbind(-1)[1][..., None], x**2], -1).exp(),
}


@pytest.mark.parametrize("batch", [(1,), (3, 4), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("function", BATCHES.values(), ids=BATCHES)
def test_rows_can_span_several_axes(function: Program, batch: tuple[int, ...]) -> None:
    x = rows(*batch, 2)
    orders = [(1, 0), (2, 0), (1, 2)]
    ours = higher_order_grad(function(x), x, orders, method="taylor")
    assert_same(ours, higher_order_grad(function(x), x, orders, method="reverse"))


def test_dependent_rows_on_several_batch_axes_are_refused() -> None:
    x = rows(3, 3, 2)
    for outputs, why in (
        (x * x.transpose(0, 1), "may meet through MulBackward0"),
        (x.transpose(0, 1).sin(), "is moved to another place by TransposeBackward0"),
    ):
        with pytest.raises(RuntimeError, match=why):
            higher_order_grad(outputs, x, (2, 0), method="taylor")


def test_output_element_that_depends_on_other_columns_is_refused() -> None:
    x = rows(2, 2)
    for outputs in (x[:, :1] * x, x @ MATRIX[:, :2]):
        with pytest.raises(RuntimeError, match="each element of outputs must depend"):
            higher_order_grad(outputs, x, 1)


TWICE = torch.tensor([2, 2])
IN_THIRD = torch.arange(4)[:, None] == 2
# Programs that only seem to mix rows, beside equivalents that obviously do not.
WRITTEN_OUT: dict[str, tuple[Program, Program]] = {
    "chunks": (lambda x: torch.cat(x.sin().split(2)), torch.sin),
    "reshaped": (lambda x: x.reshape(2, 4).sin().reshape(4, 2).flip(1), lambda x: x.sin().flip(1)),
    "diagonal": (
        lambda x: (x[:, :1] * x[:, 1:].t()).diagonal()[:, None],
        lambda x: x[:, :1] * x[:, 1:],
    ),
    "repeated": (lambda x: x.repeat(2, 1)[:4], lambda x: x),
    "masked": (lambda x: x[x > 0].reshape(x.shape), lambda x: x),
    "indexed along two axes": (
        lambda x: x[[0, 1, 2, 3], [0, 1, 1, 0]],
        lambda x: torch.where(torch.tensor([True, False, False, True]), x[:, 0], x[:, 1]),
    ),
    "one row put twice": (
        lambda x: x.cos().index_put((TWICE,), x[TWICE].sin()) * x,
        lambda x: torch.where(IN_THIRD, x.sin(), x.cos()) * x,
    ),
}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_taylor_mode_accepts_rows_that_only_seem_to_mix(name: str) -> None:
    function, written_out = WRITTEN_OUT[name]
    x = rows(4, 2)
    answer = higher_order_grad(function(x).sin(), x, (2, 0), method="taylor")
    assert_same([answer], [higher_order_grad(written_out(x).sin(), x, (2, 0), method="reverse")])


def test_graphs_with_equal_structure_but_other_saved_values_share_no_proof() -> None:
    def prove(name: str) -> bool:
        x = rows(2, 2)
        return is_proven(APART[name], x) and not is_proven(MIXED[name], x)

    assert len(ALIKE) > 5
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(prove, [*ALIKE] * 10))


def test_proof_keeps_no_graph_alive() -> None:
    x = rows(5, 2)
    assert is_proven(APART["bases"], x)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


def test_custom_function_named_like_internal_one_is_not_trusted() -> None:
    class _Solution(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return x.flip(0)

        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            return gradients[0].flip(0)

    result: Any = _Solution.apply
    assert not is_proven(result, rows(5, 2))


def test_proof_distinguishes_masks_cloned_by_saved_tensor_hooks() -> None:
    with torch.autograd.graph.saved_tensors_hooks(Tensor.clone, Tensor.clone):
        assert not is_proven(MIXED["rows of another mask"], rows(5, 2))
        assert is_proven(APART["rows over rows"], rows(5, 2))


def test_lstm_keeps_rows_independent_but_mixes_time_steps() -> None:
    layer = nn.LSTM(2, 3)
    x = torch.rand(5, 2, requires_grad=True)
    if "Mkldnn" not in str([node.name for node in trace_graph(layer(x[None])[0]).nodes]):
        pytest.skip("it is made of other operations here")
    assert is_proven(lambda x: layer(x[None])[0][-1], x)
    assert is_proven(lambda x: layer(x[None])[1][0][0], x)
    assert not is_proven(lambda x: layer(x[:, None])[0], x)
    state = torch.zeros(1, 5, 3)
    assert is_proven(lambda x: layer(x[None], (x[None, :, :1] + state, state))[0][-1], x)


# --- Regressions


class Hidden(torch.autograd.Function):
    """Hides a part of its backward that is zero if all gradients are equal."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        (g,) = gradients
        return g + g.detach() - g.detach().roll(-1, 0)


class Infinite(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.log()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] / ctx.saved_tensors[0]


POINTS = torch.tensor([[0.0], [0.0], [0.7], [1.3]], dtype=torch.float64)
ANSWERED_WRONGLY: dict[str, tuple[Program, Tensor]] = {
    "two rows further": (lambda x: x.exp() + x.roll(2, 0), torch.tensor([[0.0], [1], [2], [12]])),
    "the same row in the middle": (lambda x: x.flip(0).cos(), torch.zeros(3, 1)),
    "differences": (lambda x: (x - x.roll(2, 0)) ** 2, torch.full((4, 1), 0.5)),
    "a mean of zero": (lambda x: x + x.mean() ** 2, torch.linspace(-1, 1, 5)[:, None]),
    "channels that cancel": (
        lambda x: torch.stack([y := x[[2, 1, 0], 0], -y, x[:, 0]], 1),
        torch.tensor([[0.5], [1], [2]]),
    ),
    "a product with two zeros": (lambda x: x + x.prod(), torch.tensor([[0.0], [0], [2]])),
    "a running product": (lambda x: x.cumprod(0), POINTS),
    "a running sum of exponentials": (
        lambda x: (torch.eye(4).roll(1, 0) - torch.eye(4)).double() @ x.logcumsumexp(0),
        POINTS,
    ),
    "0 divided by 0": (lambda x: x.sin() + torch.sinc(x.sum(0)), torch.tensor([[0.5], [-0.5]])),
    "a hidden part of a backward": (Hidden.apply, torch.tensor([[0.0], [0.5], [1]])),
    "infinity, which shows nothing": (Infinite.apply, torch.tensor([[0.0], [0.5], [1]])),
    "systems with vectors, turned": (
        lambda x: torch.linalg.solve(torch.eye(3) + torch.ones(1, 3, 3), x.t()).t(),
        torch.tensor([[0.0], [2], [0]]),
    ),
    "a mask of it": (
        lambda x: x + torch.where(x.sum(0) == 0, torch.ones(()), x.sum(0).sin()),
        torch.tensor([[0.5], [-0.5]]),
    ),
}
CALLS: dict[str, Callable[..., Any]] = {
    "first": lambda u, x, **k: higher_order_grad(u, x, (1,), **k),
    "second": lambda u, x, **k: higher_order_grad(u, x, (2,), **k),
    "laplacian": laplacian,
    "jacobian": jacobian,
    "hessian": hessian,
}


@pytest.mark.parametrize("method", ["auto", "taylor", "reverse"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ANSWERED_WRONGLY)
def test_dependent_rows_are_refused_by_each_function_and_method(
    name: str, call: str, method: str
) -> None:
    program, points = ANSWERED_WRONGLY[name]
    x = points.clone().requires_grad_()
    message = "row of inputs only, but|may carry something|the rows of outputs are not|has no rule"
    with pytest.raises(RuntimeError, match=message):
        CALLS[call](program(x), x, method=method)


@pytest.mark.parametrize("distance", [1, 2, 16, 63])
def test_independent_rows_option_is_refused_if_one_row_moves(distance: int) -> None:
    x = torch.rand(65, 2, requires_grad=True)
    order = torch.arange(65)
    order[0], order[distance] = distance, 0
    with pytest.raises(RuntimeError, match=r"rows must be independent where.*inputs\[0\] reaches"):
        jacobian(x[order].sin(), x, rows="independent")


def test_unknown_value_of_rows_option_is_refused() -> None:
    x, promise = rows(5, 2), "yes"
    with pytest.raises(ValueError, match=words("rows", value=promise)):
        jacobian(x, x, rows=promise)  # type: ignore[arg-type]
