"""Findings before a backward pass, compared with the errors and gradients of that pass."""

from collections.abc import Callable
from contextlib import suppress
from cProfile import Profile
from pathlib import Path
from pstats import Stats
from typing import Any

import pytest
import torch
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from leafgrad import _autograd, diagnose, record
from leafgrad.types import Severity
from tests.apart import RunApart
from tests.diagnosis.programs import FAILING
from tests.tensors import leaf


def failure_of(outputs: torch.Tensor) -> str | None:
    """Run the backward pass; return the error message."""
    try:
        outputs.sum().backward()
    except RuntimeError as error:
        return str(error)
    return None


class Keeping(torch.autograd.Function):
    """Saves its input and one or two outputs; its backward may or may not read them."""

    looks = True

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = x * 2, x * 3
        ctx.save_for_backward(x, *outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        if Keeping.looks:
            assert ctx.saved_tensors
        return 2 * gradients[0] + 3 * gradients[1]


class Once(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    @once_differentiable
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


Step = tuple[str, int, int]
UNARY = ["sin", "exp", "sigmoid", "tanh", "relu", "clone", "square", "abs"]
BINARY = ["mul", "add", "sub", "div", "maximum"]
IN_PLACE = ["add_", "mul_", "sigmoid_", "zero_", "exp_", "relu_"]


def made_twice(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    """Multiply `a` and `b` under `checkpoint()`, which saves no intermediate tensors."""
    return [checkpoint(torch.mul, a, b, use_reentrant=False)]


def kept_by_a_hook(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    with saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
        return [a * b]


def of_custom_function(function: Any, *inputs: torch.Tensor) -> list[torch.Tensor]:
    result = function.apply(*inputs)
    return [*result] if isinstance(result, tuple) else [result]


MAKING: dict[str, Callable[[torch.Tensor, torch.Tensor], list[torch.Tensor]]] = {
    **{name: lambda a, _, name=name: [getattr(a, name)()] for name in UNARY},  # type: ignore[misc]
    **{name: lambda a, b, name=name: [getattr(a, name)(b)] for name in BINARY},  # type: ignore[misc]
    "view": lambda a, _: [a.view(2, 2)],
    "view of a part": lambda a, _: [a[:1].expand(2, 2)],
    "several outputs": lambda a, _: [*torch.linalg.qr(a)],
    "several views": lambda a, _: [torch.stack(a.unbind())],
    "several of a custom function": lambda a, _: of_custom_function(Keeping, a),
    "custom function that saves nothing": lambda a, _: of_custom_function(Once, a),
    "hook": kept_by_a_hook,
    "foreach": lambda a, b: [*torch._foreach_mul([a, b], [b, a])],
}


# Without this method, the inputs of a checkpointed block are not shown.
if hasattr(torch.utils.checkpoint._CheckpointFrame, "save_inputs"):
    MAKING["checkpoint"] = made_twice


def written_without_gradient(a: torch.Tensor, _: torch.Tensor) -> None:
    with torch.no_grad():
        a.add_(1)


DOING: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    **{name: lambda a, _, name=name: getattr(a, name)() for name in IN_PLACE[2:]},  # type: ignore[misc]
    **{name: lambda a, _, name=name: getattr(a, name)(0.5) for name in IN_PLACE[:2]},  # type: ignore[misc]
    "mul_ by another": lambda a, b: a.mul_(b),
    "write into a row": lambda a, _: a[0].mul_(2),
    "write into a row by another": lambda a, b: a[0].mul_(b[0]),
    "write into a view of a view": lambda a, _: a.view(4)[1:].view(3, 1).fill_(1.0),
    "write into the diagonal": lambda a, b: a.diagonal().copy_(b[0]),
    "write without a gradient": written_without_gradient,
    "write into what is detached": lambda a, _: a.detach().add_(1),
    "write into .data, unseen": lambda a, _: a.data.add_(1),
    "backward": lambda a, _: a.sum().backward(),
    "backward that retains": lambda a, _: a.sum().backward(retain_graph=True),
}


def run(program: list[Step]) -> torch.Tensor:
    """Run a program; return None if PyTorch raises an error before the backward pass."""
    tensors = [torch.tensor([[0.5, 0.25], [0.75, 1.0]], requires_grad=True) for _ in range(2)]
    tensors.append(tensors[0] * tensors[1])
    for name, first, second in program:
        a, b = tensors[first % len(tensors)], tensors[second % len(tensors)]
        with suppress(RuntimeError):
            if name in MAKING:
                tensors += MAKING[name](a, b)
            else:
                DOING[name](a, b)
    usable = [tensor for tensor in tensors[2:] if not is_refused(tensor)]
    return torch.stack([tensor.sum() for tensor in usable[-3:]]).sum()


def is_refused(tensor: torch.Tensor) -> bool:
    with suppress(RuntimeError):
        return tensor.sum() is None
    return True


def programs() -> st.SearchStrategy[list[Step]]:
    number = st.integers(0, 9)
    step = st.tuples(st.sampled_from([*MAKING, *DOING]), number, number)
    return st.lists(step, min_size=3, max_size=14)


FREED_WITH_NOTHING_SAVED: list[Step] = [
    ("custom function that saves nothing", 0, 0),
    ("backward", 3, 0),
]


@settings(max_examples=500)
@example(program=FREED_WITH_NOTHING_SAVED, looks=True)
@given(program=programs(), looks=st.booleans())
def test_diagnose_reports_a_failure_exactly_if_backward_fails(
    *, program: list[Step], looks: bool
) -> None:
    Keeping.looks = looks
    loss = run(program)
    found = [one for one in diagnose(loss) if one.code in FAILING]
    graph = _autograd.walk([loss.grad_fn] if loss.grad_fn else [])
    is_hidden = any(map(_autograd.hides_saved, graph))
    message = failure_of(run(program))
    fails = message is not None
    event(f"{'fails' if fails else 'passes'}: {', '.join(sorted({one.code for one in found}))}")
    assert fails or all(one.severity is not Severity.ERROR for one in found), found
    assert found or not fails or is_hidden, message
    if fails and looks and not is_hidden:
        assert any(SAYS[one.code] in (message or "") for one in found)


SAYS = {"in-place": "expected version", "freed": "second time"}


# --- Each way to fail, by its code, with what PyTorch then says


def margin() -> torch.Tensor:
    return nn.functional.multi_margin_loss(leaf(2, 3), torch.tensor([0, 1]))


def twice(compute: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    (gradient,) = torch.autograd.grad(compute(x), x, create_graph=True)
    return gradient


def second_of_margin() -> torch.Tensor:
    target = torch.tensor([0, 1])
    return twice(lambda x: nn.functional.multi_margin_loss(x, target), leaf(2, 3))


def second_of_embedding_bag() -> torch.Tensor:
    bags = torch.tensor([[0, 1]])
    table = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    return twice(lambda x: nn.functional.embedding_bag(bags, x).square().sum(), table)


def second_of_marked() -> torch.Tensor:
    function: Any = Once
    return twice(lambda x: function.apply(x).sin().sum(), leaf(2))


def leaf_in_graph() -> torch.Tensor:
    x, scale = leaf(2), leaf(2)
    y = x.exp()
    x.requires_grad_(False).mul_(scale)
    return y


def detached_since() -> torch.Tensor:
    h = leaf(2) * 1
    y = h.sin() * h.exp()
    h.detach_()
    return y


@torch.library.custom_op("leafgrad_tests::square", mutates_args=())
def square(x: torch.Tensor) -> torch.Tensor:
    return x * x


@pytest.mark.parametrize(
    ("compute", "code", "message"),
    [
        (margin, None, None),
        (lambda: torch.igamma(torch.ones(2), leaf(2)), None, None),
        (lambda: torch.igamma(leaf(2), torch.ones(2)), "no-formula", "is not implemented"),
        (lambda: leaf(2).unique(), "no-formula", "is not implemented"),
        (lambda: leaf(2) // 0.1, "no-formula", "is not implemented"),
        (lambda: square(leaf(2) * 1), "no-formula", "no autograd formula was registered"),
        (second_of_margin, "once-differentiable", "is not implemented"),
        (second_of_embedding_bag, "once-differentiable", "is not implemented"),
        (second_of_marked, "once-differentiable", "@once_differentiable"),
        (leaf_in_graph, "leaf-in-place", "moved into the graph interior"),
        (detached_since, "detached-in-place", "detached in-place"),
    ],
    ids=[
        "margin",
        "igamma of data",
        "igamma",
        "unique",
        "floor",
        "operator",
        "margin twice",
        "embedding bag twice",
        "marked",
        "leaf",
        "detached",
    ],
)
def test_finding_has_the_code_of_the_error_that_backward_raises(
    compute: Callable[[], torch.Tensor], code: str | None, message: str | None
) -> None:
    with record() as recording:
        loss = compute().sum()
    codes = diagnose(loss, recording=recording).codes
    failure = failure_of(loss)
    if code == "detached-in-place" and torch.__version__ < "2.12":
        pytest.skip("before 2.12, PyTorch does not show that a saved tensor was detached")
    assert (code in codes) if code else not FAILING.intersection(codes), codes
    assert (message is None) is (failure is None)
    assert (message or "") in (failure or "")


def test_second_derivative_of_compiled_code_is_reported() -> None:
    sine: Any = torch.compile(torch.sin, backend="aot_eager")
    loss = twice(lambda x: sine(x).sum(), leaf(2)).sum()
    assert diagnose(loss).codes == ("once-differentiable",)
    assert "does not currently support double backward" in (failure_of(loss) or "")


@pytest.mark.parametrize(
    "loss",
    [torch.ones(4), torch.ones(2, 1), torch.ones((), dtype=torch.cfloat)],
    ids=["4", "2x1", "complex"],
)
def test_loss_that_is_not_one_real_number_is_reported(loss: torch.Tensor) -> None:
    y = 2 * torch.ones_like(loss, requires_grad=True)
    assert diagnose(y).codes == ("not-scalar",)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for"):
        y.backward()
    assert "not-scalar" not in diagnose(y.abs().sum()).codes


def test_data_replaced_after_it_was_saved_is_reported() -> None:
    weight = leaf(3)
    with record() as recording:
        loss = (weight * weight).sum()
        weight.data = torch.zeros(3)
    assert "silent-write" in diagnose(loss, {"weight": weight}, recording=recording).codes


def calls_of_diagnose(layers: int) -> int:
    """Return how many function calls a diagnosis makes, independent of the machine's load."""
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(layers)))
    loss = model(torch.ones(1, 2)).sum()
    loss.backward()
    profile = Profile()
    profile.runcall(diagnose, loss, model)
    calls: int = vars(Stats(profile))["total_calls"]
    return calls


def test_number_of_calls_in_diagnose_grows_linearly_with_the_graph() -> None:
    calls_of_diagnose(2)  # This is read only once.
    few, many = map(calls_of_diagnose, (25, 100))
    assert many < 5 * few


def test_freed_graph_of_compiled_code_is_reported() -> None:
    sine: Any = torch.compile(torch.sin, backend="aot_eager")
    y = sine(torch.tensor(2.0, requires_grad=True))
    y.backward()
    assert [one.severity for one in diagnose(y) if one.code == "freed"] == [Severity.NOTE]
    assert "second time" in (failure_of(y) or "")


# --- What a recording adds


class Custom(torch.optim.Optimizer):
    """A user's optimizer with a helper function that its step calls."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, _: Any = None) -> None:  # type: ignore[override]
        for parameter in self.param_groups[0]["params"]:
            update(parameter)


def update(parameter: torch.Tensor) -> None:
    parameter.add_(1.0)


OPTIMIZERS: list[Callable[[Any], torch.optim.Optimizer]] = [
    lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    lambda parameters: torch.optim.AdamW(parameters, foreach=True),
    Custom,
]


@pytest.mark.parametrize("make", OPTIMIZERS, ids=["SGD", "AdamW", "Custom"])
def test_step_of_any_optimizer_is_reported_at_the_line_that_calls_it(
    make: Callable[[Any], torch.optim.Optimizer],
) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = make(model.parameters())
    with record() as recording:
        loss = model(torch.ones(1, 2)).sum()
        loss.backward(retain_graph=True)
        optimizer.step()
    found = next(iter(diagnose(loss, model, recording=recording)))
    assert (found.code, found.subject) == ("step-before-backward", ("1.weight",))
    assert found.primary is not None
    assert found.primary.source.function.startswith("test_step_of_any_optimizer")
    assert f"`{type(optimizer).__name__}.step` changed it" in found.notes[0]


def test_write_in_a_closure_is_not_attributed_to_the_optimizer_step() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)

    def closure() -> float:
        y = model(torch.ones(1, 2)).exp()
        y.sum().backward(retain_graph=True)
        y.add_(1.0)
        return float(y.detach())

    with record() as recording:
        optimizer.step(closure)
    writes = [one.within for one in recording.writes if one.operation == "add_"]
    assert None in writes


def test_detach_is_suggested_only_for_state_carried_to_next_training_step() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as recording:
        state = model(torch.ones(1, 2))
        hidden = model(state)
        hidden.sum().backward(retain_graph=True)
        optimizer.step()
        carried = model(hidden)
    assert "detach()" not in str(diagnose(hidden.sum(), model, recording=recording))
    assert ".detach()" in str(diagnose(carried.sum(), model, recording=recording))


def test_optimizer_step_that_changes_many_parameters_is_reported_once() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(12)))
    with record() as recording:
        loss = model(torch.rand(3, 4)).mean()
        loss.backward(retain_graph=True)
        torch.optim.SGD(model.parameters()).step()
    for known, code in ((recording, "step-before-backward"), (None, "in-place")):
        (found,) = diagnose(loss, model, recording=known)
        assert (found.code, len(found.subject)) == (code, 11)


@pytest.mark.parametrize(
    "backward",
    [
        lambda loss, _: loss.backward(),
        torch.autograd.grad,
        lambda loss, _: torch.autograd.backward(loss),
    ],
    ids=["method", "grad", "function"],
)
def test_line_of_the_backward_pass_that_freed_the_graph_is_shown(backward: Any) -> None:
    if torch.__version__ < "2.11" and backward is not None:
        pytest.skip("PyTorch 2.10 does not show each way to a recording")
    x = leaf(2)
    with record() as recording:
        loss = x.exp().sum()
        backward(loss, x)
    (found,) = diagnose(loss, recording=recording)
    assert (found.code, found.primary is not None) == ("freed", True)


def test_backward_pass_that_keeps_the_graph_is_not_blamed_for_freeing_it() -> None:
    with record() as recording:
        loss = leaf(2).exp().sum()
        loss.backward(retain_graph=True)
    loss.backward()
    (found,) = diagnose(loss, recording=recording)
    assert found.primary is None


def test_line_of_node_without_sequence_number_is_reported() -> None:
    x = leaf(2)
    with record() as recording:
        loss = (x * 3 // 0.1).sum()
    (found,) = diagnose(loss, recording=recording)
    assert found.primary is not None
    assert (found.code, found.primary.source.line) == ("no-formula", recording.sources[0].line)


DISTRIBUTED = """
import sys
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from leafgrad import diagnose, record

store = distributed.FileStore(STORE, 1)
distributed.init_process_group("gloo", store=store, rank=0, world_size=1)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.idle = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.used(x), self.idle(x)


def compare(model, loss, recording):
    found = diagnose(loss, model, recording=recording)
    loss.backward()
    filled = {name for name, p in model.named_parameters() if p.grad is not None}
    absent = {name for one in found for name in one.subject}
    assert not filled & absent, (filled, absent)
    every = {name for name, _ in model.named_parameters()}
    print(sorted(absent), len(every - filled - absent))


model = nn.parallel.DistributedDataParallel(Two(), find_unused_parameters=True)
with record() as recording:
    loss = model(torch.randn(2, 4))[0].sum()
compare(model, loss, recording)

mesh = init_device_mesh("cpu", (1,))
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
for part in (model[0], model[2], model):
    fully_shard(part, mesh=mesh)
with record() as recording:
    loss = model(torch.randn(2, 4)).sum()
compare(model, loss, recording)
distributed.destroy_process_group()
"""


def test_idle_parameters_of_distributed_models_are_reported(
    tmp_path: Path, run_apart: RunApart
) -> None:
    run = run_apart(DISTRIBUTED.replace("STORE", repr(str(tmp_path / "store"))))
    said = [line for line in run.stdout.splitlines() if not line.startswith("[Gloo]")]
    assert said == [
        "['module.idle.bias', 'module.idle.weight'] 0",
        "[] 0",
    ]
