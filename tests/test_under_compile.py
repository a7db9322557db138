"""Calls of leafgrad inside compiled functions."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn import functional

from leafgrad import (
    describe_tensor,
    diagnose,
    hessian,
    higher_order_grad,
    jacobian,
    laplacian,
    record,
    trace_graph,
)
from tests.apart import RunApart

# The compiler causes this warning and hides it, unless warnings are errors.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")

# Like aot_eager, but with the faster default partitioner.
AOT = "aot_eager_default_partitioner"

MODEL = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()


@pytest.fixture(autouse=True)
def _guards_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._dynamo.guards.profile_guard_manager", lambda *_: 0.0, raising=False)


def points() -> Tensor:
    x = torch.linspace(0.2, 1.7, 10, dtype=torch.float64).sin()
    return x.reshape(5, 2).requires_grad_()


def residual(x: Tensor, *orders: tuple[int, int]) -> Tensor:
    loss = (x * 0).sum()
    for derivative in higher_order_grad(MODEL, x, [*orders]):
        loss = loss + derivative.square().mean()
    return loss


Step = Callable[[Tensor], Tensor]

TRACED: dict[str, Step] = {
    "first order": lambda x: residual(x, (1, 0)),
    "order nine": lambda x: higher_order_grad(MODEL, x, (9, 0)).square().mean(),
    "a tensor": lambda x: higher_order_grad(MODEL(x), x, (2, 0)).square().mean(),
    "laplacian": lambda x: laplacian(MODEL, x).square().mean(),
    "jacobian and hessian": lambda x: (
        jacobian(MODEL, x).square().mean() + hessian(MODEL, x).square().mean()
    ),
    "reverse mode": lambda x: higher_order_grad(MODEL, x, (2, 0), method="reverse").square().mean(),
    "inputs without grad": lambda x: laplacian(MODEL, x.detach()).square().mean(),
    "within no_grad": lambda x: without_grad(x) + MODEL(x).sum(),
    "a Laplacian of one": lambda x: laplacian(lambda y: laplacian(MODEL, y), x).square().mean(),
    "no rule": lambda x: laplacian(eigenvalues, x).square().mean(),
    "dropout": lambda x: laplacian(dropped, x).square().mean(),
}
APART: dict[str, Step] = {
    "chosen rows": lambda x: laplacian(chosen, x).square().mean(),
    "control flow": lambda x: laplacian(branching, x).square().mean(),
    "graph": lambda x: MODEL(x).sum() * len(trace_graph(x).leaves),
    "description": lambda x: MODEL(x).sum() * describe_tensor(x).is_leaf,
    "diagnosis": lambda x: MODEL(x).sum() * diagnose(x.sum()).ok,
}


def without_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return higher_order_grad(MODEL, x, (2, 0), create_graph=False).square().mean()


def laplacian_of_product(x: Tensor) -> Tensor:
    return laplacian(lambda y: laplacian(special, y), x).square().mean()


def special(x: Tensor) -> Tensor:
    h: Tensor = MODEL[0](x)[:, :1]
    return h.exp() / (2 + h.sin()) + (h + 9).sqrt()


def eigenvalues(x: Tensor) -> Tensor:
    h: Tensor = MODEL[0](x)[:, :4].unflatten(-1, (2, 2))
    sizes: Tensor = torch.linalg.eigvals(h).abs()
    return sizes


def chosen(x: Tensor) -> Tensor:
    result: Tensor = MODEL(x[x[:, 0].argsort()])[x[:, 0].argsort().argsort()]
    return result


def dropped(x: Tensor) -> Tensor:
    result: Tensor = MODEL[2](functional.dropout(MODEL[:2](x)))
    return result


def paraboloid(x: Tensor) -> Tensor:
    return x[:, 0] ** 2 + x[:, 1]


def branching(x: Tensor) -> Tensor:
    u: Tensor = MODEL(x)
    return u.sin() if u.sum() > 0 else u.cos()


def compiled(step: Callable[..., Tensor], **options: Any) -> Callable[..., Tensor]:
    torch.compiler.reset()
    faster: Callable[..., Tensor] = torch.compile(step, **options)
    return faster


def assert_alike(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs)
    weight, *_ = MODEL.parameters()
    pair = [torch.autograd.grad(loss, weight)[0] for loss in (ours, theirs)]
    torch.testing.assert_close(*pair)


@pytest.mark.parametrize(
    "name", [*TRACED, pytest.param("a Laplacian of a product", marks=pytest.mark.sweep)]
)
def test_compiled_derivatives_are_one_graph_with_same_results(name: str) -> None:
    step = TRACED.get(name, laplacian_of_product)
    counter = CompileCounterWithBackend(AOT)
    faster = compiled(step, backend=counter, fullgraph=True)
    for _ in range(2):
        losses = []
        for each in (faster, step):
            torch.manual_seed(0)
            losses.append(each(points()))
        assert_alike(*losses)
    assert counter.frame_count == 1


@pytest.mark.parametrize("step", APART.values(), ids=APART)
def test_untraceable_call_runs_uncompiled_and_raises_with_fullgraph(step: Step) -> None:
    faster = compiled(step, backend=AOT)
    for _ in range(2):
        losses = []
        for each in (faster, step):
            torch.manual_seed(0)
            losses.append(each(points()))
        assert_alike(*losses)
    whole = compiled(step, backend="eager", fullgraph=True)
    with pytest.raises(Exception, match=r"leave out fullgraph|Data-dependent branching"):
        whole(points())


def test_compiled_training_step_with_derivative_is_one_graph() -> None:
    if not hasattr(torch._dynamo.config, "trace_autograd_ops"):
        pytest.skip("here PyTorch compiles no call of torch.autograd.grad")
    parameters = [*MODEL.parameters()][:3]

    def step(x: Tensor) -> tuple[Tensor, ...]:
        loss = laplacian(MODEL, x).square().mean()
        return (loss.detach(), *torch.autograd.grad(loss, parameters))

    counter = CompileCounterWithBackend(AOT)
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        faster: Any = compiled(step, backend=counter, fullgraph=True)  # type: ignore[arg-type]
        torch.testing.assert_close(faster(points()), step(points()))
    assert counter.frame_count == 1


@pytest.mark.parametrize("dynamic", [None, False])
def test_compiled_derivative_works_with_other_batch_sizes(*, dynamic: bool | None) -> None:
    step = TRACED["laplacian"]
    faster = compiled(step, backend=AOT, fullgraph=True, dynamic=dynamic)
    for rows in (5, 8, 3):
        assert_alike(faster(points()[:rows].repeat(2, 1)), step(points()[:rows].repeat(2, 1)))


def train(step: Callable[..., Tensor], model: nn.Module) -> list[Tensor]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for number in range(4):
        optimizer.zero_grad()
        step(model, points(), 1 + number // 2).backward()
        optimizer.step()
    return [*model.parameters(), *model.buffers()]


class Counting(nn.Module):
    """Counts its calls in a buffer."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        result: Tensor = self.layers(x)
        return result


@pytest.mark.parametrize("backend", ["eager", AOT])
def test_compiled_training_updates_parameters_and_buffers(backend: str) -> None:
    if torch.__version__ < "2.11":
        pytest.skip("in 2.10, an earlier AOT run keeps assignments to buffers from compiling")

    def step(model: nn.Module, x: Tensor, weight: int) -> Tensor:
        u = model(x)
        loss: Tensor = u.square().mean() + weight * laplacian(u, x).square().mean()
        return loss

    torch.manual_seed(0)
    ours = Counting().double()
    theirs = copy.deepcopy(ours)
    faster = compiled(step, backend=backend, fullgraph=True)
    torch.testing.assert_close(train(faster, ours), train(step, theirs))
    assert ours.calls.item() == 4


def test_batch_norm_in_training_mode_is_refused_when_compiled() -> None:
    norm = nn.BatchNorm1d(8).double()
    model = nn.Sequential(MODEL[:1], norm, MODEL[1:])

    def step(x: Tensor) -> Tensor:
        return laplacian(model, x).square().mean()

    with pytest.raises(RuntimeError, match=r"BatchNorm in training mode: call eval\(\)"):
        compiled(step, backend=AOT)(points())
    model.eval()
    assert_alike(compiled(step, backend=AOT, fullgraph=True)(points()), step(points()))


def test_compiled_call_works_without_grad_but_not_in_inference_mode() -> None:
    faster = compiled(lambda x: laplacian(MODEL, x), backend=AOT, fullgraph=True)
    x = points().detach()
    with torch.no_grad():
        torch.testing.assert_close(faster(x), laplacian(MODEL, x))
    with torch.inference_mode(), pytest.raises(RuntimeError, match=r"use `torch.no_grad\(\)`"):
        faster(x)


def test_compiled_call_raises_the_usual_error() -> None:
    faster = compiled(lambda x: higher_order_grad(MODEL, x, (2, 0, 0)), backend=AOT)
    with pytest.raises(ValueError, match="order must hold a count for each of the 2 columns"):
        faster(points())


def test_outputs_of_another_compiled_part_are_refused() -> None:
    def step(x: Tensor) -> Tensor:
        u = MODEL(x)
        torch._dynamo.graph_break()
        return laplacian(u, x)

    message = "compute outputs with the original, or pass that as outputs, to be called"
    with pytest.raises(RuntimeError, match=message):
        compiled(step, backend=AOT)(points())


def test_recording_cannot_start_in_compiled_code() -> None:
    def step(x: Tensor) -> Tensor:
        with record():
            return x.sin()

    message = r"record\(\) must start outside of a function that torch.compile compiles"
    with pytest.raises(RuntimeError, match=message):
        compiled(step, backend="eager")(points())


def test_functions_work_while_dynamo_traces_except_record(monkeypatch: pytest.MonkeyPatch) -> None:
    # Values that the compiler computes while it traces.
    monkeypatch.setattr(torch.compiler, "is_dynamo_compiling", lambda: True)
    assert describe_tensor(points()).shape == (5, 2)
    with pytest.raises(RuntimeError, match=r"^record\(\) must start outside of a function"):
        record()
    x, expected = points(), [2.0] * 5
    for is_alone in (True, False):
        monkeypatch.setattr("leafgrad._autograd.is_compiled_alone", lambda: is_alone)  # noqa: B023
        assert laplacian(paraboloid, x).tolist() == expected
    assert laplacian(paraboloid, x.detach()).tolist() == expected
    assert laplacian(paraboloid(x), x).tolist() == expected


def test_compiler_is_not_imported_without_need(run_apart: RunApart) -> None:
    program = """
import sys, torch
from leafgrad import describe_tensor, higher_order_grad, trace_graph
x = torch.ones(1, 1, requires_grad=True)
describe_tensor(x), trace_graph(higher_order_grad(x**3, x, 2))
assert "torch._dynamo" not in sys.modules
"""
    assert run_apart(program).returncode == 0
