"""higher_order_grad refuses what it cannot answer, and says what must hold, what came, the cure."""

import re
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


def column(rows: int = 5) -> Tensor:
    x = torch.linspace(0.2, 1.7, rows, dtype=torch.float64)
    return x.unsqueeze(1).requires_grad_()


def table(rows: int = 5, columns: int = 2) -> Tensor:
    x = torch.linspace(0.2, 1.7, rows * columns, dtype=torch.float64).sin() + 0.5
    return x.reshape(rows, columns).requires_grad_()


def network(*layers: torch.nn.Module) -> torch.nn.Sequential:
    first, last = torch.nn.Linear(2, 4), torch.nn.Linear(4, 1)
    return torch.nn.Sequential(first, *layers, torch.nn.Tanh(), last).double()


def assert_refused(
    message: str,
    error: type[Exception] | tuple[type[Exception], ...],
    outputs: Any,
    inputs: Any,
    order: Any,
    **options: Any,
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        higher_order_grad(outputs, inputs, order, **options)


# --- Types, shapes, methods


@pytest.mark.parametrize(
    ("outputs", "inputs", "message"),
    [
        (column(), {"x": column()}, "inputs must be a tensor, not of type dict"),
        (column(), torch.ones(5, 1, dtype=torch.int64), "inputs must be floating point, not"),
        (column(), torch.ones(5, 1, dtype=torch.complex64), "inputs must be real, not"),
        (column(), torch.eye(5).to_sparse(), "inputs must be dense, not torch.sparse_coo"),
        (column().to_sparse(), column(), "outputs must be dense, not torch.sparse_coo"),
        (torch.ones, torch.ones(5, 1, device="meta"), "inputs must hold data, which a tensor on"),
        (column() + 1j, column(), "outputs must be real, not torch.complex128"),
        (column().long(), column(), "outputs must be floating point, not torch.int64"),
        ([column()], column(), "outputs must be a tensor, or a function that computes one"),
        (lambda x: (x, x), column(), "outputs must be a tensor, not of type tuple"),
    ],
)
def test_what_is_no_real_dense_tensor_is_a_type_error(
    outputs: Any, inputs: Any, message: str
) -> None:
    assert_refused(message, TypeError, outputs, inputs, 1)


def test_a_tensor_inside_a_transform_is_refused() -> None:
    def inside(x: Tensor) -> Tensor:
        return higher_order_grad(x**2, x, 2)

    message = "inputs must be a plain tensor, not one inside torch.func (vmap, level 1)"
    with pytest.raises(RuntimeError, match=re.escape(message)):
        torch.func.vmap(inside)(column())


def test_gradients_in_parameters_by_a_transform_are_refused_with_their_cure() -> None:
    inputs = column().detach()

    def residual(weight: Tensor) -> Tensor:
        return higher_order_grad(lambda x: (weight * x).tanh(), inputs, 2)

    message = r"inputs must require grad before torch.func is called: .* is_grads_batched=True"
    with pytest.raises(RuntimeError, match=message):
        torch.func.jacrev(residual)(torch.ones(()))


@pytest.mark.parametrize(
    ("outputs", "inputs"), [((4, 1), (5, 1)), ((3,), ()), ((5, 4), (4, 2)), ((), (2, 3))]
)
def test_shapes_that_do_not_fit_are_named(
    outputs: tuple[int, ...], inputs: tuple[int, ...]
) -> None:
    x = torch.ones(inputs, requires_grad=True)
    message = f"but outputs has the shape {outputs} and inputs {inputs}"
    assert_refused(message, ValueError, x.sum() * torch.ones(outputs), x, 1)


@pytest.mark.parametrize("method", ["Taylor", "forward", None])
def test_an_unknown_method_is_told_the_known_ones(method: Any) -> None:
    message = f'method must be "auto", "taylor" or "reverse", not {method!r}'
    assert_refused(message, ValueError, torch.exp, column(), 1, method=method)


# --- Graphs that are missing, cut, freed or overwritten


def test_inputs_must_require_grad() -> None:
    x = column().detach()
    assert_refused("inputs must require grad before outputs", RuntimeError, x * column(), x, 1)


def test_outputs_must_carry_a_graph() -> None:
    x = column()
    with torch.no_grad():
        outputs = x**2
    for allow_unused in (False, True):
        assert_refused(
            *("outputs must carry the graph that computed it from inputs", RuntimeError),
            *(outputs, x, 1),
            allow_unused=allow_unused,
        )


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
    message = "outputs must depend on inputs, but no path in its graph leads there"
    assert_refused(message, RuntimeError, outputs(x), x, 1)


@pytest.mark.parametrize(
    ("take", "shown"),
    [
        pytest.param(lambda x: x[:, 0:1], "column 0", id="a slice"),
        pytest.param(lambda x: x[..., 1], "column 1", id="a column without its axis"),
        pytest.param(lambda x: x.split(1, dim=1)[2], "column 2", id="a part of a split"),
        pytest.param(lambda x: x.unbind(1)[1], "column 1", id="one of all"),
        pytest.param(lambda x: x[:, 1:3], "columns 1 to 2", id="a wide slice"),
        pytest.param(lambda x: x[:, 1:][:, 1:2], "column 2", id="a slice of a slice"),
    ],
)
@pytest.mark.parametrize("allow_unused", [False, True])
def test_a_slice_of_inputs_is_named_by_its_columns(
    take: Callable[[Tensor], Tensor], shown: str, *, allow_unused: bool
) -> None:
    points = table(columns=3)
    inputs = take(points)
    outputs = points.prod(dim=1)
    order = (0,) * (inputs.shape[-1] - 1) + (2,) if inputs.dim() > 1 else 2
    message = (
        "inputs must be in the graph of outputs, but outputs was computed from a tensor X of shape "
        f"(5, 3), of which inputs only shows {shown}: differentiate with respect to X, with a "
        "multi-index of length 3 that counts there"
    )
    assert_refused(message, RuntimeError, outputs, inputs, order, allow_unused=allow_unused)


@pytest.mark.parametrize(
    "take",
    [
        pytest.param(lambda x: x[:4], id="rows"),
        pytest.param(lambda x: x[:4].t(), id="transposed"),
        pytest.param(lambda x: x[:, ::2][:4], id="every other column"),
        pytest.param(lambda x: x[:, ::2], id="every other column of all"),
    ],
)
def test_another_view_of_inputs_is_named_as_a_view(take: Callable[[Tensor], Tensor]) -> None:
    points = table(columns=4)
    inputs = take(points)
    outputs = points.prod(dim=1)[: inputs.shape[0]]
    order = (1,) + (0,) * (inputs.shape[-1] - 1)
    message = "outputs was computed from the tensor that inputs is a view of"
    assert_refused(message, RuntimeError, outputs, inputs, order)


def test_a_slice_that_was_not_recorded_is_named_by_its_columns() -> None:
    points = table().detach().clone().requires_grad_()
    outputs = points.prod(dim=1)
    with torch.no_grad():
        inputs = points[:, 1:]
    assert_refused("of which inputs only shows column 1", RuntimeError, outputs, inputs, 2)


def test_a_view_of_something_else_is_no_view_of_inputs() -> None:
    points, other = table(), table()
    message = "no path in its graph leads there"
    assert_refused(message, RuntimeError, points.prod(dim=1), other[:, 0], 1)


@pytest.mark.parametrize("method", ["auto", "taylor", "reverse"])
def test_a_freed_node_is_named(method: Any) -> None:
    x = table()
    outputs = x.exp().sin()
    outputs.sum().backward()
    message = (
        "outputs must have a graph that is not freed, but ExpBackward0 in it is, as a backward() "
        "or an autograd.grad() went through it before: pass retain_graph=True to that one"
    )
    questions: list[Callable[[], Tensor]] = [
        lambda: higher_order_grad(outputs, x, (2, 0), method=method),
        lambda: laplacian(outputs, x, method=method),
    ]
    for ask in questions:
        with pytest.raises(RuntimeError, match=re.escape(message)):
            ask()


def test_a_node_of_another_graph_that_was_freed_is_left_to_pytorch() -> None:
    x, w = column(), torch.ones(1, dtype=torch.float64, requires_grad=True)
    other = w.exp()

    class Another(Cube):
        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            torch.autograd.grad(other, w)
            return gradients[0]

    other.backward()
    with pytest.raises(RuntimeError, match=r"^Trying to backward through the graph a second time"):
        higher_order_grad(applied(Another, x), x, 1, create_graph=False)


def test_inputs_that_were_changed_in_place_are_told_so() -> None:
    x = table() * 1
    outputs = x.exp().sum(1)
    x.add_(1)
    message = "leads there, and inputs was changed in place since it was made (version 1), which"
    assert_refused(message, RuntimeError, outputs, x, (2, 0))


def test_inputs_and_outputs_that_are_swapped_are_told_so() -> None:
    x = table()
    message = "but one leads the other way: pass the result first, then what it came from"
    assert_refused(message, RuntimeError, x, x.exp(), 1)
    assert_refused("outputs come first, then inputs", TypeError, x, torch.exp, 1)


@pytest.mark.parametrize(
    ("result", "order"),
    [
        pytest.param(lambda x: x.prod(1), (2, 0), id="a value a row"),
        pytest.param(lambda x: x.sum(1, keepdim=True), (2, 0), id="a column"),
        pytest.param(lambda x: x.exp(), (1, 0, 0), id="the same shape"),
        pytest.param(lambda x: x.sum(), 1, id="one number"),
    ],
)
def test_swapped_tensors_are_told_so_where_the_order_does_not_fit_them(
    result: Callable[[Tensor], Tensor], order: int | tuple[int, ...]
) -> None:
    x = table()
    message = "leads the other way: pass the result first, then what it came from"
    assert_refused(message, (RuntimeError, ValueError), x, result(x), order)
    with pytest.raises((RuntimeError, ValueError), match=re.escape(message)):
        laplacian(x, result(x), dims=[2])


@pytest.mark.parametrize("order", [(2,), (2, 0), 2])
@pytest.mark.parametrize("has_channel", [False, True], ids=["a value a row", "a column"])
def test_a_slice_is_told_to_be_one_where_the_order_does_not_fit_it(
    order: int | tuple[int, ...], *, has_channel: bool
) -> None:
    points = table()
    outputs = points.prod(1, keepdim=has_channel)
    message = "of which inputs only shows column 0: differentiate with respect to X"
    assert_refused(message, RuntimeError, outputs, points[:, 0], order)
    assert_refused(message, RuntimeError, outputs, points[:, :1], order)


def test_an_order_that_fits_neither_way_is_told_of_itself() -> None:
    x = table()
    message = "order must hold a count for each of the 2 columns of inputs, not (1, 0, 0)"
    assert_refused(message, ValueError, x.prod(1), x, (1, 0, 0))
    assert_refused(message, ValueError, x, x, (1, 0, 0))
    message = "order must hold one count, for the only column of inputs, not (2, 0)"
    assert_refused(message, ValueError, table()[:, :1].exp(), table()[:, :1], (2, 0))


def test_a_laplacian_is_not_told_of_what_it_does_not_take() -> None:
    with pytest.raises(RuntimeError) as caught:
        laplacian(table().prod(1), table())
    assert "outputs must depend on inputs" in str(caught.value)
    assert "allow_unused" not in str(caught.value)


@pytest.mark.parametrize("function", [higher_order_grad, laplacian])
def test_flags_are_truth_values(function: Any) -> None:
    x = table()
    order = [(2, 0)] if function is higher_order_grad else []
    with pytest.raises(TypeError, match=r"create_graph must be a bool, not 'no'; write True or F"):
        function(x.prod(1), x, *order, create_graph="no")
    message = "allow_unused must be a bool, not 1; write True or False"
    assert_refused(message, TypeError, x.prod(1), x, (2, 0), allow_unused=1)


@pytest.mark.parametrize(
    ("outputs", "cure"),
    [
        (
            lambda x: (x, x),
            "not of type tuple, which the function that was given for it returned; ",
        ),
        (lambda x: [x], "pick one of them, as in lambda x: model(x)[0]"),
        (
            lambda _: None,
            "not of type NoneType, which the function that was given for it returned:",
        ),
        (lambda x: {"u": x}, "give one that returns the tensor to differentiate"),
    ],
    ids=["a tuple", "a list", "nothing", "a mapping"],
)
def test_a_function_that_returns_no_tensor_is_told_what_it_returned(
    outputs: Any, cure: str
) -> None:
    assert_refused(cure, TypeError, outputs, table(), (2, 0))


@pytest.mark.parametrize(
    ("inputs", "cure"),
    [
        (
            (column(), None),
            "inputs[1] must be a tensor, not of type NoneType; make one by",
        ),
        (np.ones((5, 1)), "not of type ndarray; make one by torch.as_tensor(...), and compute out"),
        (1.0, "not of type float; make one by torch.as_tensor(...), and compute outputs from it"),
        ([1.0], "inputs[0] must be a tensor, not of type float; make one by torch.as_tensor(...)"),
    ],
    ids=["not all", "an array", "a number", "numbers"],
)
def test_what_is_no_tensor_is_told_how_one_is_made(inputs: Any, cure: str) -> None:
    assert_refused(cure, TypeError, column(), inputs, 1)


@pytest.mark.parametrize(
    ("outputs", "inputs", "cure"),
    [
        ((), (4, 2), "; pass what has a value for each row, before mean() or sum() made one num"),
        (
            (4, 1),
            (4, 5, 3),
            "; if the first axis alone counts rows, compute outputs from inputs.fl",
        ),
        ((6, 4), (4, 2), "; the axes of the batch come first: transpose outputs"),
        ((6, 5), (4, 2), "has the shape (6, 5) and inputs (4, 2)"),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit_are_told_the_cure(
    outputs: tuple[int, ...], inputs: tuple[int, ...], cure: str
) -> None:
    x = torch.ones(inputs, requires_grad=True)
    order = (2, *[0] * (len(inputs) - 1))
    assert_refused(cure, ValueError, x.sum() * torch.ones(outputs), x, order)


@pytest.mark.parametrize("order", [1, 2])
def test_what_pytorch_differentiates_once_is_refused_at_once(order: int) -> None:
    x = column()
    outputs = torch.cdist(x, x.detach()[:3] + 1)
    message = "through CdistBackward0, for whose gradient PyTorch has no derivative formula: write"
    assert_refused(message, RuntimeError, outputs, x, order, method="reverse")
    first = higher_order_grad(outputs, x, 1, method="reverse", create_graph=False)
    assert torch.equal(first, torch.sign(x - (x[:3] + 1).T).detach())
    torch.testing.assert_close(higher_order_grad(outputs, x, 1), first)


def test_a_first_derivative_that_is_to_be_differentiated_can_be() -> None:
    x, w = table(), torch.linspace(-1, 1, 4, dtype=torch.float64, requires_grad=True)
    outputs = torch.nn.functional.hardsigmoid((x.sum(1, keepdim=True) * w).sin()).sum(1)
    (gradient,) = torch.autograd.grad(higher_order_grad(outputs, x, (1, 0)).sum(), w)
    angle = x.sum(1, keepdim=True) * w
    written_out = (angle.cos() * w / 6).sum()
    torch.testing.assert_close(gradient, torch.autograd.grad(written_out, w)[0])


def test_what_pytorch_has_no_formula_for_is_told_as_it_comes() -> None:
    class Distance(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            raise NotImplementedError("there is no formula for this one.")

    message = "differentiate as often as asked, but there is no formula for this one: write the"
    for rows in (1, 5):
        x = column(rows)
        outputs = applied(Distance, x)
        assert_refused(message, RuntimeError, outputs, x, 1, create_graph=False)


def test_a_change_in_place_is_refused_by_pytorch() -> None:
    x = column()
    inner = x * 1
    outputs = inner.sin()
    inner.add_(1)
    assert_refused("modified by an inplace operation", RuntimeError, outputs, x, 2)


def test_gradients_are_put_back_after_an_error() -> None:
    x = column()
    outputs = x.mean(0) * x
    outputs.retain_grad()
    assert_refused("each row of outputs", RuntimeError, outputs, x, 2)
    assert outputs.grad is None


# --- Rows that are not independent


def test_batch_norm_in_training_mode_is_refused_and_named() -> None:
    points, model = table(), network(torch.nn.BatchNorm1d(4))
    message = "BatchNorm in training mode: call eval() on the model and compute it again"
    assert_refused(message, RuntimeError, model(points), points, (2, 0))
    assert higher_order_grad(model.eval()(points), points, (2, 0)).shape == (5, 1)


def swapped(rows: int, first: int, second: int) -> list[int]:
    order = list(range(rows))
    order[first], order[second] = second, first
    return order


def test_rows_that_mix_with_a_derivative_of_zero_are_found() -> None:
    x = torch.linspace(-1, 1, 5, dtype=torch.float64).unsqueeze(1).requires_grad_()
    outputs = x + x.mean() ** 2
    (slope,) = torch.autograd.grad(outputs.sum(), x, retain_graph=True)
    assert slope.tolist() == [[1.0]] * 5
    assert_refused("each row of outputs", RuntimeError, outputs, x, 2)


def test_channels_that_cancel_out_do_not_hide_that_rows_mix() -> None:
    points = table(3)
    other = points[[2, 1, 0], 0]
    outputs = torch.stack([other, -other, points[:, 0]], dim=1)
    assert_refused("each row of outputs", RuntimeError, outputs, points, (1, 0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_rows_that_mix_are_found_in_any_dtype(dtype: torch.dtype) -> None:
    x = torch.linspace(0.5, 2, 30, dtype=dtype).unsqueeze(1).requires_grad_()
    for outputs in (x * x.mean(), x.roll(2, 0), x[swapped(30, 3, 27)]):
        assert_refused("each row of outputs", RuntimeError, outputs, x, 1)


def test_elements_that_mix_are_told_how_rows_are_meant() -> None:
    points = table()
    message = (
        "each element of outputs must depend on the same element of inputs only, but inputs[0, 0] "
        "and inputs[0, 1] may meet through SoftmaxBackward0 (result of shape (5, 2)). If inputs of "
        "shape (5, 2) holds rows with as many columns as outputs has channels, order must be a "
        "multi-index, with a count for each column"
    )
    assert_refused(message, RuntimeError, points.softmax(dim=1), points, 2)


def test_the_row_that_reaches_others_is_named() -> None:
    points = torch.ones(3, 4, 2, requires_grad=True)
    outputs = points.prod(dim=-1)
    outputs = torch.cat([outputs[:, :2], outputs[:, 3:], outputs[:, 3:]], dim=1)
    assert_refused(
        "but inputs[0, 3] is moved to another place by CatBackward0 (result of",
        RuntimeError,
        outputs,
        points,
        (1, 0),
    )


# --- What can be differentiated only once


class Cube(torch.autograd.Function):
    """The cube of a tensor, with a backward that records itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * gradients[0]


class Once(Cube):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * gradients[0]


class OnceSecond(Cube):
    """Its backward can be differentiated, but only once: it uses a function that can."""

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * applied(Once, x) / x * gradients[0]


class Silent(Cube):
    """Its backward leaves the graph."""

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return 3 * ctx.saved_tensors[0].detach() ** 2 * gradients[0].detach()


class HalfSilent(Cube):
    """Its backward leaves the graph with a part of what it uses."""

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return 3 * ctx.saved_tensors[0].detach() ** 2 * gradients[0]


class Stashed(Cube):
    """It keeps an intermediate result, computed where nothing is recorded."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.slope = [3 * x**2]
        return x**3

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.slope[0] * gradients[0]


class StashedInDict(Stashed):
    """The same, further inside."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.kept = {"slope": [3 * x**2]}
        return x**3

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.kept["slope"][0] * gradients[0]


class StashedAsArray(Stashed):
    """The same, outside of PyTorch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.slope = 3 * x.detach().numpy() ** 2
        return x**3

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return torch.from_numpy(ctx.slope) * gradients[0]


class Reversal(torch.autograd.Function):
    """Keeps nothing, so its backward is the same everywhere."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.factor = -1.0
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.factor * gradients[0]


def applied(function: Any, x: Tensor) -> Tensor:
    result: Tensor = function.apply(x)
    return result


class InPlace(Cube):
    """Keeps a copy, which has no graph, of what it then overwrites."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.clone())
        ctx.mark_dirty(x)
        return x.pow_(3)


SHORTCOMINGS: dict[type[torch.autograd.Function], str] = {
    Once: "a custom function whose backward is marked @once_differentiable",
    Silent: "a custom function whose backward records nothing",
    HalfSilent: "a custom function whose backward does not record how it uses a tensor",
    Stashed: "a custom function that keeps a tensor without a graph",
    StashedInDict: "a custom function that keeps a tensor without a graph",
    StashedAsArray: "a custom function that keeps an array of another library",
}


@pytest.mark.parametrize("function", SHORTCOMINGS)
@pytest.mark.parametrize("rest", [lambda x: 0 * x, torch.exp], ids=["alone", "with a rest"])
def test_a_function_that_does_not_record_its_backward_is_refused(
    function: type[torch.autograd.Function], rest: Callable[[Tensor], Tensor]
) -> None:
    x = column()
    outputs = applied(function, x.sin()) + rest(x)
    message = f"computed through {function.__name__}Backward, {SHORTCOMINGS[function]}"
    promise: dict[str, Any] = {"rows": "independent"}
    assert_refused(message, RuntimeError, outputs, x, 2, **promise)
    assert_refused(message, RuntimeError, outputs, x, 1, **promise)
    assert_refused(message, RuntimeError, outputs, x, 2, create_graph=False, **promise)


class HalfSilentProduct(torch.autograd.Function):
    """Its backward leaves the graph with one factor; the other may be a function of that one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.hidden = {"y": y}
        return x**2 * y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, y = ctx.saved_tensors[0].detach(), ctx.hidden["y"]
        return 2 * x * y * gradients[0], x**2 * gradients[0]


class HalfSilentOpenProduct(HalfSilentProduct):
    """The same, and the other factor is saved as well."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.hidden = {"y": y}
        return x**2 * y


@pytest.mark.parametrize("function", [HalfSilentProduct, HalfSilentOpenProduct])
def test_what_is_recorded_of_another_input_does_not_count(
    function: type[torch.autograd.Function],
) -> None:
    x = column()
    outputs: Any = function
    message = "does not record how it uses a tensor that it keeps"
    assert_refused(message, RuntimeError, outputs.apply(x, x.tanh()), x, 2)


class OnceInPlace(InPlace, Once):
    pass


@pytest.mark.parametrize("function", [InPlace, OnceInPlace])
def test_a_function_that_writes_into_a_view_is_refused_as_well(
    function: type[torch.autograd.Function],
) -> None:
    x = column()
    outputs = torch.cat([x, x], dim=1)
    applied(function, outputs[:, :1])
    message = "computed through CopySlices, a write into a view that hides a custom function, so"
    assert_refused(message, RuntimeError, outputs, x, 2)
    first = higher_order_grad(outputs, x, 1, create_graph=False, rows="independent")
    torch.testing.assert_close(first, torch.cat([3 * x**2, torch.ones_like(x)], dim=1))


def test_another_write_into_a_view_is_differentiated_and_profilers_go_on() -> None:
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


@pytest.mark.parametrize("function", SHORTCOMINGS)
def test_its_first_derivative_is_given_without_a_graph(
    function: type[torch.autograd.Function],
) -> None:
    x = column()
    outputs = applied(function, x)
    first = higher_order_grad(outputs, x, 1, create_graph=False, rows="independent")
    torch.testing.assert_close(first, 3 * x.detach() ** 2)


def test_a_function_that_records_its_backward_is_differentiated() -> None:
    x = column()
    for order, expected in enumerate((3 * x**2, 6 * x, 0 * x + 6, 0 * x), start=1):
        torch.testing.assert_close(higher_order_grad(applied(Cube, x), x, order), expected)


class Smoothed(Cube):
    """Its forward keeps rows apart, and its backward joins them."""

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return 3 * ctx.saved_tensors[0].mean() ** 2 * gradients[0]


@pytest.mark.parametrize("create_graph", [True, False])
def test_a_backward_that_joins_rows_is_refused_from_order_two_on(*, create_graph: bool) -> None:
    x = column()
    outputs = applied(Smoothed, x)
    message = (
        "inputs[0] and inputs[4] may meet through SmoothedBackward (result of shape (5, 1)), a cu"
    )
    assert_refused(message, RuntimeError, outputs, x, 2, create_graph=create_graph)
    first = higher_order_grad(outputs, x, 1, create_graph=create_graph)
    torch.testing.assert_close(first, (3 * x.mean() ** 2).expand_as(x))


def test_in_one_row_there_are_no_others_that_a_backward_joins() -> None:
    x = column()[:1].detach().requires_grad_()
    torch.testing.assert_close(higher_order_grad(applied(Smoothed, x), x, 2), 6 * x)


def test_a_backward_that_can_be_differentiated_once_is_refused_at_order_three() -> None:
    x = column()
    outputs = applied(OnceSecond, x)
    promise: dict[str, Any] = {"rows": "independent"}  # as Once does not show what it does to them
    second = higher_order_grad(outputs, x, 2, create_graph=False, **promise)
    torch.testing.assert_close(second, 6 * x.detach())
    message = "a derivative of order 2 that is differentiated again"
    assert_refused(message, RuntimeError, outputs, x, 3, **promise)
    assert_refused("marked @once_differentiable. With", RuntimeError, outputs, x, 2, **promise)


def test_a_function_that_keeps_nothing_is_linear() -> None:
    x = column()
    first, second = higher_order_grad(applied(Reversal, x**2), x, [1, 2])
    torch.testing.assert_close(first, -2 * x)
    torch.testing.assert_close(second, 0 * x - 2)


def test_a_function_beside_the_way_does_not_matter() -> None:
    x, w = column(), torch.ones(1, dtype=torch.float64, requires_grad=True)
    second = higher_order_grad(applied(Once, w) * x**2, x, 2)
    torch.testing.assert_close(second, 2 * w.expand(5, 1))


def test_a_compiled_model_is_told_to_use_the_original() -> None:
    points, model = table(), network()
    compiled = torch.compile(model, backend="aot_eager")
    message = (
        "outputs must come from the original module or function, not from one that torch.compile "
        "made, whose backward can be run, and differentiated, only once: compute outputs with the "
        "original, or pass that as outputs, to be called"
    )
    outputs = compiled(points)
    assert_refused(message, RuntimeError, outputs, points, (2, 0))
    assert_refused(message, RuntimeError, outputs, points, (1, 0), create_graph=False)


class Harmonic(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return laplacian(lambda x: x.sin().sum(1), x)


def test_a_call_within_export_is_refused_with_what_to_do() -> None:
    with pytest.raises(RuntimeError, match="leafgrad cannot differentiate within"):
        torch.export.export(Harmonic(), (torch.ones(4, 2),))


def test_a_node_that_is_not_known_is_refused() -> None:
    x = column()
    outputs = torch._foreach_exp([x])[0]  # of which the kind is known, but not what it saves
    message = "a node of which leafgrad cannot tell what its backward records"
    assert_refused(message, RuntimeError, outputs, x, 2)


def test_an_operator_without_a_formula_is_refused_even_once() -> None:
    library = torch.library.Library("leafgrad_refusals", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x.detach().exp(), "CPU")
    x = column()
    message = "computed from it by an operator that has no derivative formula"
    outputs = torch.ops.leafgrad_refusals.f(x)
    assert_refused(message, RuntimeError, outputs, x, 1, create_graph=False)


def test_a_graph_that_grows_without_end_is_refused() -> None:
    x = column(2)
    outputs = x.tanh().tanh().tanh()
    message = (
        "order must be lower where reverse mode is to answer, as a graph grows about threefold"
    )
    assert_refused(message, RuntimeError, outputs, x, 30, method="reverse")
    torch.testing.assert_close(
        higher_order_grad(outputs, x, 4, method="reverse"), higher_order_grad(outputs, x, 4)
    )
    higher_order_grad(x.exp(), x, 30, method="reverse")  # which grows by one node each time


@pytest.mark.parametrize("rows", [1, 5])
def test_a_reentrant_checkpoint_is_refused_by_pytorch(rows: int) -> None:
    points, model = table(rows), network()
    outputs = checkpoint(model, points, use_reentrant=True)
    assert_refused("use_reentrant=True", RuntimeError, outputs, points, (2, 0))
    assert all(parameter.grad is None for parameter in model.parameters())
