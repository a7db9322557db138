"""What the table says of rows is what gradients that are NaN in one place show of each operator."""

import gc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.fx.experimental.proxy_tensor import make_fx

from leafgrad import _autograd, higher_order_grad
from leafgrad._derivative.arguments import Axes
from leafgrad._derivative.row_independence import RowProof, check_vouch
from leafgrad._derivative.row_spans import Rows
from leafgrad._derivative.taylor.algebra import powers
from leafgrad._derivative.taylor.kernels.fused import FusedLayers
from leafgrad._derivative.taylor.kernels.plans import recurrence
from leafgrad._derivative.taylor.kernels.sigmoidal import Sigmoidal, tanh_derivative
from leafgrad._derivative.taylor.rules import RULES
from tests.derivative.taylor.oracle import marks_of, rows
from tests.derivative.taylor.test_rules import (
    CASES,
    NOT_HERE,
    OF_A_POINT,
    WRITTEN_OUT,
    parameter,
)


def nodes(name: str) -> Iterator[Node]:
    """Yield the nodes of that name in all cases of its rule."""
    written_out = [pair[0] for pair in WRITTEN_OUT.get(name, [])]
    of_rows, of_a_point = CASES.get(name, []) + written_out, OF_A_POINT.get(name, [])
    for functions, shape in ((of_rows, (3, 2)), (of_a_point, (2,))):
        for function in functions:
            x = rows(*shape)
            path = _autograd.path_between(function(x, parameter()), x)
            assert path is not None
            yield from (node for node in path.nodes if _autograd.node_name(node) == name)


def arrivals(node: Node) -> Iterator[tuple[Tensor, list[Tensor | None]]]:
    """Yield where one place of the result sends NaN, and where this arrives at each input."""
    first, *others = _autograd.output_types(node)
    result = torch.ones(tuple(first.shape), dtype=first.dtype)
    rest = [torch.zeros(tuple(other.shape), dtype=other.dtype) for other in others]
    call: Any = node
    # Of a row of inputs that is infinite, any gradient is NaN.
    usual = [each is not None and each.isnan() for each in as_tuple(call(result, *rest))]
    for place in torch.ones_like(result).nonzero().tolist():
        sent = result.clone()
        sent[tuple(place)] = torch.nan
        arrived = as_tuple(call(sent, *rest))
        pairs = zip(arrived, usual, strict=True)
        yield sent.isnan(), [None if one is None else one.isnan() > two for one, two in pairs]


def as_tuple(arrived: Any) -> tuple[Any, ...]:
    return arrived if isinstance(arrived, tuple) else (arrived,)


def keeps_elements_apart(node: Node) -> bool:
    """Return whether NaN stays at its own place in gradients as large as the result."""
    return all(
        each is None or (each.shape == sent.shape and not (each & ~sent).any())
        for sent, arrived in arrivals(node)
        for each in arrived
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=marks_of(name)) for name in sorted(set(RULES) - NOT_HERE)]
)
def test_a_kind_is_row_wise_without_a_matrix_where_it_keeps_elements_apart(name: str) -> None:
    rule = RULES[name]
    # The backward of the one gives zero for a gradient of NaN, the mean of the other is no case.
    if name in {"LogcumsumexpBackward0", "BinaryCrossEntropyBackward0"}:
        assert not rule.rowwise
        return
    assert rule.rowwise == all(map(keeps_elements_apart, nodes(name)))


VIEWS: list[tuple[str, tuple[Any, ...]]] = [
    ("select", (1, 0)),
    ("select", (0, 0)),
    ("slice", (1, 0, 1)),
    ("slice", (0, 1, 3)),
    ("unsqueeze", (2,)),
    ("transpose", (0, 1)),
    ("view", ((3, 2, 1),)),
]


@pytest.mark.parametrize(("name", "given"), VIEWS, ids=str)
def test_a_view_that_is_copied_moves_rows_as_the_view_does(
    name: str, given: tuple[Any, ...]
) -> None:
    views = getattr(torch.ops.aten, name), getattr(torch.ops.aten, f"{name}_copy")
    ends = []
    for view in views:
        x = rows(3, 2)
        y = view(x.sin(), *given)
        ends.append(rows_at_end(prove_outputs(y, x)))
    assert torch.equal(ends[0].whole(), ends[1].whole())


# Whose cases have kinds on the way that are not row-wise.
NEVER_ALONE = {
    "AddBackward1",
    "Atan2Backward0",
    "NegViewBackward0",
    "TrilBackward0",
    "TriuBackward0",
}


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("batch", [(3,), (3, 2)], ids=["rows", "elements"])
def test_probes_confirm_what_the_proof_says(name: str, batch: tuple[int, ...]) -> None:
    proven = 0
    for function in CASES[name]:
        x = rows(3, 2)
        outputs = function(x, parameter())
        if outputs.shape[: len(batch)] != batch:
            continue
        proof = prove_outputs(outputs, x, len(batch))
        if proof.holds:
            check_vouch(outputs, x, (), proof.axes, proof.path)  # raises where rows meet
            proven += 1
    assert proven or name in NEVER_ALONE or not RULES[name].rowwise


def prove(function: Callable[[Tensor], Tensor], x: Tensor, batch: int = 1) -> RowProof:
    return prove_outputs(function(x), x, batch)


def prove_outputs(outputs: Tensor, x: Tensor, batch: int = 1) -> RowProof:
    path = _autograd.path_between(outputs, x)
    assert path is not None
    axes = Axes(x.shape[:batch], x.shape[batch:], is_elementwise=batch == x.dim())
    return RowProof(outputs, x, axes, path, order=2)


def rows_at_end(proof: RowProof) -> Rows:
    assert proof._rows is not None
    return Rows(proof._rows[proof.path.end], tuple(proof.outputs.shape))


ACTIVATIONS = [
    *(nn.LeakyReLU, nn.Hardswish, nn.CELU, nn.ReLU6, nn.SELU, nn.Softshrink, nn.Hardsigmoid),
    *(nn.PReLU, nn.Tanh, nn.GELU),
]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_network_of_layers_is_proven_by_its_kinds(activation: type[nn.Module]) -> None:
    network = nn.Sequential(nn.Linear(2, 4), activation(), nn.Linear(4, 1))
    assert rows_at_end(prove(network, rows(5, 2).float())).labels == (0, None)


ONE = torch.tensor([1])
# Of rows (5, 2): labels show that rows stay in front, so that this holds for any number of rows.
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
# Programs that join rows, or move them.
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
def test_labels_follow_rows_through_axes_that_do_not_count_them(name: str) -> None:
    proof = prove(LABELLED[name], rows(5, 2).float())
    assert rows_at_end(proof).labels is not None
    assert proof.holds


@pytest.mark.parametrize("name", MIXED)
def test_rows_that_are_joined_or_moved_are_not_proven_independent(name: str) -> None:
    assert not prove(MIXED[name], torch.rand(5, 2, requires_grad=True)).holds


def test_elements_that_share_a_column_are_not_proven_independent() -> None:
    x = torch.rand(5, 2, requires_grad=True)
    assert not prove(lambda x: x[:, :1] * x, x, batch=2).holds


# Pairs with the same kinds of nodes, one after the other in the same places, and the same shapes:
# of the first rows stay apart, of the second they do not.
ALIKE: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "another axis is cut": (
        lambda x: torch.cat([x[:, 1:], x[:, :1]], -1),
        lambda x: torch.cat([x[1:], x[:1]], 0),
    ),
    "another axis is put in": (
        lambda x: (x.unsqueeze(-1) * torch.ones(2)).sum(-1),
        lambda x: (x.unsqueeze(0) * torch.ones(2, 1, 1)).sum(1),
    ),
    "another axis is added up": (
        lambda x: x.sum(1, keepdim=True) * torch.ones(2, 2),
        lambda x: x.sum(0, keepdim=True) * torch.ones(2, 2),
    ),
    "other axes are exchanged": (
        lambda x: x.unsqueeze(-1).transpose(1, 2).flatten(1),
        lambda x: x.unsqueeze(-1).transpose(0, 1).flatten(1),
    ),
    "another axis is normalised": (
        lambda x: nn.functional.layer_norm(x, (2,)),
        lambda x: nn.functional.layer_norm(x, (2, 2)),
    ),
    "a weight depends on inputs": (
        lambda x: x @ torch.ones(2, 2),
        lambda x: torch.ones(2, 2) @ x,
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_graphs_of_one_form_are_told_apart_by_what_their_nodes_hold(name: str) -> None:
    apart, mixed = ALIKE[name]
    x = torch.rand(2, 2, requires_grad=True)
    for _ in range(3):
        assert prove(apart, x).holds
        assert not prove(mixed, x).holds


def test_threads_that_prove_at_once_prove_the_same() -> None:
    def is_right(number: int) -> bool:
        apart, mixed = [*ALIKE.values()][number % len(ALIKE)]
        x = torch.rand(2, 2, requires_grad=True)
        return prove(apart, x).holds and not prove(mixed, x).holds

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(is_right, range(200)))


def test_what_is_remembered_of_kinds_keeps_no_graph() -> None:
    x = torch.rand(5, 2, requires_grad=True)
    assert prove(LABELLED["bases"], x).holds
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("name", LABELLED)
def test_labels_prove_rows_for_sizes_that_have_no_value(name: str) -> None:
    seen: list[tuple[type, bool]] = []

    def traced(x: Tensor) -> Tensor:
        leaf = x.detach().requires_grad_()
        seen.append((type(leaf.shape[0]), prove(LABELLED[name], leaf).is_of_formulas))
        return x

    make_fx(traced, tracing_mode="symbolic", _allow_non_fake_inputs=True)(torch.rand(5, 2))
    assert seen == [(torch.SymInt, True)]


# --- Derivatives of derivatives


def squashed(x: Tensor) -> Tensor:
    return (x @ torch.ones(3, 4, dtype=x.dtype)).tanh() @ torch.ones(4, 1, dtype=x.dtype)


def slope_of(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]


# Derivatives of rows (5, 3) in the graph of which there is a kind of node.
OF_DERIVATIVES: dict[str, Callable[[Tensor], Tensor]] = {
    "_FusedBackward": lambda x: higher_order_grad(squashed(x), x, (2, 0, 0)),
    "_SolutionBackward": lambda x: higher_order_grad((x * x).exp(), x, (2, 0, 0)),
    "_SinCosBackward": lambda x: higher_order_grad((x * x).sin(), x, (5, 0, 0)),
    "_ContractBackward": lambda x: higher_order_grad(
        torch.linalg.cross(x.sin(), (x * x).exp()), x, (2, 0, 0)
    ),
    "_ProductBackward": lambda x: higher_order_grad(x.sin() * (x * x).exp(), x, (2, 0, 0)),
    "TanhBackwardBackward0": slope_of(torch.tanh),
    "SoftplusBackwardBackward0": slope_of(lambda x: nn.functional.softplus(squashed(x))),
}


@pytest.mark.parametrize("name", OF_DERIVATIVES)
def test_rows_of_a_derivative_are_proven_to_stay_apart(name: str) -> None:
    x = rows(5, 3)
    outputs = OF_DERIVATIVES[name](x)
    proof = prove_outputs(outputs, x)
    assert name in map(_autograd.node_name, proof.path.nodes)
    assert proof.holds
    check_vouch(outputs, x, (), proof.axes, proof.path)  # raises where rows meet


# Layers of coefficients that rows would meet in, and one that they do not.
AS_LAYERS: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "coefficients times a constant": (lambda x: layers(x[None], torch.ones(3, 2)), True),
    "rows in columns": (lambda x: layers(x.T[None], torch.ones(5, 2)), False),
    "a matrix of rows": (lambda x: layers(torch.ones(1, 4, 5), x), False),
    "rows in front": (lambda x: layers(x[:, None], torch.ones(3, 2)), False),
}


def layers(start: Tensor, matrix: Tensor) -> Tensor:
    """Return coefficients that a product and an activation made."""
    plan = recurrence(powers(2), tuple(range(len(start))))
    value = torch.zeros(*start.shape[1:-1], matrix.shape[1], dtype=torch.float64)
    start, matrix = start.double(), matrix.double()
    made = FusedLayers(start).then(None, matrix)
    return made.then(Sigmoidal(plan, tanh_derivative), value).stack


@pytest.mark.parametrize("name", AS_LAYERS)
def test_layers_are_followed_where_neither_matrices_nor_columns_hold_rows(name: str) -> None:
    function, is_followed = AS_LAYERS[name]
    x = rows(2 if name == "rows in front" else 5, 3)
    outputs = function(x)  # without which older versions of PyTorch do not tell a node's name
    assert rows_at_end(prove_outputs(outputs, x)).are_apart(len(x)) == is_followed


def test_a_function_of_the_same_name_is_not_taken_for_one_of_ours() -> None:
    class _Solution(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return x.flip(0)

        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            return gradients[0].flip(0)

    x = rows(5, 2)
    outputs = _Solution.apply(x)  # type: ignore[no-untyped-call]
    path = _autograd.path_between(outputs, x)
    assert path is not None
    assert [*map(_autograd.node_name, path.nodes)] == ["_SolutionBackward"]
    assert not prove_outputs(outputs, x).holds


def test_a_formula_with_several_results_is_not_followed() -> None:
    x, slope = rows(5, 2), torch.rand(2, dtype=torch.float64, requires_grad=True)
    y = nn.functional.prelu(x, slope)
    _, to_slope = torch.autograd.grad(y.square().sum(), (x, slope), create_graph=True)
    outputs = x * to_slope
    path = _autograd.path_between(outputs, x)
    assert path is not None
    assert "PreluKernelBackwardBackward0" in map(_autograd.node_name, path.nodes)
    assert not prove_outputs(outputs, x).holds


SIDE = torch.tensor([True, False, True, True, False])
OTHER = torch.tensor([True, True, False, True, False])
Masked = Callable[[Tensor], Tensor]


def put(x: Tensor, mask: Tensor, values: Tensor) -> Tensor:
    result = torch.zeros_like(x)
    result[mask] = values
    return result


FIRST = torch.tensor([1, 0])

PROVEN: dict[str, Masked] = {
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
}
NOT_PROVEN: dict[str, Masked] = {
    "other numbers": lambda x: put(x, torch.tensor([0, 2]), x[torch.tensor([2, 0])]),
    "rows of rows": lambda x: put(x, torch.tensor([0, 1]), x[SIDE][torch.tensor([0, 1])]),
    "rows of another mask": lambda x: put(x, OTHER, x[SIDE]),
    "no axes": lambda x: x.sin().sum(()) + x,
    "one row": lambda x: x.index_put((SIDE,), (x * 2)[0]),
    "what is left over": lambda x: x[SIDE],
}


def proven(function: Masked, given: Tensor | None = None) -> bool:
    return prove(function, rows(5, 2) if given is None else given).holds


@pytest.mark.parametrize("name", PROVEN)
def test_rows_that_one_mask_takes_and_puts_back_stay_apart(name: str) -> None:
    assert proven(PROVEN[name])
    x = rows(5, 2)
    ours = higher_order_grad(PROVEN[name], x, (1, 0))
    (theirs,) = torch.autograd.grad(PROVEN[name](x).sum(), x)
    assert torch.equal(ours.sum(1), theirs[:, 0])


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_rows_that_something_else_moves_are_not_proven_to_stay_apart(name: str) -> None:
    assert not proven(NOT_PROVEN[name])


def test_rows_that_a_mask_puts_elsewhere_are_refused() -> None:
    x = rows(5, 2)
    with pytest.raises(RuntimeError, match="moved to another place"):
        higher_order_grad(NOT_PROVEN["rows of another mask"](x), x, (1, 0))


def test_masks_that_hooks_make_anew_are_not_taken_for_one() -> None:
    with torch.autograd.graph.saved_tensors_hooks(Tensor.clone, Tensor.clone):
        assert not proven(NOT_PROVEN["rows of another mask"])
        assert proven(PROVEN["rows over rows"])


def is_in(name: str, outputs: Tensor) -> bool:
    assert outputs.grad_fn is not None
    return name in map(_autograd.node_name, _autograd.walk([outputs.grad_fn]))


def test_a_recurrent_layer_keeps_rows_apart_but_not_its_steps() -> None:
    layer = nn.LSTM(2, 3)
    x = torch.rand(5, 2, requires_grad=True)
    if not is_in("MkldnnRnnLayerBackward0", layer(x[None])[0]):
        pytest.skip("it is made of other operations here")

    assert proven(lambda x: layer(x[None])[0][-1], x)
    assert proven(lambda x: layer(x[None])[1][0][0], x)
    assert not proven(lambda x: layer(x[:, None])[0], x)
    state = torch.zeros(1, 5, 3)
    assert proven(lambda x: layer(x[None], (x[None, :, :1] + state, state))[0][-1], x)
