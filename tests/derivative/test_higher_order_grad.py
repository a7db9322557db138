"""`higher_order_grad` returns the derivative of each row and channel, and changes nothing else."""

import contextlib
import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint

from leafgrad import higher_order_grad, laplacian, trace_graph
from tests.derivative.taylor.oracle import column, table


def network(columns: int = 2, channels: int = 1) -> torch.nn.Sequential:
    """Return a small network of tanh layers in float64, with the same parameters in each call."""
    layers = [torch.nn.Linear(columns, 8), torch.nn.Tanh(), torch.nn.Linear(8, channels)]
    model = torch.nn.Sequential(*layers).double()
    with torch.no_grad():
        for parameter in model.parameters():
            numbers = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_((numbers * 1.7 + columns).sin().reshape(parameter.shape))
    return model


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-11)


# --- Closed forms


def tanh_derivative(x: Tensor, order: int) -> Tensor:
    """Return the derivative of tanh of this order, as a polynomial in t = tanh x.

    It uses that t' is ``1 - t**2``.
    """
    polynomial = [0, 1]
    for _ in range(order):
        slope = [power * factor for power, factor in enumerate(polynomial)][1:]
        polynomial = [a - b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    t = torch.tanh(x)
    return sum((factor * t**power for power, factor in enumerate(polynomial)), torch.zeros(1))


def falling(base: int, count: int) -> int:
    return math.prod(base - step for step in range(count))


@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        pytest.param(torch.exp, lambda x, _: torch.exp(x), id="exp"),
        pytest.param(
            lambda x: torch.sin(3 * x),
            lambda x, n: 3**n * torch.sin(3 * x + n * math.pi / 2),
            id="sin",
        ),
        pytest.param(torch.tanh, tanh_derivative, id="tanh"),
        pytest.param(
            lambda x: x**4 - 2 * x**3,
            lambda x, n: (
                falling(4, n) * x ** max(4 - n, 0) - 2 * falling(3, n) * x ** max(3 - n, 0)
            ),
            id="polynomial",
        ),
        pytest.param(
            lambda x: 1 / x,
            lambda x, n: (-1) ** n * math.factorial(n) / x ** (n + 1),
            id="reciprocal",
        ),
        pytest.param(lambda x: x * x.exp(), lambda x, n: (x + n) * x.exp(), id="product"),
        pytest.param(
            lambda x: (1 + x) ** 0.5,
            lambda x, n: math.prod(0.5 - k for k in range(n)) * (1 + x) ** (0.5 - n),
            id="root",
        ),
    ],
)
def test_derivative_matches_closed_form(
    function: Callable[[Tensor], Tensor], derivative: Callable[[Tensor, int], Tensor], order: int
) -> None:
    x = column()
    assert_same(higher_order_grad(function(x), x, order), derivative(x, order))


# --- Shapes: rows, columns, channels, elements


@pytest.mark.parametrize("channels", [(), (1,), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("batch", [(), (1,), (5,), (3, 4)], ids=str)
def test_result_has_shape_of_outputs(batch: tuple[int, ...], channels: tuple[int, ...]) -> None:
    points = table(math.prod(batch)).detach().reshape(*batch, 2).requires_grad_()
    x, y = points.reshape(*batch, *[1] * len(channels), 2).unbind(-1)
    factors = torch.arange(1.0, 1.0 + math.prod(channels), dtype=torch.float64).reshape(channels)
    derivative = higher_order_grad(x**2 * y**3 * factors, points, (1, 2))
    assert derivative.shape == (*batch, *channels)
    assert_same(derivative, 12 * x * y * factors)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (4,), (4, 1), (2, 3)], ids=str)
def test_outputs_shaped_like_inputs_are_differentiated_elementwise(shape: tuple[int, ...]) -> None:
    a = torch.arange(1.0, 1.0 + math.prod(shape)).reshape(shape).requires_grad_()
    assert_same(higher_order_grad(a**3, a, 2), 6 * a)
    assert_same(higher_order_grad(a**3, a, [1, 3])[1], torch.full(shape, 6.0))


def test_multi_index_differentiates_each_channel_of_output_shaped_like_input() -> None:
    points = table()
    velocity = network(channels=2)(points)
    assert velocity.shape == points.shape
    (both,) = higher_order_grad(velocity, points, [(1, 1)])
    assert_same(both, higher_order_grad(velocity, points, (1, 1)))
    for channel in (0, 1):
        alone = higher_order_grad(velocity[..., channel], points, (1, 1))
        assert_same(alone, both[..., channel])


def test_empty_rows_or_channels_give_empty_derivative() -> None:
    empty, points = table(rows=0), table()
    assert higher_order_grad(empty.sum(1), empty, (2, 0)).shape == (0,)
    assert higher_order_grad(points[:, :0], points, (2, 0)).shape == (5, 0)


def test_list_of_orders_gives_tuple_in_same_order() -> None:
    x = column()
    derivatives = higher_order_grad(x**3, x, [2, 1, 2])
    assert isinstance(derivatives, tuple)
    for derivative, expected in zip(derivatives, (6 * x, 3 * x**2, 6 * x), strict=True):
        assert_same(derivative, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_result_has_dtype_of_inputs(dtype: torch.dtype) -> None:
    x = torch.arange(1.0, 20.0, dtype=dtype).unsqueeze(1).requires_grad_()
    derivative = higher_order_grad((x.double() ** 2).squeeze(1), x, 2)
    assert derivative.dtype == dtype
    assert derivative.tolist() == [2.0] * 19


def test_half_precision_inside_function_is_supported() -> None:
    x = column(1000)
    outputs = (x.half() * 2).double()
    assert higher_order_grad(outputs, x, 1).tolist() == [[2.0]] * 1000


# --- Zeros that the graph proves


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, _: 3 * x + 1, id="linear"),
        pytest.param(lambda x, y: x * y, id="product with a tensor apart"),
        pytest.param(lambda x, _: torch.relu(x), id="relu"),
        pytest.param(lambda x, _: x, id="inputs"),
        pytest.param(lambda x, _: torch.nn.Linear(1, 1, dtype=torch.float64)(x), id="Linear"),
        pytest.param(lambda x, _: x.floor(), id="steps"),
    ],
)
def test_second_derivative_of_linear_function_is_zero(
    function: Callable[[Tensor, Tensor], Tensor],
) -> None:
    x, y = column(), column(low=2, high=3)
    assert higher_order_grad(function(x, y), x, 2).tolist() == [[0.0]] * 5


def test_unused_inputs_give_zeros_with_allow_unused() -> None:
    x, y = column(), column()
    outputs = torch.cat([y, y], 1)
    value, first = higher_order_grad(outputs, x, [0, 1], allow_unused=True)
    assert value is outputs
    assert first.tolist() == [[0.0, 0.0]] * 5


# --- Functions as outputs


def test_function_is_evaluated_at_inputs_or_their_copy() -> None:
    with torch.inference_mode():
        inference = torch.ones(2, 1)
    for x in (column(), column().detach(), inference):
        needs_grad = x.requires_grad
        assert_same(higher_order_grad(lambda x: x**3, x, 2), 6 * x)
        assert x.requires_grad == needs_grad


# --- create_graph and modes


def test_results_without_create_graph_have_no_graph() -> None:
    x = column()
    results = higher_order_grad(x**3, x, [0, 1, 2], create_graph=False)
    assert not any(result.requires_grad for result in results)
    assert_same(results[2], 6 * x)


def test_graph_of_outputs_is_not_freed() -> None:
    x = column()
    outputs = x.exp()
    higher_order_grad(outputs, x, 2, create_graph=False)
    outputs.sum().backward()
    assert x.grad is not None


MODES = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_derivatives_have_a_graph_under_no_grad_and_inference_mode(mode: Callable[[], Any]) -> None:
    x = column()
    outputs = x**3
    with mode():
        plain = torch.ones(2, 1)
        results = [higher_order_grad(outputs, x, 2), higher_order_grad(torch.exp, plain, 2)]
    assert all(result.requires_grad and not result.is_inference() for result in results)
    assert_same(results[0], 6 * x)


def test_default_device_and_dtype_do_not_matter() -> None:
    x = column()
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device("meta"):
            second = higher_order_grad(x**3, x, 2)
    finally:
        torch.set_default_dtype(dtype)
    assert_same(second, 6 * x)


# --- Hooks, offloading and evaluation modes


def offloaded(model: torch.nn.Module, x: Tensor) -> Tensor:
    with save_on_cpu():
        result: Tensor = model(x)
    return result


@pytest.mark.parametrize(
    "evaluate",
    [
        pytest.param(offloaded, id="offloaded"),
        pytest.param(lambda model, x: checkpoint(model, x, use_reentrant=False), id="checkpoint"),
        pytest.param(lambda model, x: torch.nn.Dropout(0.0)(model(x)), id="dropout"),
        pytest.param(lambda model, x: torch.func.vmap(model)(x), id="vmap"),
        pytest.param(
            lambda model, x: torch.func.functional_call(
                model, {name: p.detach() for name, p in model.named_parameters()}, (x,)
            ),
            id="frozen",
        ),
    ],
)
def test_derivatives_do_not_depend_on_how_the_network_is_called(
    evaluate: Callable[[torch.nn.Module, Tensor], Tensor],
) -> None:
    points, model = table(), network()
    orders = [(2, 0), (1, 2)]
    for actual, expected in zip(
        higher_order_grad(evaluate(model, points), points, orders),
        higher_order_grad(model(points), points, orders),
        strict=True,
    ):
        assert_same(actual, expected)


def test_module_hooks_do_not_change_derivative() -> None:
    points, model = table(), network()
    expected = higher_order_grad(model(points), points, (2, 0))
    model[0].register_full_backward_hook(lambda *_: None)
    assert_same(higher_order_grad(model(points), points, (2, 0)), expected)


def test_nan_in_one_row_stays_in_that_row() -> None:
    x = torch.tensor([[1.0], [0.0], [4.0]], requires_grad=True)
    derivative = higher_order_grad(x * x.abs().sqrt(), x, 1)
    assert derivative.isnan().tolist() == [[False], [True], [False]]


# --- No side effects


def test_existing_gradients_are_unchanged() -> None:
    points, model = table(), network()
    inputs = points * 1
    inputs.retain_grad()
    outputs = model(inputs)
    outputs.retain_grad()
    outputs.sum().backward(retain_graph=True)
    tensors = [points, inputs, outputs, *model.parameters()]
    before = [tensor.grad for tensor in tensors]
    values = [None if grad is None else grad.clone() for grad in before]
    higher_order_grad(outputs, inputs, (2, 0))
    assert all(grad is tensor.grad for grad, tensor in zip(before, tensors, strict=True))
    torch.testing.assert_close(before, values)


def test_higher_order_grad_changes_no_tensor_and_no_random_state() -> None:
    points, model = table(), network()
    tensors = [points, *model.parameters()]
    before = [tensor.detach().clone() for tensor in tensors]
    versions, numbers = [tensor._version for tensor in tensors], torch.get_rng_state()
    higher_order_grad(model(points), points, [(2, 0), (1, 1)])
    assert [tensor._version for tensor in tensors] == versions
    assert all(map(torch.equal, tensors, before))
    assert torch.equal(torch.get_rng_state(), numbers)


@pytest.mark.parametrize(
    "outputs", [lambda h: h.sin(), lambda h: h * h.mean()], ids=["answered", "refused"]
)
def test_higher_order_grad_keeps_no_graph_alive(outputs: Callable[[Tensor], Tensor]) -> None:
    x = column()
    inner = x.exp()
    seen = weakref.ref(inner)
    gc.disable()
    try:
        with contextlib.suppress(RuntimeError):
            higher_order_grad(outputs(inner), x, 2, create_graph=False)
        del inner
        assert seen() is None
    finally:
        gc.enable()


# --- Derivatives of constants


def test_constant_derivative_has_zero_derivatives() -> None:
    x = table()
    outputs = 3 * x.sum(1)
    for order in ((1, 0), (2, 0)):
        for method in ("auto", "taylor", "reverse"):
            constant = higher_order_grad(outputs, x, order, method=method)
            assert not constant.requires_grad
            for allow_unused in (False, True):
                zero = higher_order_grad(constant, x, (0, 1), allow_unused=allow_unused)
                assert zero.tolist() == [0.0] * 5
    assert laplacian(laplacian(outputs, x), x).tolist() == [0.0] * 5
    assert laplacian(higher_order_grad(outputs, x, (1, 1)), x).tolist() == [0.0] * 5


def test_modified_constant_derivative_is_refused_without_graph() -> None:
    x, other = table(), table()
    message = "outputs must carry the graph that computed it from inputs"
    for change in (Tensor.zero_, Tensor.detach, lambda constant: constant + 1):
        constant = change(higher_order_grad(x.sum(1), x, (2, 0)))
        with pytest.raises(RuntimeError, match=message):
            higher_order_grad(constant, x, (1, 0))
    constant = higher_order_grad(x.sum(1), x, (2, 0))
    with pytest.raises(RuntimeError, match=message):
        higher_order_grad(constant, other, (1, 0))
    with pytest.raises(RuntimeError, match=message):
        laplacian(higher_order_grad(x.sum(1), x, (2, 0), create_graph=False), x)


# --- TorchScript


def silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def in_steps(x: Tensor) -> Tensor:
    y = x
    for _ in range(3):
        y = torch.sin(y * x) + x.detach()
    return y


def with_statistics(x: Tensor) -> Tensor:
    return torch.tanh(x) * x.softmax(-1) / x.square().mean(-1, keepdim=True)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("function", [silu, in_steps, with_statistics])
def test_scripted_function_has_derivatives_of_original(
    function: Callable[[Tensor], Tensor],
) -> None:
    scripted: Any = torch.jit.script(function)
    weight = torch.linspace(-1, 1, 8, dtype=torch.float64).sin().view(2, 4).requires_grad_()
    points = table()
    for _ in range(4):  # TorchScript profiles the first calls and optimizes later ones
        ours, theirs = (
            higher_order_grad(
                apply(points @ weight), points, [(2, 0), (1, 1), (2, 1)], rows="independent"
            )
            for apply in (scripted, function)
        )
        torch.testing.assert_close(ours, theirs)
        pair = [
            torch.autograd.grad(torch.stack(found).square().sum(), weight)
            for found in (ours, theirs)
        ]
        torch.testing.assert_close(*pair)
    names = {node.name for node in trace_graph(scripted(points @ weight)).nodes}
    assert "DifferentiableGraphBackward" in names


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_scripted_function_that_mixes_rows_is_refused() -> None:
    def mixed(x: Tensor) -> Tensor:
        return x * torch.sigmoid(x).sum(0)

    scripted: Any = torch.jit.script(mixed)
    x = column()
    for _ in range(4):
        with pytest.raises(RuntimeError, match="each row of outputs must depend on the same row"):
            higher_order_grad(scripted(x), x, 2)
        with pytest.raises(RuntimeError, match="rows must be independent where"):
            higher_order_grad(scripted(x), x, 2, rows="independent")


# --- State after a call


def fallback(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return a tensor, and outputs computed from it that Taylor mode has no rule for."""
    h = x * x.exp()
    return h, (h + h.sin().renorm(2, 0, 1)).sum(1)


@pytest.mark.parametrize("method", ["auto", "reverse"])
def test_reverse_mode_calls_hooks_and_stores_grad_as_nested_grad_calls_do(method: Any) -> None:
    found = []
    for is_ours in (True, False):
        x = table()
        seen: list[Any] = []
        h, outputs = fallback(x)
        h.retain_grad()
        node: Any = h.grad_fn
        node.register_hook(lambda *given, seen=seen: seen.append(given))
        node.register_prehook(lambda given, seen=seen: seen.append(given))
        x.register_hook(lambda given, seen=seen: seen.append(given))
        if is_ours:
            result = higher_order_grad(outputs, x, (2, 0), method=method)
        else:
            (first,) = torch.autograd.grad(outputs.sum(), x, create_graph=True)
            (both,) = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)
            result = both[:, 0]
        found.append((result, h.grad, x.grad, seen))
    ours, theirs = found
    assert ours[1] is not None
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("method", ["auto", "reverse"])
def test_refused_call_changes_nothing(method: Any) -> None:
    x = table()
    seen: list[Tensor] = []
    h, outputs = fallback(x)
    h.retain_grad()
    h.register_hook(seen.append)
    kept = h.grad = torch.ones_like(h)
    with pytest.raises(RuntimeError, match="each row of outputs must depend on the same row"):
        higher_order_grad(outputs + outputs.mean(), x, (2, 0), method=method)
    assert h.grad is kept
    assert h.grad.eq(1).all()
    assert seen == []
