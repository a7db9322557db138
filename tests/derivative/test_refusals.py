"""`higher_order_grad` refuses what it cannot compute; its errors state the condition and a fix."""

import sys
from collections.abc import Callable
from cProfile import Profile
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from leafgrad import higher_order_grad, laplacian
from tests.derivative.refusals import words
from tests.derivative.taylor.oracle import column, table
from tests.messages import message
from tests.tensors import Cube, custom, outcome_of


def network(*layers: torch.nn.Module) -> torch.nn.Sequential:
    first, last = torch.nn.Linear(2, 4), torch.nn.Linear(4, 1)
    return torch.nn.Sequential(first, *layers, torch.nn.Tanh(), last).double()


def assert_refused(
    pattern: str,
    error: type[Exception] | tuple[type[Exception], ...],
    outputs: Any,
    inputs: Any,
    order: Any,
    **options: Any,
) -> None:
    with pytest.raises(error, match=pattern):
        higher_order_grad(outputs, inputs, order, **options)


# --- Types, shapes, methods


@pytest.mark.parametrize(
    ("outputs", "inputs", "pattern"),
    [
        (column(), {"x": column()}, words("tensor.type", name="inputs", type="dict")),
        (column(), (column(), None), words("tensor.type", name="inputs[1]", type="NoneType")),
        (column(), np.ones((5, 1)), words("tensor.type", help=message("derivative.tensor.make"))),
        (
            column(),
            torch.exp,
            words("tensor.type", help=message("derivative.tensor.swapped-function")),
        ),
        (column(), torch.ones(5, 1, dtype=torch.int64), words("tensor.dtype", name="inputs")),
        (column(), torch.ones(5, 1, dtype=torch.complex64), words("tensor.complex", name="inputs")),
        (column(), torch.eye(5).to_sparse(), words("tensor.layout", name="inputs")),
        (column().to_sparse(), column(), words("tensor.layout", name="outputs")),
        (torch.ones, torch.ones(5, 1, device="meta"), words("tensor.meta", name="inputs")),
        (column() + 1j, column(), words("tensor.complex", dtype="torch.complex128")),
        (column().long(), column(), words("tensor.dtype", dtype="torch.int64")),
        ([column()], column(), words("function.type", type="list")),
        (lambda x: (x, x), column(), words("function.returned-several", type="tuple")),
        (lambda _: None, column(), words("function.returned-none")),
        (lambda x: {"u": x}, column(), words("function.returned", type="dict")),
    ],
)
def test_only_real_dense_tensors_are_differentiated(
    outputs: Any, inputs: Any, pattern: str
) -> None:
    assert_refused(pattern, TypeError, outputs, inputs, 1)


def test_tensor_inside_transform_is_refused() -> None:
    def inside(x: Tensor) -> Tensor:
        return higher_order_grad(x**2, x, 2)

    pattern = words("tensor.transform", name="inputs", wrapper="vmap, level 1")
    with pytest.raises(RuntimeError, match=pattern):
        torch.func.vmap(inside)(column())


def test_transform_over_parameters_is_refused() -> None:
    inputs = column().detach()

    def residual(weight: Tensor) -> Tensor:
        return higher_order_grad(lambda x: (weight * x).tanh(), inputs, 2)

    with pytest.raises(RuntimeError, match=words("tensor.transform-inputs")):
        torch.func.jacrev(residual)(torch.ones(()))


@pytest.mark.parametrize(
    ("outputs", "inputs", "cure"),
    [
        ((4, 1), (5, 1), ""),
        ((3,), (), ""),
        ((6, 5), (4, 2), ""),
        ((), (4, 2), "scalar"),
        ((4, 1), (4, 5, 3), "flatten"),
        ((6, 4), (4, 2), "batch-last"),
    ],
    ids=str,
)
def test_error_for_mismatched_shapes_names_both_and_a_fix(
    outputs: tuple[int, ...], inputs: tuple[int, ...], cure: str
) -> None:
    x = torch.ones(inputs, requires_grad=True)
    order = (2, *[0] * (len(inputs) - 1)) if inputs else 1
    cure = cure and message(f"derivative.shapes.{cure}")
    pattern = words("shapes.mismatch", outputs=outputs, inputs=inputs, help=cure) + "$"
    assert_refused(pattern, ValueError, x.sum() * torch.ones(outputs), x, order)


@pytest.mark.parametrize("method", ["Taylor", "forward", None])
def test_unknown_method_is_refused(method: Any) -> None:
    pattern = words("method", value=method)
    assert_refused(pattern, ValueError, torch.exp, column(), 1, method=method)


@pytest.mark.parametrize("function", [higher_order_grad, laplacian])
def test_flags_must_be_bools(function: Any) -> None:
    x = table()
    order = [(2, 0)] if function is higher_order_grad else []
    with pytest.raises(TypeError, match=words("flag", name="create_graph", value="no")):
        function(x.prod(1), x, *order, create_graph="no")
    pattern = words("flag", name="allow_unused", value=1)
    assert_refused(pattern, TypeError, x.prod(1), x, (2, 0), allow_unused=1)


# --- Graphs that are missing, cut, freed or overwritten


def test_inputs_must_require_grad() -> None:
    x = column().detach()
    assert_refused(words("graph.inputs-no-grad"), RuntimeError, x * column(), x, 1)


def test_outputs_must_have_a_graph() -> None:
    x = column()
    with torch.no_grad():
        outputs = x**2
    pattern = words("graph.outputs-no-grad")
    for allow_unused in (False, True):
        assert_refused(pattern, RuntimeError, outputs, x, 1, allow_unused=allow_unused)


@pytest.mark.parametrize(
    "outputs",
    [
        pytest.param(lambda _: column() * 2, id="another tensor"),
        pytest.param(lambda x: x.clone().detach().requires_grad_() * 2, id="a copy"),
        pytest.param(lambda _: column(), id="a leaf"),
    ],
)
def test_outputs_must_depend_on_inputs(outputs: Callable[[Tensor], Tensor]) -> None:
    x = column()
    pattern = words("graph.no-path-or-zeros", why=message("derivative.graph.another"))
    assert_refused(pattern, RuntimeError, outputs(x), x, 1)


def test_laplacian_error_does_not_mention_allow_unused() -> None:
    with pytest.raises(RuntimeError, match=words("graph.no-path") + "$") as caught:
        laplacian(table().prod(1), table())
    assert "allow_unused" not in str(caught.value)


@pytest.mark.parametrize(
    ("take", "first", "last"),
    [
        pytest.param(lambda x: x[:, 0:1], 0, 0, id="a slice"),
        pytest.param(lambda x: x[..., 1], 1, 1, id="a column without its axis"),
        pytest.param(lambda x: x.split(1, dim=1)[2], 2, 2, id="a part of a split"),
        pytest.param(lambda x: x[:, 1:3], 1, 2, id="a wide slice"),
        pytest.param(lambda x: x[:, 1:][:, 1:2], 2, 2, id="a slice of a slice"),
    ],
)
@pytest.mark.parametrize("allow_unused", [False, True])
def test_error_names_columns_of_sliced_inputs(
    take: Callable[[Tensor], Tensor], first: int, last: int, *, allow_unused: bool
) -> None:
    points = table(columns=3)
    inputs = take(points)
    outputs = points.prod(dim=1)
    order = (0,) * (inputs.shape[-1] - 1) + (2,) if inputs.dim() > 1 else 2
    key = "graph.column" if first == last else "graph.columns"
    pattern = words(key, shape=(5, 3), first=first, last=last, length=3)
    assert_refused(pattern, RuntimeError, outputs, inputs, order, allow_unused=allow_unused)


@pytest.mark.parametrize("order", [(2,), (2, 0), 2])
@pytest.mark.parametrize("has_channel", [False, True], ids=["a value a row", "a column"])
def test_error_about_sliced_inputs_precedes_error_about_order(
    order: int | tuple[int, ...], *, has_channel: bool
) -> None:
    points = table()
    outputs = points.prod(1, keepdim=has_channel)
    pattern = words("graph.column", first=0)
    assert_refused(pattern, RuntimeError, outputs, points[:, 0], order)
    assert_refused(pattern, RuntimeError, outputs, points[:, :1], order)


@pytest.mark.parametrize(
    "take",
    [
        pytest.param(lambda x: x[:4], id="rows"),
        pytest.param(lambda x: x[:4].t(), id="transposed"),
        pytest.param(lambda x: x[:, ::2][:4], id="every other column"),
        pytest.param(lambda x: x[:, ::2], id="every other column of all"),
    ],
)
def test_tensor_view_that_outputs_do_not_use_is_refused(take: Callable[[Tensor], Tensor]) -> None:
    points = table(columns=4)
    inputs = take(points)
    outputs = points.prod(dim=1)[: inputs.shape[0]]
    order = (1,) + (0,) * (inputs.shape[-1] - 1)
    assert_refused(words("graph.view"), RuntimeError, outputs, inputs, order)


def test_error_does_not_call_view_of_unrelated_tensor_a_slice() -> None:
    points, other = table(), table()
    assert_refused(
        words("graph.no-path-or-zeros"), RuntimeError, points.prod(dim=1), other[:, 0], 1
    )


@pytest.mark.parametrize("method", ["auto", "taylor", "reverse"])
def test_error_names_freed_node(method: Any) -> None:
    x = table()
    outputs = x.exp().sin()
    outputs.sum().backward()
    pattern = words("graph.freed", node="ExpBackward0")
    assert_refused(pattern, RuntimeError, outputs, x, (2, 0), method=method)
    with pytest.raises(RuntimeError, match=pattern):
        laplacian(outputs, x, method=method)


def test_freed_node_of_another_graph_raises_error_of_pytorch() -> None:
    x, w = column(), torch.ones(1, dtype=torch.float64, requires_grad=True)
    other = w.exp()

    class Another(Cube):
        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            torch.autograd.grad(other, w)
            return gradients[0]

    other.backward()
    with pytest.raises(RuntimeError, match=r"^Trying to backward through the graph a second time"):
        higher_order_grad(outcome_of(Another, x), x, 1, create_graph=False)


def test_error_says_that_inputs_were_changed_in_place() -> None:
    x = table() * 1
    outputs = x.exp().sum(1)
    x.add_(1)
    changed = message("derivative.graph.changed", version=1)
    assert_refused(words("graph.no-path-or-zeros", why=changed), RuntimeError, outputs, x, (2, 0))


@pytest.mark.parametrize(
    ("result", "order"),
    [
        pytest.param(lambda x: x.prod(1), (2, 0), id="a value a row"),
        pytest.param(lambda x: x.exp(), (1, 0, 0), id="the same shape"),
        pytest.param(lambda x: x.exp(), 1, id="an order that fits"),
        pytest.param(lambda x: x.sum(), 1, id="one number"),
    ],
)
def test_error_says_that_inputs_and_outputs_are_swapped(
    result: Callable[[Tensor], Tensor], order: int | tuple[int, ...]
) -> None:
    x = table()
    why = message("derivative.graph.swapped-here")
    pattern = f"{words('graph.no-path', why=why)}|{words('graph.swapped')}"
    assert_refused(pattern, (RuntimeError, ValueError), x, result(x), order)
    with pytest.raises((RuntimeError, ValueError), match=pattern):
        laplacian(x, result(x), dims=[2])


def test_order_that_does_not_match_columns_is_named() -> None:
    x = table()
    pattern = words("order.counts", columns=2, value=(1, 0, 0))
    assert_refused(pattern, ValueError, x.prod(1), x, (1, 0, 0))
    assert_refused(pattern, ValueError, x, x, (1, 0, 0))
    pattern = words("order.one-count", value=(2, 0))
    assert_refused(pattern, ValueError, table()[:, :1].exp(), table()[:, :1], (2, 0))


@pytest.mark.parametrize("order", [1, 2])
def test_cdist_is_refused_in_reverse_mode_with_create_graph(order: int) -> None:
    if torch.__version__ >= "2.15":
        pytest.skip("PyTorch 2.15 has this second derivative")
    x = column()
    outputs = torch.cdist(x, x.detach()[:3] + 1)
    missing = words("double-backward.no-formula", help="")[:-2]
    assert_refused(f"CdistBackward0, {missing}", RuntimeError, outputs, x, order, method="reverse")
    first = higher_order_grad(outputs, x, 1, method="reverse", create_graph=False)
    assert torch.equal(first, torch.sign(x - (x[:3] + 1).T).detach())
    torch.testing.assert_close(higher_order_grad(outputs, x, 1), first)


def test_first_derivative_can_be_differentiated_by_parameters() -> None:
    x, w = table(), torch.linspace(-1, 1, 4, dtype=torch.float64, requires_grad=True)
    outputs = torch.nn.functional.hardsigmoid((x.sum(1, keepdim=True) * w).sin()).sum(1)
    (gradient,) = torch.autograd.grad(higher_order_grad(outputs, x, (1, 0)).sum(), w)
    angle = x.sum(1, keepdim=True) * w
    written_out = (angle.cos() * w / 6).sum()
    torch.testing.assert_close(gradient, torch.autograd.grad(written_out, w)[0])


def test_missing_formula_is_reported_with_error_of_pytorch() -> None:
    class Distance(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            raise NotImplementedError("there is no formula for this one.")

    pattern = words("graph.no-formula", error="there is no formula for this one")
    for rows in (1, 5):
        x = column(rows)
        outputs = outcome_of(Distance, x)
        assert_refused(pattern, RuntimeError, outputs, x, 1, create_graph=False)


def test_tensor_changed_in_place_raises_error_of_pytorch() -> None:
    x = column()
    inner = x * 1
    outputs = inner.sin()
    inner.add_(1)
    assert_refused("modified by an inplace operation", RuntimeError, outputs, x, 2)


def test_retained_gradient_is_restored_after_error() -> None:
    x = column()
    outputs = x.mean(0) * x
    outputs.retain_grad()
    assert_refused("each row of outputs", RuntimeError, outputs, x, 2)
    assert outputs.grad is None


# --- Rows that are not independent


def test_batch_norm_in_training_mode_is_refused_by_name() -> None:
    points, model = table(), network(torch.nn.BatchNorm1d(4))
    pattern = words(
        "rows-must.row", why=message("derivative.rows-must.batch-norm", one=[0], other=[4])
    )
    assert_refused(pattern + "$", RuntimeError, model(points), points, (2, 0))
    assert higher_order_grad(model.eval()(points), points, (2, 0)).shape == (5, 1)


def test_error_for_mixed_elements_explains_rows() -> None:
    points = table()
    node = {"node": "SoftmaxBackward0", "shape": (5, 2)}
    why = message("derivative.rows-must.meet", one=[0, 0], other=[0, 1], **node)
    pattern = words("rows-must.element", why=why, shape=(5, 2)) + words("rows-must.promise")
    assert_refused(pattern, RuntimeError, points.softmax(dim=1), points, 2)


@pytest.mark.parametrize("reduce", [torch.mean, torch.sum, lambda x: x.sum(0)])
def test_error_suggests_rows_option_only_if_rows_may_be_independent(
    reduce: Callable[[Tensor], Tensor],
) -> None:
    points = table()
    with pytest.raises(RuntimeError, match=words("rows-must.row")) as caught:
        higher_order_grad(points * reduce(points), points, (1, 0))
    assert "rows=" not in str(caught.value)
    pattern = words("rows-must.promise")  # a matrix product may multiply by zeros
    assert_refused(pattern, RuntimeError, points @ points.T @ points, points, (1, 0))


def test_error_names_row_and_node_that_moves_it() -> None:
    points = torch.ones(3, 4, 2, requires_grad=True)
    outputs = points.prod(dim=-1)
    outputs = torch.cat([outputs[:, :2], outputs[:, 3:], outputs[:, 3:]], dim=1)
    pattern = words("rows-must.moved", row=[0, 3], node="CatBackward0")
    assert_refused(pattern, RuntimeError, outputs, points, (1, 0))


# --- What can be differentiated only once


def cubing(backward: Callable[..., Any], keep: Callable[[Tensor], Any] | None = None) -> Any:
    """Return a custom function that cubes x and has this backward.

    It stores `keep(x)` instead of x.
    """

    class Cubing(Cube):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            if keep is None:
                ctx.save_for_backward(x)
            else:
                ctx.kept = keep(x)
            return x**3

    Cubing.backward = staticmethod(backward)  # type: ignore[method-assign]
    return Cubing


differentiable_once: Any = once_differentiable
ONCE = cubing(differentiable_once(lambda c, g: 3 * c.saved_tensors[0] ** 2 * g))
SMOOTHED = cubing(lambda c, g: 3 * c.saved_tensors[0].mean() ** 2 * g)
# Functions whose backward graph is incomplete, each with the key of the message that says why.
SHORTCOMINGS: dict[str, tuple[str, Any]] = {
    "once": ("once", ONCE),
    "no graph": ("nothing", cubing(lambda c, g: 3 * c.saved_tensors[0].detach() ** 2 * g.detach())),
    "half a graph": ("unused", cubing(lambda c, g: 3 * c.saved_tensors[0].detach() ** 2 * g)),
    "a list": ("no-graph", cubing(lambda c, g: c.kept[0] * g, lambda x: [3 * x**2])),
    "a dict": ("no-graph", cubing(lambda c, g: c.kept["of"][0] * g, lambda x: {"of": [3 * x**2]})),
    "an array": (
        "array",
        cubing(lambda c, g: torch.from_numpy(c.kept) * g, lambda x: 3 * x.detach().numpy() ** 2),
    ),
}


class InPlace(Cube):
    """Overwrites its input, and saves a copy that has no graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.clone())
        ctx.mark_dirty(x)
        return x.pow_(3)


class OnceInPlace(InPlace):
    backward = ONCE.backward


@pytest.mark.parametrize("name", SHORTCOMINGS)
@pytest.mark.parametrize("rest", [lambda x: 0 * x, torch.exp], ids=["alone", "with a rest"])
def test_function_with_incomplete_backward_graph_is_refused(
    name: str, rest: Callable[[Tensor], Tensor]
) -> None:
    x = column()
    key, function = SHORTCOMINGS[name]
    outputs = outcome_of(function, x.sin()) + rest(x)
    missing = message(f"derivative.double-backward.{key}")
    pattern = words("double-backward.refusal", node="CubingBackward", missing=missing)
    promise: dict[str, Any] = {"rows": "independent"}
    assert_refused(pattern, RuntimeError, outputs, x, 2, **promise)
    assert_refused(pattern, RuntimeError, outputs, x, 1, **promise)
    assert_refused(pattern, RuntimeError, outputs, x, 2, create_graph=False, **promise)


class HalfSilentProduct(torch.autograd.Function):
    """A product whose backward detaches x but uses y, which may be a function of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.hidden = {"y": y}
        return x**2 * y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, y = ctx.saved_tensors[0].detach(), ctx.hidden["y"]
        return 2 * x * y * gradients[0], x**2 * gradients[0]


def test_function_is_refused_if_its_backward_detaches_saved_tensor() -> None:
    x = column()
    outputs = outcome_of(HalfSilentProduct, x, x.tanh())
    assert_refused(words("double-backward.unused"), RuntimeError, outputs, x, 2)


@pytest.mark.parametrize("function", [InPlace, OnceInPlace])
def test_custom_function_writing_into_view_is_refused(
    function: type[torch.autograd.Function],
) -> None:
    x = column()
    outputs = torch.cat([x, x], dim=1)
    outcome_of(function, outputs[:, :1])
    pattern = f"CopySlices, {words('double-backward.hidden')}"
    assert_refused(pattern, RuntimeError, outputs, x, 2)
    first = higher_order_grad(outputs, x, 1, create_graph=False, rows="independent")
    torch.testing.assert_close(first, torch.cat([3 * x**2, torch.ones_like(x)], dim=1))


def test_write_into_view_is_differentiated_under_profiler() -> None:
    x = column()
    outputs = torch.cat([x, x], dim=1)
    outputs[:, :1].sin_()
    profiler: Any = Profile()
    profiler.enable()
    second = higher_order_grad(outputs, x, 2, method="reverse")
    is_still_on = sys.getprofile() is profiler
    second.sum().backward()
    profiler.create_stats()
    assert is_still_on
    assert "backward" in {name for _, _, name in profiler.stats}
    torch.testing.assert_close(second, torch.cat([-x.sin(), 0 * x], dim=1))


@pytest.mark.parametrize("name", SHORTCOMINGS)
def test_function_with_incomplete_backward_graph_has_first_derivative(name: str) -> None:
    x = column()
    outputs = outcome_of(SHORTCOMINGS[name][1], x)
    first = higher_order_grad(outputs, x, 1, create_graph=False, rows="independent")
    torch.testing.assert_close(first, 3 * x.detach() ** 2)


def test_custom_function_with_differentiable_backward_has_all_orders() -> None:
    x = column()
    for order, expected in enumerate((3 * x**2, 6 * x, 0 * x + 6, 0 * x), start=1):
        torch.testing.assert_close(higher_order_grad(outcome_of(Cube, x), x, order), expected)


@pytest.mark.parametrize("create_graph", [True, False])
def test_backward_that_mixes_rows_is_refused_from_order_two(*, create_graph: bool) -> None:
    x = column()
    outputs = outcome_of(SMOOTHED, x)
    node = {"node": "CubingBackward", "shape": (5, 1)}
    pattern = words("rows-must.custom", one=[0], other=[4], **node)
    assert_refused(pattern, RuntimeError, outputs, x, 2, create_graph=create_graph)
    first = higher_order_grad(outputs, x, 1, create_graph=create_graph)
    torch.testing.assert_close(first, (3 * x.mean() ** 2).expand_as(x))


def test_backward_that_mixes_rows_is_accepted_for_single_row() -> None:
    x = column()[:1].detach().requires_grad_()
    torch.testing.assert_close(higher_order_grad(outcome_of(SMOOTHED, x), x, 2), 6 * x)


def test_twice_differentiable_function_is_refused_at_order_three() -> None:
    x = column()
    twice = cubing(lambda c, g: 3 * outcome_of(ONCE, c.saved_tensors[0]) / c.saved_tensors[0] * g)
    outputs = outcome_of(twice, x)
    promise: dict[str, Any] = {"rows": "independent"}  # ONCE does not show whether it mixes rows
    second = higher_order_grad(outputs, x, 2, create_graph=False, **promise)
    torch.testing.assert_close(second, 6 * x.detach())
    once = message("derivative.double-backward.once")
    pattern = words("double-backward.refusal", order=2, missing=once)
    assert_refused(pattern, RuntimeError, outputs, x, 3, **promise)
    assert_refused(pattern, RuntimeError, outputs, x, 2, **promise)


def test_function_that_saves_no_tensor_is_accepted_as_linear() -> None:
    x = column()
    first, second = higher_order_grad(custom(lambda g: -g)(x**2), x, [1, 2])
    torch.testing.assert_close(first, -2 * x)
    torch.testing.assert_close(second, 0 * x - 2)


def test_once_differentiable_function_outside_the_path_is_accepted() -> None:
    x, w = column(), torch.ones(1, dtype=torch.float64, requires_grad=True)
    second = higher_order_grad(outcome_of(ONCE, w) * x**2, x, 2)
    torch.testing.assert_close(second, 2 * w.expand(5, 1))


def test_compiled_model_is_refused_with_advice() -> None:
    points, model = table(), network()
    compiled = torch.compile(model, backend="aot_eager")
    outputs = compiled(points)
    pattern = words("graph.compiled")
    assert_refused(pattern, RuntimeError, outputs, points, (2, 0))
    assert_refused(pattern, RuntimeError, outputs, points, (1, 0), create_graph=False)


class Harmonic(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return laplacian(lambda x: x.sin().sum(1), x)


def test_call_within_export_is_refused_with_advice() -> None:
    with pytest.raises(RuntimeError, match=words("export")):
        torch.export.export(Harmonic(), (torch.ones(4, 2),))


def test_unknown_node_is_refused() -> None:
    x = column()
    outputs = torch._foreach_exp([x])[
        0
    ]  # the kind of node is known, but it hides its saved tensors
    assert_refused(words("double-backward.unknown"), RuntimeError, outputs, x, 2)


def test_operator_without_formula_is_refused_at_order_one() -> None:
    library = torch.library.Library("leafgrad_refusals", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x.detach().exp(), "CPU")
    x = column()
    outputs = torch.ops.leafgrad_refusals.f(x)
    pattern = words("graph.no-operator-formula")
    assert_refused(pattern, RuntimeError, outputs, x, 1, create_graph=False)


def test_exponentially_growing_graph_is_refused() -> None:
    x = column(2)
    outputs = x.tanh().tanh().tanh()
    pattern = words("graph.growth")
    assert_refused(pattern, RuntimeError, outputs, x, 30, method="reverse")
    torch.testing.assert_close(
        higher_order_grad(outputs, x, 4, method="reverse"), higher_order_grad(outputs, x, 4)
    )
    higher_order_grad(x.exp(), x, 30, method="reverse")  # this graph grows by one node per order


@pytest.mark.parametrize("rows", [1, 5])
def test_reentrant_checkpoint_raises_error_of_pytorch(rows: int) -> None:
    points, model = table(rows), network()
    outputs = checkpoint(model, points, use_reentrant=True)
    assert_refused("use_reentrant=True", RuntimeError, outputs, points, (2, 0))
    assert all(parameter.grad is None for parameter in model.parameters())
