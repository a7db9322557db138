"""The choice of the method: what Taylor mode proves and refuses, and when reverse mode runs."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from leafgrad import Jet, Series, higher_order_grad, taylor_rule
from tests.derivative.refusals import words
from tests.tensors import Cube, outcome_of


def points(*batch: int) -> Tensor:
    number = torch.arange(torch.Size(batch).numel() * 2, dtype=torch.float64)
    return ((number * 1.7).sin() / 2 + 1).reshape(*batch, 2).requires_grad_()


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def assert_refused(pattern: str, outputs: Tensor, inputs: Tensor) -> None:
    with pytest.raises(RuntimeError, match=pattern):
        higher_order_grad(outputs, inputs, (2, 0), method="taylor")


MATRIX = torch.linspace(-1, 1, 8, dtype=torch.float64).view(2, 4)


def test_operation_after_constant_needs_no_rule() -> None:
    x = points(3)
    result = higher_order_grad(torch.lgamma(x.floor()) + x, x, [(1, 0), (2, 0)], method="taylor")
    assert result[1].tolist() == [[0.0, 0.0]] * 3


def test_first_derivative_runs_one_backward_pass() -> None:
    x = points(4)
    calls: list[Tensor] = []
    inner = x.sin()
    inner.register_hook(calls.append)
    higher_order_grad(inner.exp()[:, 0], x, (1, 0))
    assert len(calls) == 1  # no second pass checks the rows


# --- Operations without a rule


class KnownCube(Cube):
    """Has a rule, and a backward that can be differentiated once."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * gradients[0]


class SumAndDifference(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        del ctx
        return x + y, x - y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        del ctx
        plus, minus = gradients
        return plus + minus, plus - minus


@taylor_rule(KnownCube)
def known_cube(ctx: Any, x: Series) -> Jet:
    (value,) = ctx.saved_tensors
    return Jet(value, x) ** 3


@taylor_rule(SumAndDifference)
def sum_and_difference(_: Any, x: Series, y: Series | None) -> list[Series | None]:
    return [x if y is None else x + y, x if y is None else x - y]


def test_error_names_line_of_custom_function() -> None:
    x = points(3)
    line = Cube.forward.__code__.co_firstlineno
    where = f" ({inspect.getsourcefile(Cube)}:{line})"
    assert_refused(words("register-rule", node="CubeBackward", where=where), outcome_of(Cube, x), x)


def test_custom_rule_differentiates_once_differentiable_function() -> None:
    x = points(3)
    outputs = outcome_of(KnownCube, x.sin()).sum(1)
    answer = higher_order_grad(outputs, x, [(1, 0), (3, 0)])
    written_out = (x.sin() ** 3).sum(1)
    for one, other in zip(answer, higher_order_grad(written_out, x, [(1, 0), (3, 0)]), strict=True):
        assert_same(one, other)
    assert_same(
        torch.autograd.grad(answer[1].sum(), x)[0],
        torch.autograd.grad(higher_order_grad(written_out, x, (3, 0)).sum(), x)[0],
    )


def test_custom_rule_supports_several_inputs_and_outputs() -> None:
    x, y = points(3), points(3).detach()
    for other in (y, y.clone().requires_grad_(), x.cos()):
        plus, minus = outcome_of(SumAndDifference, x.sin(), other)
        expected = (x.sin() + other) * (x.sin() - other) ** 2
        assert_same(
            higher_order_grad((plus * minus**2).sum(1), x, (3, 0), method="taylor"),
            higher_order_grad(expected.sum(1), x, (3, 0), method="reverse"),
        )


def overlapping(x: Tensor) -> Tensor:
    base = torch.zeros(3, 3, dtype=x.dtype)
    base.as_strided((3, 2, 2), (3, 1, 1)).copy_(x[:, :, None].expand(3, 2, 2).clone())
    return base


def changed_in_part(name: str) -> Callable[[Tensor], Tensor]:
    """Call an in-place method on the first column."""

    def changed(x: Tensor) -> Tensor:
        copy = x.clone()
        column = copy[:, 0]
        others = (x[:, 1].cos(),) if name == "mul_" else ()
        getattr(column, name)(*others)
        return copy

    return changed


REFUSED: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "no rule": (words("no-rule", node="RenormBackward0"), lambda x: x.renorm(2, 0, 1)),
    "a change of a view": ("CopySlices, and it does more than move", changed_in_part("sin_")),
    "a part turned round": ("it does more than move elements", changed_in_part("neg_")),
    "a product with a view": ("it does more than move elements", changed_in_part("mul_")),
    "a view of one element several times": (
        "may meet through AsStridedBackward0",
        lambda x: x.exp().as_strided((3, 2), (2, 0)),
    ),
    "some rows scattered": (
        "row of inputs only, but",
        lambda x: torch.ones(2, 4, dtype=x.dtype).scatter(1, torch.zeros(2, 1).long(), x)[
            [0, 1, 0]
        ],
    ),
    "a part of the rows scattered": (
        words("reason.part-of-axes"),
        lambda x: x.scatter(1, torch.zeros(2, 1).long(), x.exp()),
    ),
    "an element written several times": (
        "it writes one element several times",
        lambda x: overlapping(x.exp()),
    ),
    "complex": ("it computes with complex numbers", lambda x: torch.sinc(x * 1j).real),
    "limits": (words("reason.limits"), lambda x: x.clamp(x - 1, x + 1)),
    "a limit": (words("reason.limits"), lambda x: x.clamp_min(x - 1)),
    "a constant's limit": (
        words("reason.limits"),
        lambda x: torch.clamp_min(torch.ones(2, dtype=x.dtype), x),
    ),
    "a divisor": ("its divisor depends on inputs", lambda x: x.remainder(x + 1)),
    "constants joined": (
        "joins several constants",
        lambda x: torch.cat([torch.ones(3, 1), x, torch.ones(3, 2)], 1),
    ),
    "another norm": (words("reason.norm"), lambda x: torch.linalg.vector_norm(x, 2.5, dim=1)),
    "no norm": (words("reason.norm"), lambda x: torch.linalg.vector_norm(x, 0, dim=1) * x[:, 0]),
    "distances by another norm": (
        words("reason.norm"),
        lambda x: torch.cdist(x.unsqueeze(1), MATRIX.t().unsqueeze(0), 0.5).flatten(1),
    ),
    "products in one place": (
        words("reason.multiplies"),
        lambda x: x.scatter_reduce(1, torch.tensor([[0, 0]] * 3), x, "prod"),
    ),
    "scaled by frequencies": (
        "its gradient is scaled by frequencies",
        lambda x: functional.embedding(torch.tensor([1, 0]), x.t(), scale_grad_by_freq=True).t(),
    ),
    "no symmetry": (
        words("reason.not-symmetric"),
        lambda x: torch.linalg.eigvalsh((x @ MATRIX).view(3, 2, 2)),
    ),
    "what a norm divided by": (
        words("reason.results", count=1, all=3),
        lambda x: torch.native_group_norm(x, None, None, 3, 2, 1, 1, 0.5)[2],
    ),
    "what a norm subtracted": (
        words("reason.results", count=1, all=3),
        lambda x: torch.native_group_norm(x, None, None, 3, 2, 1, 1, 0.5)[1].sin(),
    ),
    "training": (
        "BatchNorm in training mode: call eval()",
        lambda x: functional.batch_norm(x, None, None, training=True),
    ),
}
REFUSED_OF_A_POINT: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "a part": (
        words("reason.part-of-axes"),
        lambda x: x.expand(2, 2).gather(1, torch.ones(1, 1, dtype=torch.int64)),
    ),
    "a weight": (
        "its weight or bias depends on inputs",
        lambda x: functional.layer_norm(x, (2,), x),
    ),
    "a kernel": (
        "its weight depends on inputs",
        lambda x: functional.conv1d(x[None, None], x[None, None]),
    ),
}


@pytest.mark.parametrize(("message", "function"), REFUSED.values(), ids=REFUSED)
def test_taylor_mode_names_the_reason_why_it_refuses_an_operation(
    message: str, function: Callable[[Tensor], Tensor]
) -> None:
    x = points(3)
    assert_refused(message, function(x), x)


def test_byte_mask_selects_like_bool_mask() -> None:
    x, mask = points(3), torch.tensor([1, 1], dtype=torch.uint8)
    with pytest.warns(UserWarning, match="deprecated"):
        outputs = x[:, mask]
    assert_same(
        higher_order_grad(outputs, x, (2, 0), method="taylor"),
        higher_order_grad(x[:, mask.bool()], x, (2, 0), method="taylor"),
    )
    square = x[:, :, None] * x[:, None]
    with pytest.warns(UserWarning, match="deprecated"):
        outputs = square[:, torch.eye(2, dtype=torch.uint8)]
    assert_same(
        higher_order_grad(outputs, x, (2, 0), method="taylor"),
        torch.tensor([[2.0, 0.0]], dtype=x.dtype).expand(3, 2),
    )


def test_variance_without_degrees_of_freedom_is_refused() -> None:
    x = points(3)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        outputs = x.var(1, correction=2)
    assert_refused(words("reason.freedom"), outputs, x)


@pytest.mark.parametrize(
    ("message", "function"), REFUSED_OF_A_POINT.values(), ids=REFUSED_OF_A_POINT
)
def test_taylor_mode_names_the_reason_for_a_single_point(
    message: str, function: Callable[[Tensor], Tensor]
) -> None:
    x = points()
    assert_refused(message, function(x), x)


def test_operation_along_axis_of_scalar_uses_reverse_mode() -> None:
    a = torch.tensor(2.0, requires_grad=True)
    with pytest.raises(RuntimeError, match=words("reason.no-axis")):
        higher_order_grad(a.exp().cumsum(0), a, 2, method="taylor")
    assert higher_order_grad(a.exp().cumsum(0), a, 2).item() == pytest.approx(torch.exp(a).item())


def test_layer_without_neurons_has_zero_derivative() -> None:
    x = points(3)
    empty = torch.zeros(2, 0, dtype=torch.float64, requires_grad=True)
    outputs = x[:, :1] ** 3 + (x @ empty).tanh() @ empty.t()[:, :1]
    assert_same(higher_order_grad(outputs, x, (2, 0), method="taylor"), 6 * x[:, :1])


def test_rule_that_writes_into_its_series_changes_no_other_call() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            return gradients[0] * 2

    @taylor_rule(Doubled)
    def doubled(_: Any, x: Series) -> Series:
        x.stack.mul_(2)
        return x

    x = points(3)
    outputs = Doubled.apply(x)  # type: ignore[no-untyped-call]
    for _ in range(2):
        result = higher_order_grad(outputs.sin().sum(1), x, (1, 0), method="taylor")
        assert_same(result, 2 * outputs.cos()[:, 0])


# --- Checkpoints


@pytest.mark.parametrize("create_graph", [True, False])
def test_checkpointed_function_is_rerun_once(*, create_graph: bool) -> None:
    x, runs = points(3), []

    def function(x: Tensor) -> Tensor:
        runs.append(1)
        return (x @ MATRIX).tanh().exp().clamp(torch.tensor(-5.0), torch.tensor(5.0)).sin()

    outputs = checkpoint(function, x, use_reentrant=False)
    orders = [(2, 0), (1, 1), (0, 3)]
    ours = higher_order_grad(outputs, x, orders, create_graph=create_graph, method="taylor")
    assert len(runs) == 2
    theirs = higher_order_grad(function(x), x, orders, method="taylor")
    for one, other in zip(ours, theirs, strict=True):
        assert one.requires_grad == create_graph
        assert_same(one.detach(), other.detach())


def test_operation_without_rule_in_checkpoint_uses_reverse_mode() -> None:
    x = points(3)
    outputs = checkpoint(lambda x: x.sin().exp().renorm(2, 0, 1), x, use_reentrant=False)
    assert_refused(words("no-rule", node="RenormBackward0"), outputs, x)
    expected = higher_order_grad(x.sin().exp().renorm(2, 0, 1), x, (2, 0))
    assert_same(higher_order_grad(outputs, x, (2, 0)), expected)


# --- Hooks, autocast and fake tensors


def test_taylor_mode_runs_no_hook_and_changes_no_gradient() -> None:
    x = points(3)
    inner = x.sin()
    inner.retain_grad()
    calls: list[Tensor] = []
    inner.register_hook(calls.append)
    higher_order_grad(inner.exp(), x, (2, 0), method="taylor")
    assert not calls
    assert inner.grad is None
    assert x.grad is None


@pytest.mark.parametrize("method", ["auto", "taylor", "reverse"])
@pytest.mark.parametrize("order", [1, 2])
def test_autocast_around_call_does_not_change_derivative(method: Any, order: int) -> None:
    x = points(4).detach().float().requires_grad_()
    outputs = (x @ MATRIX.float()).tanh().sum(1)
    expected = higher_order_grad(outputs, x, (order, 0), method=method)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = higher_order_grad(outputs, x, (order, 0), method=method)
    torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("inside", [False, True])
def test_autocast_result_matches_reverse_mode(*, inside: bool) -> None:
    x = points(4).detach().float().requires_grad_()
    w = MATRIX.float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = (x @ w).tanh().sum(1)
        if inside:
            ours = higher_order_grad(outputs, x, (2, 0), method="taylor")
    if not inside:
        ours = higher_order_grad(outputs, x, (2, 0), method="taylor")
    assert ours.dtype == torch.float32
    theirs = higher_order_grad((x @ w).tanh().sum(1), x, (2, 0))
    torch.testing.assert_close(ours, theirs, rtol=0.1, atol=0.1)


def test_fake_tensors_give_fake_derivative() -> None:
    def bell(x: Tensor) -> Tensor:
        return (-x.square()).exp().tanh().sum(1)

    order = (0, 2, 0, 0, 0, 1, 0)
    x = torch.ones(3, 7, dtype=torch.float16, requires_grad=True)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = higher_order_grad(bell, mode.from_tensor(x), order, method="taylor")
    assert (type(fake), fake.shape) == (FakeTensor, (3,))
    assert type(higher_order_grad(bell, x, order, method="taylor")) is Tensor


def test_sum_of_single_and_double_precision_is_computed_in_double() -> None:
    x = points(3).detach().float().requires_grad_()
    outputs = (x + MATRIX[:, 0]).sin()
    assert outputs.dtype == torch.float64
    ours = higher_order_grad(outputs, x, (2, 0), method="taylor")
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours[:, 0], -outputs.float()[:, 0])


@pytest.fixture
def new_memory_holds_nan() -> Iterator[None]:
    """Make PyTorch fill new memory with NaN, as its deterministic mode does."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("new_memory_holds_nan")
@pytest.mark.parametrize(
    "function",
    [torch.tanh, torch.exp, torch.sin, torch.sqrt, torch.reciprocal],
    ids=["sigmoidal", "exponential", "sine", "root", "inverse"],
)
def test_results_contain_no_uninitialized_numbers(function: Callable[[Tensor], Tensor]) -> None:
    assert torch.empty(1).isnan()
    x = torch.tensor([[0.5], [2.0]], dtype=torch.float64, requires_grad=True)
    methods: tuple[Any, ...] = ("taylor", "reverse")
    found = []
    for method in methods:
        fourth = higher_order_grad(function(3 * x), x, 4, method=method)
        found.append((fourth, *torch.autograd.grad(fourth.sum(), x)))
    torch.testing.assert_close(*found, rtol=1e-11, atol=0)


def test_infinite_slope_of_xlogy_at_zero_gives_nan() -> None:
    x = torch.tensor([[0.0], [1.0]], dtype=torch.float64, requires_grad=True)
    first, second = higher_order_grad(torch.xlogy(x, x), x, [1, 2], method="taylor")
    assert first.isnan().tolist() == second.isnan().tolist() == [[True], [False]]
    assert (first[1].item(), second[1].item()) == (1.0, 1.0)
    constant = torch.xlogy(x - x.detach(), x)  # 0 · log(x), zero wherever the logarithm is finite
    assert higher_order_grad(constant, x, 1, method="taylor")[1].item() == 0.0


# --- Orders


def test_derivative_of_very_high_order_is_zero_or_overflows_to_infinity() -> None:
    x = torch.full((1, 1), 0.5, dtype=torch.float64, requires_grad=True)
    assert higher_order_grad(x**3, x, 200).item() == 0
    assert higher_order_grad(1 / x, x, 180).item() == float("inf")


def test_derivatives_of_high_and_of_many_mixed_orders_are_right() -> None:
    x = points(2)
    outputs = (x[:, 0] + 2 * x[:, 1]).exp()
    orders = [(p, q) for p in range(9) for q in range(9)]
    for (_, q), derivative in zip(orders, higher_order_grad(outputs, x, orders), strict=True):
        torch.testing.assert_close(derivative, 2**q * outputs, rtol=1e-12, atol=0)
    y = torch.full((1, 1), 0.3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(higher_order_grad(y.exp(), y, 60), y.exp(), rtol=1e-12, atol=0)
