"""What a backward will fail at, compared with what it then fails at."""

import json
from collections.abc import Callable
from cProfile import Profile
from pathlib import Path
from pstats import Stats
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from leafgrad import _autograd, preflight, record
from leafgrad.types import Source
from tests.apart import RunApart
from tests.tensors import leaf

# From 2.12 on.
EACH_SLOT_CAN_BE_ASKED = hasattr(torch._C._autograd.SavedTensor, "unpack")
LINES = Path(__file__).read_text("utf-8").splitlines()


def line(source: Source | None) -> str | None:
    return None if source is None else LINES[source.line - 1].strip()


def failure_of(outputs: torch.Tensor) -> str | None:
    """Run backward; give what it complains of."""
    try:
        outputs.sum().backward()
    except RuntimeError as error:
        return str(error)
    return None


# --- Writes in place


def test_a_leaf_that_has_become_a_result_is_foreseen() -> None:
    x, other = leaf(2), leaf(2)
    y = x.exp() * other
    x.requires_grad = False
    x.mul_(leaf(2))
    found = preflight(y, names={"x": x, "other": other})
    assert [node.is_leaf for node in found.moved] == [True]
    assert found.first_failure == found.moved[0]
    told = " ".join(str(found).split())
    assert (
        "A leaf of shape (2,) has become the result of a write in place since it was used" in told
    )
    assert "moved into the graph interior" in (failure_of(y) or "")


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    y = leaf(2).exp().sin().sum()
    found = preflight(y)
    assert (found.will_fail, found.may_fail, found.first_failure) == (False, False, None)
    assert failure_of(y) is None


def test_a_conflict_names_node_versions_and_both_lines_also_through_a_view() -> None:
    x = leaf(2, 2)
    with record() as recording:
        h = x * 2
        y = h.sin().sum()
        row = h[0]
        row.add_(1)
    (conflict,) = preflight(y, recording=recording).conflicts
    assert conflict.node.name == "SinBackward0"
    assert line(conflict.node.source) == "y = h.sin().sum()"
    assert (conflict.saved.name, conflict.saved.saved_version) == ("self", 0)
    (write,) = conflict.saved.writes
    assert (line(write.source), write.through_view) == ("row.add_(1)", True)
    assert conflict.is_certain
    message = failure_of(y)
    assert message is not None
    assert "is at version 1; expected version 0" in message


def test_a_step_of_the_optimizer_before_backward_is_found() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as recording:
        first, second = model(torch.ones(1, 2)).sum(), model(torch.ones(1, 2)).sum()
        first.backward()
        optimizer.step()
    found = preflight(second, names=model, recording=recording)
    assert [conflict.node.name for conflict in found.conflicts] == ["AddmmBackward0"]
    assert {line(write.source) for c in found.conflicts for write in c.saved.writes} == {
        "optimizer.step()"
    }
    assert "expected version" in (failure_of(second) or "")


class Keeping(torch.autograd.Function):
    """Saves its input and one or two outputs, and looks at them or not."""

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


@pytest.mark.parametrize("looks", [True, False], ids=["looks", "does not look"])
@pytest.mark.parametrize("written", ["input", "outputs"])
def test_a_custom_function_may_fail(*, looks: bool, written: str) -> None:
    function: Any = Keeping
    x = leaf(2) * 1
    a, b = function.apply(x)
    with torch.no_grad():
        for tensor in [x] if written == "input" else [a, b]:
            tensor.add_(1)
    y = a.sum() + b.sum()
    found = preflight(y)
    assert (found.will_fail, found.may_fail) == (False, True)
    assert not any(conflict.is_certain for conflict in found.conflicts)
    assert "Backward fails if it looks at that." in str(found).replace("\n    ", " ")
    Keeping.looks = looks
    message = failure_of(y)
    assert (message is not None) == looks


def test_a_custom_function_that_is_freed_may_fail() -> None:
    function: Any = Keeping
    a, _ = function.apply(leaf(2))
    a.sum().backward()
    found = preflight(a)
    assert (found.will_fail, found.may_fail, len(found.freed)) == (False, True, 1)


# --- What is gone


def test_the_first_freed_node_is_the_one_that_backward_comes_to_first() -> None:
    x = leaf(2)
    trunk = x.exp().sin()
    trunk.sum().backward()
    y = (trunk.cos() + x.tan()).sum()
    found = preflight(y)
    assert [node.name for node in found.freed] == ["SinBackward0", "ExpBackward0"]
    assert found.first_failure == found.freed[0]
    assert "second time" in (failure_of(y) or "")


@pytest.mark.parametrize("doubly", [True, False])
def test_a_derivative_that_does_not_exist_refuses(*, doubly: bool) -> None:
    x = leaf(2, 3)
    y = nn.functional.multi_margin_loss(x, torch.tensor([0, 1]))
    if doubly:
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        y = (gradient**2).sum()
    found = preflight(y)
    assert [node.name for node in found.refusing] == ["NotImplemented"] * doubly
    assert found.will_fail == doubly == (failure_of(y) is not None)


@pytest.mark.parametrize("doubly", [True, False])
def test_a_second_derivative_through_what_is_marked_refuses(*, doubly: bool) -> None:
    x = leaf(2)
    function: Any = Once
    (gradient,) = torch.autograd.grad(function.apply(x).sin().sum(), x, create_graph=True)
    y = gradient if doubly else function.apply(x)
    found = preflight(y)
    assert [node.name for node in found.refusing] == ["Error"] * doubly
    assert "x // y" not in str(found)
    assert found.will_fail == doubly == (failure_of(y) is not None)


@pytest.mark.skipif(not EACH_SLOT_CAN_BE_ASKED, reason="PyTorch does not show it")
def test_a_saved_tensor_that_was_detached_in_place_is_foreseen() -> None:
    h = leaf(2) * 1
    y = (h.sin() * h.exp()).sum()
    h.detach_()
    found = preflight(y)
    assert [node.name for node in found.detached] == ["SinBackward0"]
    assert found.first_failure == found.detached[0]
    told = "A tensor that SinBackward0 saved has been cut from its graph by detach_() since"
    assert told in str(found).replace("\n    ", " ")
    assert "detached in-place" in (failure_of(y) or "")


def written_by_another() -> torch.Tensor:
    h, factor = leaf(2, 2) * 1, leaf(2) * 1
    h[0].mul_(factor)
    factor.add_(1)
    return h


def of_foreach() -> torch.Tensor:
    h = leaf(2) * 1
    y = torch._foreach_exp([h])[0]
    y.add_(1)
    return y


@pytest.mark.parametrize(
    ("compute", "name"),
    [(written_by_another, "CopySlices"), (of_foreach, "ForeachExpBackward0")],
    ids=["view", "foreach"],
)
def test_a_node_that_hides_what_it_saved_is_told_as_nothing_can_be_found_there(
    compute: Callable[[], torch.Tensor], name: str
) -> None:
    y = compute()
    found = preflight(y)
    text = str(found).replace("\n    ", " ")
    assert (found.may_fail, [node.name for node in found.hidden]) == (False, [name])
    assert text.startswith("preflight: no failure found, as far as nodes show")
    assert f"PyTorch does not show what {name} saved, so a write into that" in text
    assert "expected version" in (failure_of(y) or "")


def test_many_that_hide_what_they_saved_are_told_at_once() -> None:
    h = leaf(2) * 1
    h[0] = 1.0
    h[1] = 2.0
    assert "what CopySlices and 1 other node saved" in str(preflight(h)).replace("\n    ", " ")


# --- What will get no gradient


# --- What cannot be differentiated twice


class Once(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    @once_differentiable
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


def once() -> torch.Tensor:
    function: Any = Once
    result: torch.Tensor = function.apply(leaf(2).exp())
    return result


def without_formula() -> torch.Tensor:
    return nn.functional.multi_margin_loss(leaf(2, 3), torch.tensor([0, 1]))


def compiled() -> torch.Tensor:
    sine: Any = torch.compile(torch.sin, backend="aot_eager")
    result: torch.Tensor = sine(leaf(2))
    return result


@pytest.mark.parametrize(
    ("compute", "reason"),
    [
        (once, "its backward is marked @once_differentiable"),
        (without_formula, "PyTorch has no formula for the derivative"),
        (compiled, "torch.compile made its backward"),
    ],
    ids=["marked", "no formula", "compiled"],
)
def test_what_stands_in_the_way_of_a_second_derivative_is_told(
    compute: Callable[[], torch.Tensor], reason: str
) -> None:
    y = compute()
    found = preflight(y)
    assert [one.reason.startswith(reason) for one in found.once_differentiable] == [True]
    assert reason in str(found).replace("\n    ", " ")
    assert not found.will_fail
    assert failure_of(y) is None


# --- The forms


def test_the_text_says_what_fails_and_what_to_do() -> None:
    x, unused = leaf(2), leaf(2)
    y = x.exp().sin()
    y.sum().backward()
    assert f"{preflight(y, names={'unused': unused})}\n" == CARD


CARD = """\
preflight: backward will fail at SinBackward0
  in-place conflicts        0
  freed nodes               2
  refusing nodes            0
  differentiable only once  0
  - What SinBackward0 saved, the first of 2, was freed by an earlier backward:
    compute the outputs again, or pass retain_graph=True to that one.
"""


def test_one_freed_node_is_not_the_first_of_many() -> None:
    y = leaf(2).sin()
    y.sum().backward()
    assert "What SinBackward0 saved was freed" in str(preflight(y))


def test_a_write_of_unknown_origin_and_many_conflicts_are_told_shortly() -> None:
    h = leaf(2) * 1
    y = torch.stack([h.sin() for _ in range(8)]).sum()
    h.add_(1)
    text = str(preflight(y)).replace("\n    ", " ")
    assert text.count("written outside of record(), which would tell the line") == 5
    assert "And 3 other conflicts." in text


def test_a_refusing_node_is_told() -> None:
    x = leaf(2, 3)
    y = nn.functional.multi_margin_loss(x, torch.tensor([0, 1]))
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    text = str(preflight(gradient))
    assert text.startswith("preflight: backward will fail at NotImplemented")
    assert "NotImplemented stands for a derivative that does not exist" in text


def test_a_write_by_code_without_a_file_is_told() -> None:
    h = leaf(2) * 1
    y = h.sin()
    with record() as recording:
        exec("h.add_(1)", {"h": h})
    text = str(preflight(y, recording=recording)).replace("\n    ", " ")
    assert "written by add_ in <string>:1 in <module>" in text


def test_a_notebook_gets_the_card_as_html() -> None:
    assert "no failure found" in preflight(leaf(2).exp())._repr_html_()


def test_the_dict_holds_json_types_only() -> None:
    h = leaf(2) * 1
    y = h.sin()
    h.add_(1)
    data = preflight(y).to_dict()
    assert json.loads(json.dumps(data)) == data
    assert (data["will_fail"], data["conflicts"][0]["node"]["name"]) == (True, "SinBackward0")


def test_looking_ahead_changes_nothing() -> None:
    x = leaf(2)
    y = x.exp().sum()
    number = torch._C._autograd._get_sequence_nr()
    preflight(y, names={"x": x})
    assert torch._C._autograd._get_sequence_nr() == number
    assert x.grad is None
    y.backward()


def test_other_names_are_refused() -> None:
    wrong: Any = [leaf(2)]
    with pytest.raises(TypeError, match=r"^names must be a module, an optimizer, a mapping"):
        preflight(leaf(2).exp(), names=wrong)


# --- Outputs without a graph, and what cannot be seen


def test_one_node_that_runs_a_backward_is_told_alone() -> None:
    loss = checkpoint(torch.sin, leaf(2), use_reentrant=True).sum()
    assert "CheckpointFunctionBackward may run a backward" in " ".join(str(preflight(loss)).split())


def test_the_state_of_a_module_is_refused_as_its_tensors_are_in_no_graph() -> None:
    model = nn.Linear(2, 1)
    loss = model(torch.ones(2)).sum()
    message = r"^names must map to tensors of the graph, but names\['weight'\] is a detached"
    with pytest.raises(ValueError, match=message):
        preflight(loss, names=model.state_dict())
    assert preflight(loss, names=model.state_dict(keep_vars=True)).running == ()


def refused() -> dict[str, torch.Tensor]:
    x = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    bag = nn.functional.embedding_bag(torch.tensor([[0, 1]]), x)
    (gradient,) = torch.autograd.grad(bag.square().sum(), x, create_graph=True)
    return {
        "EmbeddingBagBackwardBackward0": gradient,
        "Unique2Backward0": x.unique(),
        "IgammaBackward0": torch.igamma(x, x.detach()),
    }


@pytest.mark.parametrize(
    "name", ["EmbeddingBagBackwardBackward0", "Unique2Backward0", "IgammaBackward0"]
)
def test_a_formula_that_is_not_there_is_foreseen(name: str) -> None:
    y = refused()[name]
    assert [node.name for node in preflight(y).refusing] == [name]
    assert "is not implemented" in (failure_of(y) or "")


def test_a_formula_for_the_other_input_is_no_obstacle() -> None:
    y = torch.igamma(torch.ones(2), leaf(2))
    assert not preflight(y).will_fail
    assert failure_of(y) is None


def test_a_second_derivative_through_compiled_code_is_foreseen() -> None:
    x = leaf(2)
    faster: Any = torch.compile(torch.Tensor.sin, backend="aot_eager")
    (slope,) = torch.autograd.grad(faster(x).sum(), x, create_graph=True)
    found = preflight(slope.sum(), names={"x": x})
    assert found.first_failure is not None
    assert found.first_failure.name == "CompiledFunctionBackwardBackward"
    assert "does not currently support double backward" in (failure_of(slope.sum()) or "")


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


def test_parameters_of_distributed_models_are_told_as_far_as_they_are_seen(
    tmp_path: Path, run_apart: RunApart
) -> None:
    run = run_apart(DISTRIBUTED.replace("STORE", repr(str(tmp_path / "store"))))
    said = [line for line in run.stdout.splitlines() if not line.startswith("[Gloo]")]
    assert said == [
        "['module.idle.bias', 'module.idle.weight'] 0",
        "[] 0",
    ]


def test_compiled_code_always_looks_at_what_was_freed() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    sine: Any = torch.compile(torch.sin, backend="aot_eager")
    y = sine(x)
    y.backward()
    told = preflight(y, names={"x": x})
    assert told.will_fail
    assert told.first_failure is told.freed[0]
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


@pytest.mark.parametrize(
    "loss", [torch.ones(4), torch.ones(2, 1), torch.ones((), dtype=torch.cfloat)]
)
def test_an_output_that_is_no_single_real_number_needs_a_gradient(loss: torch.Tensor) -> None:
    x = torch.ones_like(loss, requires_grad=True)
    y = 2 * x
    found = preflight(y)
    assert found.shapes == (tuple(loss.shape),)
    assert not found.will_fail
    assert f"An output of shape {tuple(loss.shape)} is not one real number" in str(found)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for"):
        y.backward()
    assert (
        preflight(y.abs().sum()).shapes == preflight(torch.ones(1, requires_grad=True)).shapes == ()
    )


def test_what_a_backward_fails_at_comes_before_its_gradient() -> None:
    y = leaf(2).exp()
    y.sum().backward()
    assert "real number" not in str(preflight(y))
    assert "real number" not in str(preflight(torch.ones(2)))
    edge = torch.autograd.graph.get_gradient_edge(leaf(2).exp())
    assert preflight(edge).shapes == ()


def test_the_line_of_a_derivative_that_does_not_exist_is_told() -> None:
    x = leaf(2)
    with record() as recording:
        loss = (x * 3 // 0.1).sum()
        view = (x * 2)[:1].requires_grad_()
    found = preflight(loss, recording=recording)
    assert found.refusing[0].source == recording.sources[0]
    assert "divide by /" in str(found)
    assert preflight(loss).refusing[0].source is None
    assert view.requires_grad
    recording.log.prune()
    assert loss.grad_fn is not None
    # PyTorch 2.10 numbers the node that refuses, whose line is then found like any other's.
    (refusing, _), *_ = loss.grad_fn.next_functions
    assert refusing is not None
    assert bool(recording.log.refusals) is (_autograd.sequence_nr(refusing) is None)
    del loss, found, refusing
    recording.log.prune()
    assert not recording.log.refusals


def test_only_what_is_carried_over_a_step_is_to_be_cut_off() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as recording:
        state = model(torch.ones(1, 2))
        hidden = model(state)
        hidden.sum().backward(retain_graph=True)
        optimizer.step()
        carried = model(hidden)
    (one,) = preflight(hidden.sum(), names=model, recording=recording).conflicts
    assert not one.is_used_since
    found = preflight(carried.sum(), names=model, recording=recording)
    assert all(one.is_used_since for one in found.conflicts)
    assert "state = state.detach()" in " ".join(str(found).split())


def calls_of_preflight_after_backward(layers: int) -> int:
    """Return how many functions a preflight calls, which no other process changes."""
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(layers)))
    loss = model(torch.ones(1, 2)).sum()
    loss.backward()
    profile = Profile()
    profile.runcall(preflight, loss, names=model)
    calls: int = vars(Stats(profile))["total_calls"]
    return calls


def test_cost_after_a_backward_grows_in_proportion_to_the_graph() -> None:
    calls_of_preflight_after_backward(2)  # what is read once
    few, many = map(calls_of_preflight_after_backward, (25, 100))
    assert many < 5 * few


def test_preflight_has_no_truth_value_and_a_short_repr() -> None:
    found = preflight(leaf(2).exp().sum())
    with pytest.raises(TypeError, match=r"ask for \.will_fail or \.may_fail$"):
        bool(found)
    assert repr(found) == "<Preflight: no failure found>"
