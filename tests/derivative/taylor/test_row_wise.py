"""Rows are proven to be independent where a program keeps them apart, and refused elsewhere."""

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leafgrad import explain_derivative, higher_order_grad, trace_graph
from tests.derivative.taylor.oracle import rows

Program = Callable[[Tensor], Tensor]

SIDE = torch.tensor([True, False, True, True, False])
OTHER = torch.tensor([True, True, False, True, False])
FIRST = torch.tensor([1, 0])


def put(x: Tensor, mask: Tensor, values: Tensor) -> Tensor:
    result = torch.zeros_like(x)
    result[mask] = values
    return result


def squashed(x: Tensor) -> Tensor:
    return (x @ torch.ones(2, 4, dtype=x.dtype)).tanh() @ torch.ones(4, 1, dtype=x.dtype)


def slope_of(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]


# Programs on rows (5, 2) that keep rows independent.
APART: dict[str, Program] = {
    "columns": lambda x: x[:, 0] * x[:, 1],
    "bases": lambda x: (x.unsqueeze(-1) - torch.arange(3.0)).exp().flatten(1),
    "an axis of size 1": lambda x: (x.unsqueeze(1) * x.unsqueeze(-2)).squeeze(1),
    "features": lambda x: torch.cat([x.sin(), x.new_ones(5, 2), x.cos()], -1),
    "a sum": lambda x: x.sum(-1, keepdim=True) * x.mean(1)[:, None],
    "exchanged": lambda x: (x[:, :, None] * torch.ones(3)).transpose(1, -1).mean((-1, 1)),
    "a layer norm": lambda x: nn.functional.layer_norm(x, (2,)),
    "experts": lambda x: put(put(x.sin(), SIDE, x[SIDE].cos()), ~SIDE, x.new_ones(2)) * x,
    "rows over rows": lambda x: (y := x * 2).index_put((SIDE,), y[SIDE].tanh()),
    "a constant": lambda x: (x * 2).index_put((SIDE,), x.new_ones(2)),
    "an axis in front": lambda x: (x * 2)[None].index_put((SIDE[:1],), x.new_ones(5, 2))[0],
    "columns of rows": lambda x: x.t()[SIDE[:2]].t() * x,
    "a mask with holes": lambda x: put(x, (m := SIDE.repeat_interleave(2)[::2]), x[m]),
    "numbers": lambda x: put(x, torch.tensor([2, 0]), x[[2, -5]].exp()),
    "numbers over numbers": lambda x: put(
        x, SIDE, x[SIDE].exp().index_put((FIRST,), x[SIDE][FIRST].sin())
    ),
    "no rows": lambda x: x * x[SIDE & ~SIDE].exp().sum(),
    "one number": lambda x: put(x, torch.tensor([2]), x[torch.tensor([2])]),
    "elements": lambda x: put(x, x > 1, x[x > 1]),
    "one row after another": lambda x: put(x, FIRST[:1], x[1:2]).index_put(
        (FIRST[1:],), x[:1].sin()
    ),
    "numbers written to": lambda x: (x * 2).index_put((torch.tensor([0]),), x.new_ones(2)),
    "nobody": lambda x: put(x.sin(), SIDE & ~SIDE, x[SIDE & ~SIDE].exp()) * x,
    "another axis is cut": lambda x: torch.cat([x[:, 1:], x[:, :1]], -1),
    "another axis is put in": lambda x: (x.unsqueeze(-1) * torch.ones(2)).sum(-1),
    "another axis is added up": lambda x: x.sum(1, keepdim=True) * torch.ones(1, 2, dtype=x.dtype),
    "other axes are exchanged": lambda x: x.unsqueeze(-1).transpose(1, 2).flatten(1),
    "another axis is normalised": lambda x: nn.functional.layer_norm(x, (2,)),
    "a weight depends on inputs": lambda x: x @ torch.ones(2, 2, dtype=x.dtype),
    "_FusedBackward": lambda x: higher_order_grad(squashed(x), x, (2, 0), method="taylor"),
    "_SolutionBackward": lambda x: higher_order_grad((x * x).exp(), x, (2, 0)),
    "_SinCosBackward": lambda x: higher_order_grad((x * x).sin(), x, (5, 0)),
    "_ContractBackward": lambda x: higher_order_grad(
        torch.linalg.cross(x.sin()[:, [0, 1, 0]], (x * x).exp()[:, [0, 1, 1]]), x, (2, 0)
    ),
    "_ProductBackward": lambda x: higher_order_grad(x.sin() * (x * x).exp(), x, (2, 0)),
    "TanhBackwardBackward0": slope_of(torch.tanh),
    "SoftplusBackwardBackward0": slope_of(lambda x: nn.functional.softplus(squashed(x))),
}
# Programs with the same kinds of nodes that mix or move rows.
JOINED: dict[str, Program] = {
    "another axis is cut": lambda x: torch.cat([x[1:], x[:1]], 0),
    "another axis is put in": lambda x: (x.unsqueeze(0) * torch.ones(2, 1, 1)).sum(1),
    "another axis is added up": lambda x: x.sum(0, keepdim=True) * torch.ones(2, 2),
    "other axes are exchanged": lambda x: x.unsqueeze(-1).transpose(0, 1).flatten(1),
    "another axis is normalised": lambda x: nn.functional.layer_norm(x, (2, 2)),
    "a weight depends on inputs": lambda x: torch.ones(2, 2, dtype=x.dtype) @ x,
    "other numbers": lambda x: put(x, torch.tensor([0, 2]), x[torch.tensor([2, 0])]),
    "rows of rows": lambda x: put(x, torch.tensor([0, 1]), x[SIDE][torch.tensor([0, 1])]),
    "rows of another mask": lambda x: put(x, OTHER, x[SIDE]),
    "no axes": lambda x: x.sin().sum(()) + x,
    "one row": lambda x: x.index_put((SIDE,), (x * 2)[0]),
    "a sum over all": lambda x: x + x.sum(),
    "a mean over all": lambda x: x + x.mean(dim=None),
    "rows in a row": lambda x: x.reshape(2, 5).t(),
    "cut rows": lambda x: torch.cat([x[1:], x[:1]]),
}


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
    if name.startswith("_") or "Backward" in name:
        assert name in {node.name for node in trace_graph(outputs).nodes}


@pytest.mark.parametrize("name", JOINED)
def test_mixed_rows_are_not_proven_independent(name: str) -> None:
    assert not is_proven(JOINED[name], rows(5 if name not in ALIKE else 2, 2))


ALIKE = {*APART} & {*JOINED}


def test_mixed_elements_are_refused() -> None:
    x = rows(5, 2)
    with pytest.raises(RuntimeError, match="each element of outputs must depend"):
        higher_order_grad(x[:, :1] * x, x, 1)


def test_proofs_of_graphs_with_equal_structure_depend_on_saved_values() -> None:
    def prove(name: str) -> bool:
        x = rows(2, 2)
        return is_proven(APART[name], x) and not is_proven(JOINED[name], x)

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


def test_mask_cloned_by_saved_tensor_hooks_is_not_treated_as_same_tensor() -> None:
    with torch.autograd.graph.saved_tensors_hooks(Tensor.clone, Tensor.clone):
        assert not is_proven(JOINED["rows of another mask"], rows(5, 2))
        assert is_proven(APART["rows over rows"], rows(5, 2))


def test_lstm_keeps_rows_independent_but_mixes_steps() -> None:
    layer = nn.LSTM(2, 3)
    x = torch.rand(5, 2, requires_grad=True)
    if "Mkldnn" not in str([node.name for node in trace_graph(layer(x[None])[0]).nodes]):
        pytest.skip("it is made of other operations here")
    assert is_proven(lambda x: layer(x[None])[0][-1], x)
    assert is_proven(lambda x: layer(x[None])[1][0][0], x)
    assert not is_proven(lambda x: layer(x[:, None])[0], x)
    state = torch.zeros(1, 5, 3)
    assert is_proven(lambda x: layer(x[None], (x[None, :, :1] + state, state))[0][-1], x)


ONE = torch.tensor([1])
# Programs on rows (5, 2) that are proven by labelled axes, for any number of rows.
LABELLED: dict[str, Callable[[Tensor], Tensor]] = {
    "columns": lambda x: x[:, 0] * x[:, 1],
    "bases": lambda x: (x.unsqueeze(-1) - torch.arange(3.0)).exp().flatten(1),
    "an axis of size 1": lambda x: (x.unsqueeze(1) * x.unsqueeze(-2)).squeeze(1),
    "features": lambda x: torch.cat([x.sin(), x.new_ones(5, 2), x.cos()], -1),
    "a sum": lambda x: x.sum(-1, keepdim=True) * x.mean(1)[:, None],
    "exchanged": lambda x: (x[:, :, None] * torch.ones(3)).transpose(1, -1).mean((-1, 1)),
    "a layer norm": nn.LayerNorm(2),
    "there and back": lambda x: x.t().exp().t(),
    "pixels": lambda x: nn.functional.conv1d(x.unsqueeze(1), torch.ones(3, 1, 2)).mean(-1),
    "a stack": lambda x: torch.stack([x.sin(), x.cos()], 1).softmax(1).flatten(1),
    "chosen columns": lambda x: x[:, torch.tensor([1, 0, 1])] * x.index_select(1, ONE),
    "sorted columns": lambda x: x.sort(1).values * x.gather(1, x.argsort(1)),
    "written columns": lambda x: (x * 2).index_copy(1, ONE, x[:, :1]).index_add(1, ONE, x[:, 1:]),
    "matrices of rows": lambda x: torch.linalg.inv(x.unsqueeze(-1) @ x.unsqueeze(1) + torch.eye(2)),
}
# Programs that mix or move rows.
MIXED: dict[str, Callable[[Tensor], Tensor]] = {
    "a place of rows": lambda x: (x * torch.ones(5, 1, 1))[:, 0],
    "a place of no axis": lambda x: (x[:, 0] * torch.ones(5, 1))[:, 0],
    "a sum over rows": lambda x: (x * torch.ones(5, 1, 1)).sum((1, -1)),
    "a sum over all": lambda x: x + x.sum(),
    "a mean over all, of which no axis is named": lambda x: x + x.mean(dim=None),
    "exchanged": lambda x: (x @ torch.ones(2, 5)).t() @ torch.ones(5, 2),
    "rows that were columns": lambda x: (x @ torch.ones(2, 5)).transpose(0, 1),
    "rows in a row": lambda x: x.reshape(2, 5).t(),
    "a view of one more axis": lambda x: (x * torch.ones(5, 1, 1)).view(5, 10),
    "axes of unlike count": lambda x: x[:, 0] + x @ torch.ones(2, 5),
    "cut rows": lambda x: torch.cat([x[1:], x[:1]]),
    "a weight": lambda x: nn.functional.layer_norm(torch.ones(5, 2), (5, 2), x),
}


@pytest.mark.parametrize("name", LABELLED)
def test_rows_are_proven_across_layers_with_other_axes(name: str) -> None:
    x = rows(5, 2).float().requires_grad_()
    assert explain_derivative(LABELLED[name](x), x, (1, 0)).method


@pytest.mark.parametrize("name", MIXED)
def test_mixed_or_moved_rows_are_refused(name: str) -> None:
    x = torch.rand(5, 2, requires_grad=True)
    with pytest.raises((RuntimeError, ValueError)):
        higher_order_grad(MIXED[name](x), x, (1, 0))
