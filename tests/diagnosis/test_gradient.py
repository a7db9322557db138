"""Tensors that get no gradient: each cause on a real graph, and no other cause."""

import gc
import re
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointError, checkpoint

from leafgrad import Report, diagnose, laplacian, record
from leafgrad._diagnosis.diagnosis import list_names
from tests.diagnosis.programs import code_of
from tests.several_processes import needs_distributed, one_of
from tests.tensors import leaf

LINES = Path(__file__).read_text("utf-8").splitlines()
X = torch.linspace(-1.0, 2.0, 12).reshape(4, 3)
W = leaf(2)


def line_of(report: Report) -> str:
    """Return the line that the first finding marks."""
    primary = report.diagnoses[0].primary
    return "" if primary is None else LINES[primary.source.line - 1].strip()


# --- What can be seen without a recording


def retained() -> tuple[Any, Any]:
    h = leaf(2) * 2
    h.retain_grad()
    return h, h.sum()


def not_retained() -> tuple[Any, Any]:
    h = leaf(2) * 2
    return h, h.sum()


def output_itself() -> tuple[Any, Any]:
    y = leaf(2).sum()
    return y, y


def constant() -> tuple[Any, Any]:
    x = torch.ones(2)
    return x, (x * leaf(2)).sum()


def frozen() -> tuple[Any, Any]:
    linear = nn.Linear(2, 2)
    linear.weight.requires_grad_(False)
    return linear.weight, linear(torch.ones(2)).sum()


def integer() -> tuple[Any, Any]:
    index = torch.tensor([0, 1])
    return index, leaf(2)[index].sum()


def other_output_of_the_node() -> tuple[Any, Any]:
    first, second = (leaf(2) * 2).unbind()
    return first, second.exp()


def without_graph() -> tuple[Any, Any]:
    x = leaf(2)
    return x, x.detach().sum()


def leaf_as_output() -> tuple[Any, Any]:
    x = leaf(2)
    return x, x.detach().sum().requires_grad_()


def unrecorded_view() -> tuple[Any, Any]:
    base = leaf(2)
    with torch.no_grad():
        view = base[:1]
    return view, base.sum()


def invalid_view() -> tuple[Any, Any]:
    base = leaf(2) * 1
    with torch.no_grad():
        view = base.unbind()[0]
    base.add_(1)
    return view, base.sum()


def gradient_edge() -> tuple[Any, Any]:
    x = leaf(2)
    return x, torch.autograd.graph.get_gradient_edge(x.exp())


def product_of_laplacian() -> tuple[Any, Any]:
    x, network = torch.randn(4, 2, requires_grad=True), nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    return x, laplacian(network(x), x).sum()


def rounded() -> tuple[Any, Any]:
    x = leaf(2)
    return x, x.round().sum()


def rounded_and_more() -> tuple[Any, Any]:
    x = leaf(2)
    return x, (x.round() + x).sum()


def reentrant_block() -> tuple[Any, Any]:
    linear = nn.Linear(2, 2)
    return linear.weight, checkpoint(linear, leaf(2), use_reentrant=True).sum()


SEEN: dict[Callable[[], tuple[Any, Any]], str | None] = {
    retained: None,
    not_retained: "not-retained",
    output_itself: "not-retained",
    constant: "frozen",
    frozen: None,
    integer: "frozen",
    lambda: (leaf(2), leaf(2).sum()): "not-reached",
    other_output_of_the_node: "other-tensor",
    without_graph: "no-graph",
    leaf_as_output: "no-graph",
    unrecorded_view: "no-grad",
    invalid_view: None,
    gradient_edge: None,
    product_of_laplacian: None,
    rounded: "zero-derivative",
    rounded_and_more: None,
    reentrant_block: None,
}


@pytest.mark.parametrize("case", SEEN, ids=lambda case: case.__name__)
def test_cause_is_found_without_a_recording(case: Callable[[], tuple[Any, Any]]) -> None:
    assert code_of(*case()) == SEEN[case]


def test_tensor_inside_a_torch_func_transform_is_not_reported() -> None:
    codes = []

    def inside(x: Tensor) -> Tensor:
        y = x.sin().sum()
        codes.append(code_of(x, y))
        return y

    torch.func.grad(inside)(torch.ones(2))
    assert codes == [None]


def test_finding_mentions_that_grad_mode_is_off() -> None:
    model = nn.Linear(2, 1)
    with torch.no_grad():
        assert "`torch.set_grad_enabled(True)`" in str(diagnose(model(torch.ones(2)).sum(), model))


def test_operator_without_a_formula_stops_the_gradient() -> None:
    with torch.library._scoped_library("leafgrad_explain", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: 2 * x.detach(), "CPU")
        x = leaf(2)
        assert code_of(x, torch.ops.leafgrad_explain.twice(x).sum()) is not None


# --- What a recording shows


def started_anew(x: Tensor) -> Tensor:
    h = x.exp().detach().requires_grad_()
    return (h * W).sum()


def detached_in_place(x: Tensor) -> Tensor:
    h = x.exp()
    h.detach_()
    return (h * W).sum()


def python(x: Tensor) -> Tensor:
    h = x.sum().exp().item()
    return (h * W).sum()


def numpy(x: Tensor) -> Tensor:
    h = torch.from_numpy(x.exp().detach().numpy())
    return (h * W).sum()


def nested_in_a_list(x: Tensor) -> Tensor:
    h = torch.stack([x.detach(), W.detach()])
    return (h * W).sum()


def written_into_a_constant(x: Tensor) -> Tensor:
    h = torch.zeros(2)
    with torch.no_grad():
        h[0] = x[0]
    return (h * W).sum()


def without_any_graph(x: Tensor) -> Tensor:
    h = x.exp().detach()
    return h.sum()


def reentrant_checkpoint(x: Tensor) -> Tensor:
    h = checkpoint(lambda one: one * x, torch.ones(2), use_reentrant=True)
    result: Tensor = (h * W).sum()
    return result


CUTS: dict[Callable[[Tensor], Tensor], str] = {
    started_anew: "detached",
    detached_in_place: "detached",
    python: "converted",
    numpy: "converted",
    nested_in_a_list: "detached",
    written_into_a_constant: "no-grad",
    without_any_graph: "no-graph",
    reentrant_checkpoint: "no-grad",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("compute", CUTS, ids=lambda case: case.__name__)
def test_cut_is_found_with_its_line(compute: Callable[[Tensor], Tensor]) -> None:
    x = leaf(2)
    with record() as recording:
        loss = compute(x)
    report = diagnose(loss, {"x": x}, recording=recording)
    assert report.codes == (CUTS[compute],)
    assert re.match(r"h(\[0\])? = |h\.detach_\(\)", line_of(report))


def of_broadcasting(x: Tensor) -> Tensor:
    _, h = torch.broadcast_tensors(x, torch.ones(2))
    result: Tensor = (h * W).sum()
    return result


def of_a_grid(x: Tensor) -> Tensor:
    _, h = torch.meshgrid(x, torch.ones(2), indexing="ij")
    result: Tensor = (h.sum(0) * W).sum()
    return result


def logged(x: Tensor) -> Tensor:
    assert x.norm().item()
    return W.sum()


def detached_for_nothing(x: Tensor) -> Tensor:
    for _ in range(100):
        x.exp().detach()
    return (torch.ones(2) * W).sum()


UNUSED: dict[str, Callable[[Tensor], Tensor]] = {
    "broadcasting": of_broadcasting,
    "grid": of_a_grid,
    "expand_as": lambda x: (torch.ones(1).expand_as(x) * W).sum(),
    "zeros_like": lambda x: (torch.zeros_like(x) * W + x.new_ones(2)).sum(),
    "detached for nothing": detached_for_nothing,
    "logged": logged,
}


@pytest.mark.parametrize("compute", UNUSED.values(), ids=UNUSED)
def test_cut_that_does_not_reach_the_loss_is_not_blamed(
    compute: Callable[[Tensor], Tensor],
) -> None:
    x = leaf(2)
    with record() as recording:
        loss = compute(x)
    assert code_of(x, loss, recording) == "unused"


class Spare(nn.Module):
    """A model with a layer that its loss does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.spare = nn.Linear(3, 1), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.a(x).square().mean()
        return result


def log_norm(model: Spare) -> None:
    sum(parameter.norm().item() for parameter in model.parameters())


def initialise(model: Spare) -> None:
    nn.init.orthogonal_(model.spare.weight)


def load_copy(model: Spare) -> None:
    model.load_state_dict({name: one.clone() for name, one in model.state_dict().items()})


def average(model: Spare) -> None:
    other = [torch.zeros_like(one) for one in model.parameters()]
    with torch.no_grad():
        torch._foreach_lerp_(other, [*model.parameters()], 0.1)


def step_with(kind: Any, **arguments: Any) -> Callable[[Spare], None]:
    def step(model: Spare) -> None:
        optimizer = kind(model.parameters(), **arguments)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = model(X)
            loss.backward()
            return loss

        optimizer.step(closure)

    return step


OTHER_USES = {
    "logged norm": log_norm,
    "initialisation": initialise,
    "loaded copy": load_copy,
    "moving average": average,
    "L-BFGS": step_with(torch.optim.LBFGS),
    "AdamW": step_with(torch.optim.AdamW, foreach=True, weight_decay=0.1),
}


@pytest.mark.parametrize("use", OTHER_USES.values(), ids=OTHER_USES)
def test_unused_parameter_is_reported_despite_its_other_uses(use: Callable[[Spare], None]) -> None:
    model = Spare()
    with record() as recording:
        earlier = model(X)
        use(model)
        later = model(X)
    for loss in (earlier, later):
        (found,) = diagnose(loss, model, recording=recording)
        assert (found.code, found.subject) == ("unused", ("spare.weight", "spare.bias"))


def test_only_the_cut_between_the_tensor_and_the_loss_is_marked() -> None:
    x, y = leaf(2), leaf(2)
    with record() as recording:
        a = x.exp().detach()
        b = y.exp().detach()
        c = x.sin().detach()
        loss, other = (a * b * W).sum(), c.sum() + W.sum()
    report = diagnose(loss, {"x": x}, recording=recording)
    assert line_of(report) == "a = x.exp().detach()"
    assert code_of(y, other, recording) == "unused"
    assert code_of(x, (x * x.detach()).sum(), recording) is None


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
def test_each_tensor_is_reported_with_the_cut_of_its_own_path() -> None:
    w, x = leaf(2), leaf(2)
    with record() as recording:
        h = w * x.exp().detach()
        loss = torch.tensor(h.sum()) + W.sum()
    assert [code_of(one, loss, recording) for one in (w, x)] == ["copied", "detached"]


def test_intermediate_tensors_before_and_after_a_cut_are_reported_as_detached() -> None:
    x = leaf(2)
    with record() as recording:
        h = x.exp()
        cut = h.sin().detach()
        loss = (cut * x).sum()
    assert [code_of(one, loss, recording) for one in (h, cut, x)] == ["detached", "detached", None]


def test_cut_of_a_freed_graph_is_reported_and_no_tensor_stays_alive() -> None:
    x = h = leaf(2)
    with record() as recording:
        for step in range(20_000):
            h = h.sin()
            if step % 1000 == 0:
                h.detach()
        loss = (h.detach() * W).sum()
    reference = weakref.ref(h)
    del h
    gc.collect()
    assert reference() is None
    assert code_of(x, loss, recording) == "detached"


def test_tensor_detached_in_another_thread_is_found_by_its_memory() -> None:
    x, found = leaf(2), []
    with record() as recording:
        thread = threading.Thread(target=lambda: found.append(x.detach()))
        thread.start()
        thread.join()
        loss = (found[0] * W).sum()
        x.exp()
    report = diagnose(loss, {"x": x}, recording=recording)
    assert report.codes == ("other-tensor",)
    assert line_of(report) == "loss = (found[0] * W).sum()"


def test_straight_through_estimator_is_only_a_note() -> None:
    encoder, codes = nn.Linear(3, 2), nn.Embedding(5, 2)
    with record() as recording:
        z = encoder(X)
        q = codes(torch.cdist(z, codes.weight).argmin(1))
        loss = (z + (q - z).detach()).square().sum()
    report = diagnose(loss, {"encoder": encoder, "codes": codes}, recording=recording)
    assert (report.ok, report.codes) == (True, ("detached",))
    assert "mse_loss(q, z.detach())" in str(report)
    assert not report.diagnoses[0].help[0].edits


@pytest.mark.parametrize("name", ["all_gather", "gather", "all_to_all_single"])
def test_collective_that_cuts_the_graph_is_reported_with_its_line(name: str) -> None:
    if name == "gather" and torch.__version__ < "2.12":
        pytest.skip("before 2.12, PyTorch hides gather from a recording")
    encoder, head = nn.Linear(3, 3), nn.Linear(3, 1)
    dist.init_process_group(
        "gloo", store=torch._C._distributed_c10d.HashStore(), rank=0, world_size=1
    )
    try:
        with record() as recording:
            features = encoder(X)
            parts = [torch.zeros_like(features)]
            calls: dict[str, tuple[Any, ...]] = {
                "all_gather": (parts, features),
                "gather": (features, parts),
                "all_to_all_single": (parts[0], features),
            }
            getattr(dist, name)(*calls[name])
            loss = head(torch.cat(parts)).sum()
    finally:
        dist.destroy_process_group()
    report = diagnose(loss, {"encoder": encoder}, recording=recording)
    assert report.codes[0] == "collective"
    assert line_of(report) == "getattr(dist, name)(*calls[name])"


# --- Derivatives and custom functions


class Square(torch.autograd.Function):
    """Saves an intermediate tensor that has no graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        doubled = x * 2
        ctx.save_for_backward(doubled)
        return doubled**2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return 4 * ctx.saved_tensors[0] * gradients[0]


def test_unsaved_intermediate_of_custom_function_is_reported() -> None:
    x = leaf(2)
    with record() as recording:
        y: Any = Square.apply(x)  # type: ignore[no-untyped-call]
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        loss = (slope * W).sum()
    report = diagnose(loss, {"x": x}, recording=recording)
    assert report.codes == ("linear",)
    assert "as PyTorch computed it" in " ".join(str(report).split())
    assert "save its inputs and outputs only" in " ".join(str(report).split())


def test_bias_that_a_derivative_does_not_contain_is_only_a_note() -> None:
    model = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.rand(3, 1, requires_grad=True)
    with record() as recording:
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        loss = (slope - 1).square().mean()
    report = diagnose(loss, model, recording=recording)
    assert (report.ok, report.codes) == (True, ("linear",))
    assert report.diagnoses[0].subject == ("2.bias",)
    assert code_of(model.get_parameter("2.bias"), loss, recording) == "linear"
    assert code_of(leaf(2), loss, recording) == "unused"


class Asking(torch.autograd.Function):
    """Returns the result of another function."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return twice(gradients[0])


def twice(gradient: Any) -> Any:
    return 2 * gradient


def test_backward_that_cannot_be_read_gives_no_finding() -> None:
    x, other = leaf(2), leaf(2)
    with record() as recording:
        seen: Any = Asking.apply(x)  # type: ignore[no-untyped-call]
        loss = (seen.detach() * Asking.apply(other)).sum()  # type: ignore[no-untyped-call]
    assert [code_of(one, loss, recording) for one in (other, x)] == [None, "detached"]


# --- What should get a gradient


def test_optimizer_and_expect_decide_which_parameters_should_be_trained() -> None:
    model = nn.ModuleDict({"generator": nn.Linear(3, 3), "critic": nn.Linear(3, 1)})
    optimizer = torch.optim.SGD(model["critic"].parameters(), lr=0.1)
    with record() as recording:
        loss = model["critic"](model["generator"](X).detach()).mean()
    assert diagnose(loss, model, optimizer, recording=recording).ok
    assert not diagnose(loss, model, recording=recording).ok
    assert diagnose(loss, model, recording=recording, expect=["critic"]).ok
    report = diagnose(loss, model, optimizer, recording=recording, expect=["generator.weight"])
    assert report.about("generator.weight").codes == ("detached",)


def test_teacher_outside_the_model_is_only_a_note() -> None:
    student, teacher = nn.Linear(3, 1), nn.Linear(3, 1)
    report = diagnose(nn.functional.mse_loss(student(X), teacher(X)), student)
    assert (report.ok, report.codes) == (True, ("unregistered",))


# --- Names


ALL = [f"{block}.{place}.{kind}" for block in "ab" for place in "01" for kind in ("weight", "bias")]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "the model"),
        (["x"], "`x`"),
        (["x", "y", "z"], "`x`, `y` and `z`"),
        (ALL, "the 8 parameters of the model"),
        (ALL[:4], "the 4 parameters of `a`"),
        ([*ALL[:4], ALL[7]], "the 4 parameters of `a` and `b.1.bias`"),
        (ALL[::2], "2 parameters of `a.*` and 2 parameters of `b.*`"),
        (["w", "x", "y", "z"], "4 parameters of the model"),
    ],
)
def test_many_names_are_counted_by_module(names: list[str], words: str) -> None:
    assert list_names(names, ALL) == words


# --- Switches, and leaves that no module registers


def test_no_grad_block_is_marked_after_an_enable_grad_block_inside_it() -> None:
    x = leaf(2)
    with record() as recording, torch.no_grad():
        with torch.enable_grad():
            x.exp()
        loss = x.sum()
    (found,) = diagnose(loss, {"x": x}, recording=recording)
    assert found.primary is not None
    assert found.secondary[0].source.line == found.primary.source.line - 3


class Holding(nn.Module):
    """A module with the attributes that a test passes."""

    def __init__(self, **held: Any) -> None:
        super().__init__()
        for name, value in held.items():
            setattr(self, name, value)


def test_leaves_that_a_module_holds_unregistered_are_named_by_their_paths() -> None:
    w = nn.Parameter(torch.ones(2))
    scaled = nn.Parameter(torch.ones(2)) * 0.1
    layer = nn.Linear(2, 2)
    model: Any = Holding(
        inner=Holding(weights=(w, 3.0)), layers={"a": [layer]}, scaled=scaled, plain=leaf(2), no=7
    )
    model.loop = [model.layers]
    model.loop.append(model.loop)
    plain = model.plain
    loss = layer(w * scaled * plain).sum()
    report = diagnose(loss, {"net": model})
    assert {*report.codes} == {"unregistered"}
    assert {name for one in report for name in one.subject} == {
        "net.inner.weights[0]",
        "net.layers['a'][0].weight",
        "net.layers['a'][0].bias",
        "net.scaled",
        "net.plain",
    }


# --- Several processes


class Heads(nn.Module):
    """Uses the second head only on request, and detached."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: Tensor, *, cuts: bool = False) -> Tensor:
        result: Tensor = self.used(x)
        return result + self.idle(x).detach() if cuts else result


@needs_distributed
def test_parameter_that_another_process_may_give_a_gradient_is_not_reported() -> None:
    with one_of(2):
        for finds_unused, expected in ((True, ()), (False, ("not-reached",))):
            model = nn.parallel.DistributedDataParallel(
                Heads(), find_unused_parameters=finds_unused
            )
            assert diagnose(model(torch.ones(1, 4)).sum(), model).codes == expected
            with record() as recording:
                loss = model(torch.ones(1, 4), cuts=True).sum()
            assert diagnose(loss, model, recording=recording).codes == ("detached",)


@needs_distributed
def test_sharded_parameters_are_matched_with_unsharded_ones() -> None:
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415 (may lack)

    with one_of(2):
        model: Any = Heads()
        for part in model.children():
            fully_shard(part)
        fully_shard(model)
        (found,) = diagnose(model(torch.ones(1, 4)).sum(), model)
        assert (found.code, found.subject) == ("not-reached", ("idle.weight", "idle.bias"))
        if hasattr(model, "set_reduce_scatter_unused_params"):
            model.set_reduce_scatter_unused_params(True)
            model.idle(torch.ones(1, 4))  # The parameters of `idle` are gathered once.
            assert diagnose(model.used(torch.ones(1, 4)).sum(), model).ok


def test_state_dict_loaded_into_another_model_is_reported_as_a_copy() -> None:
    a, b = nn.Linear(3, 1), nn.Linear(3, 1)
    with record() as recording:
        b.load_state_dict(a.state_dict())
        loss = b(X).sum()
    report = diagnose(loss, {"a": a}, recording=recording)
    assert report.codes[0] == "other-tensor"
    assert line_of(report) == "b.load_state_dict(a.state_dict())"


def test_loss_that_is_a_leaf_with_several_elements_is_diagnosed() -> None:
    x = leaf(3)
    with record() as recording:
        loss = torch.tensor((x * 2).tolist(), requires_grad=True)
    assert code_of(x, loss, recording) == "no-graph"


def test_expression_to_detach_is_marked_on_the_line_of_the_loss() -> None:
    net = nn.ModuleDict({"student": nn.Linear(4, 2), "teacher": nn.Linear(4, 2)})
    x = torch.randn(3, 4)
    with record() as recording:
        loss = (net["student"](x) - net["teacher"](x)).square().mean()
    (found,) = diagnose(loss, net, recording=recording, expect=["student"])
    assert found.code == "unexpected-gradient"
    assert found.help[0].edits[0].after[0].endswith('- net["teacher"](x).detach()).square().mean()')


def test_optimizer_is_marked_in_the_function_that_was_recorded() -> None:
    model = nn.ModuleDict({"body": nn.Linear(4, 4), "head": nn.Linear(4, 1)})
    optimizer = torch.optim.SGD(model["body"].parameters(), lr=0.1)
    with record() as recording:
        loss = model["head"](model["body"](torch.ones(2, 4))).mean()
    report = diagnose(loss, model, optimizer, recording=recording)
    (found,) = report
    assert (found.code, found.subject) == ("not-in-optimizer", ("head.weight", "head.bias"))
    assert line_of(report).startswith('optimizer = torch.optim.SGD(model["body"].parameters()')
    assert not found.help[0].edits


def test_checkpoint_whose_second_run_has_other_shapes_is_reported() -> None:
    sizes = iter([2, 3, 3])

    def block(x: torch.Tensor) -> torch.Tensor:
        return x[: next(sizes)].exp().sin()

    x = torch.ones(3, requires_grad=True)
    with record() as recording:
        loss = checkpoint(block, x, use_reentrant=False).sum()
    (found,) = diagnose(loss, recording=recording, gradients=True)
    assert (found.code, found.severity) == ("recomputed-differently", "error")
    with pytest.raises(CheckpointError):
        loss.backward()
