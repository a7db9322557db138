"""A function that torch.compile compiles may call leafgrad, which runs uncompiled in its midst."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leafgrad import (
    describe_tensor,
    explain_grad,
    hessian,
    higher_order_grad,
    jacobian,
    laplacian,
    preflight,
    record,
    trace_graph,
)
from tests.processes import unmeasured

# The compiler hides this warning of its own, but not where warnings are errors.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")

MODEL = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def points() -> Tensor:
    x = torch.linspace(0.2, 1.7, 10, dtype=torch.float64).sin()
    return x.reshape(5, 2).requires_grad_()


def residual(x: Tensor, *orders: tuple[int, int]) -> Tensor:
    loss = (x * 0).sum()
    for derivative in higher_order_grad(MODEL, x, [*orders]):
        loss = loss + derivative.square().mean()
    return loss


STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "first order": lambda x: residual(x, (1, 0)),
    "several orders": lambda x: residual(x, (0, 1), (2, 0), (2, 2)),
    "reverse mode": lambda x: higher_order_grad(MODEL, x, (2, 0), method="reverse").square().mean(),
    "laplacian": lambda x: laplacian(MODEL, x).square().mean(),
    "jacobian": lambda x: jacobian(MODEL, x).square().mean(),
    "hessian": lambda x: hessian(MODEL, x).square().mean(),
    "graph": lambda x: MODEL(x).sum() * len(trace_graph(x).leaves),
    "description": lambda x: MODEL(x).sum() * describe_tensor(x).is_leaf,
    "explanation": lambda x: MODEL(x).sum() * explain_grad(x, x.sin()).is_reached,
    "preflight": lambda x: MODEL(x).sum() * (1 + len(preflight(x).conflicts)),
}


def compiled(step: Callable[[Tensor], Tensor], **options: Any) -> Callable[[Tensor], Tensor]:
    torch.compiler.reset()
    faster: Callable[[Tensor], Tensor] = torch.compile(step, **options)
    return faster


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_compiled_step_gives_what_the_step_gives(
    step: Callable[[Tensor], Tensor], backend: str
) -> None:
    faster, (weight, *_) = compiled(step, backend=backend), MODEL.parameters()
    for _ in range(2):
        ours, theirs = faster(points()), step(points())
        torch.testing.assert_close(ours, theirs)
        pair = [torch.autograd.grad(loss, weight)[0] for loss in (ours, theirs)]
        torch.testing.assert_close(*pair)


def test_a_step_is_compiled_once() -> None:
    torch._dynamo.utils.counters.clear()
    faster = compiled(STEPS["several orders"], backend="eager")
    faster(points())
    frames = dict(torch._dynamo.utils.counters["frames"])
    for _ in range(10):
        faster(points())
    assert torch._dynamo.utils.counters["frames"] == frames


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_with_fullgraph_it_is_said_that_leafgrad_runs_uncompiled(
    step: Callable[[Tensor], Tensor],
) -> None:
    faster = compiled(step, backend="eager", fullgraph=True)
    message = "so it runs uncompiled, between the compiled parts of a function: leave out fullgraph"
    with pytest.raises(Exception, match=message):
        faster(points())


def test_a_function_of_ours_may_be_compiled_itself() -> None:
    ours: Any = laplacian
    faster: Any = compiled(ours, backend="eager")
    x = points()
    torch.testing.assert_close(faster(MODEL, x), laplacian(MODEL, x))


def test_outputs_of_the_compiled_part_are_refused() -> None:
    faster = compiled(lambda x: laplacian(MODEL(x), x), backend="aot_eager")
    message = "compute outputs with the original, or pass that as outputs, to be called"
    with pytest.raises(RuntimeError, match=message):
        faster(points())


def test_a_recording_cannot_start_in_compiled_code() -> None:
    def step(x: Tensor) -> Tensor:
        with record():
            return x.sin()

    message = r"record\(\) must start outside of a function that torch.compile compiles"
    with pytest.raises(RuntimeError, match=message):
        compiled(step, backend="eager")(points())


def test_what_stands_in_for_a_function_while_its_caller_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What the compiler reads instead of running it.
    monkeypatch.setattr(torch.compiler, "is_dynamo_compiling", lambda: True)
    assert describe_tensor(points()).shape == (5, 2)
    with pytest.raises(RuntimeError, match=r"^record\(\) must start outside of a function"):
        record()


def test_where_nobody_compiles_the_compiler_is_not_imported() -> None:
    program = """
import sys, torch
from leafgrad import describe_tensor, higher_order_grad, trace_graph
x = torch.ones(1, 1, requires_grad=True)
describe_tensor(x), trace_graph(higher_order_grad(x**3, x, 2))
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=unmeasured())
