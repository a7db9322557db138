"""A backward at the scale of the picture: a step for each box, against hooks and against sums."""

import json
import math
import re
from functools import cache
from html import unescape
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leafgrad import GraphTrace, record, trace_graph
from leafgrad._picture.box_text import lines
from leafgrad._steps.shown import Shown
from leafgrad._steps.visits import Visits
from leafgrad.types import BackwardSteps
from tests.models import MODELS, Block


class Tied(nn.Module):
    """Blocks between an embedding and a head that shares its weight."""

    def __init__(self, depth: int = 12) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.blocks = nn.ModuleList(Block(8) for _ in range(depth))
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        made: Tensor = self.head(h)
        return made


def traced(model: nn.Module, x: Tensor, *, values: bool = False) -> GraphTrace:
    with record(values=values) as recording:
        loss = model(x).square().mean()
    return trace_graph(loss, names=model, recording=recording, values=values, gradients=True)


@cache
def tied(depth: int = 12, *, values: bool = False) -> GraphTrace:
    """Trace it once for all tests: to record it takes longer than what they look at."""
    torch.manual_seed(0)
    return traced(Tied(depth), torch.tensor([[1, 2, 3]]), values=values)


def deep() -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()) for _ in range(20))
    return nn.Sequential(*layers, nn.Linear(4, 1))


def said(steps: BackwardSteps) -> list[str]:
    return [step.sentence for step in steps.steps]


def at(steps: BackwardSteps, module: str, kind: str = "pass") -> str:
    (found,) = (s.sentence for s in steps.steps if s.module == module and s.kind == kind)
    return found


# --- What is told


def test_each_block_has_a_step_in_the_order_of_the_backward() -> None:
    steps = tied().steps()
    modules = [step.module for step in steps.steps if step.module is not None]
    assert modules == ["head", *(f"blocks.{n}" for n in reversed(range(12))), "embed"]
    assert [step.kind for step in steps.steps] == ["start", *["pass"] * (len(steps.steps) - 1)]
    assert all(step.edge is None for step in steps.steps)


def test_a_step_of_a_module_tells_what_arrives_goes_on_is_complete_and_is_let_go() -> None:
    steps = tied().steps()
    shape, norm = r"\(1, 3, 8\) of norm [\d.e-]+", r"[\d.e-]+"
    assert re.fullmatch(
        rf"Backward: at blocks\.5 \(Block\), {shape} arrives from blocks\.6; \d gradients go on to "
        rf"blocks\.4, together {shape}\. backward\(\) adds to the \.grad of \d+ leaves, of norm "
        rf"{norm} together: [\w.]+, [\w.]+, and \d+ more\. It lets go of [\d.]+ KiB that no later "
        r"step needs\.",
        at(steps, "blocks.5"),
    )


def test_a_weight_that_two_modules_share_waits_for_the_last_of_them() -> None:
    steps = tied().steps()
    assert "goes on to embed.weight (a leaf), which waits for more" in at(steps, "head")
    assert ".grad" not in at(steps, "head")
    assert re.search(
        r"The gradient of weight is complete, of norm [\d.]+: backward\(\) adds it to its \.grad\.",
        at(steps, "embed"),
    )


def test_values_are_told_first_in_the_order_in_which_they_were_made() -> None:
    steps = tied(values=True).steps()
    forward = [step.module for step in steps.steps if step.kind == "value" and step.module]
    assert forward == ["embed", *(f"blocks.{n}" for n in range(12)), "head"]
    assert re.fullmatch(
        r"Forward: blocks\.3 \(Block\) makes \(1, 3, 8\) of norm [\d.]+, from blocks\.2\.",
        at(steps, "blocks.3", "value"),
    )


def test_a_value_that_nobody_recorded_is_called_so() -> None:
    model = deep()
    trace = trace_graph(model(torch.ones(2, 4)).sum(), names=model, values=True, gradients=True)
    assert at(trace.steps(), "20", "value").startswith("Forward: 20 (Linear) makes not recorded")


def test_steps_say_where_gradients_vanish() -> None:
    trace = traced(deep(), torch.ones(2, 4))
    steps = trace.steps()
    vanished = {one.module for one in trace.gradient_norms.vanishing}
    for step in steps.steps:
        if step.module is not None:
            inside = f"{step.module}.0" in vanished or step.module in vanished
            assert (" of that at 20, arrives" in step.sentence) is inside


def test_what_is_not_finite_is_told_where_it_comes_up() -> None:
    model = deep()
    with torch.no_grad():
        model.get_parameter("7.0.weight").fill_(float("nan"))
    steps = traced(model, torch.ones(2, 4), values=True).steps()
    assert "It turns to NaN at node" in at(steps, "7", "value")
    x = torch.zeros(2, 4, requires_grad=True)
    with record() as recording:
        y = nn.Sequential(*(nn.Tanh() for _ in range(50)))(x.sqrt()).sum()
    trace = trace_graph(y, recording=recording, gradients=True)
    assert any("It turns to infinity at node" in sentence for sentence in said(trace.steps()))


def test_a_skip_adds_to_what_has_arrived_by_then() -> None:
    class Skipping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
            self.deep = nn.Sequential(*(nn.Linear(4, 4) for _ in range(15)))
            self.up = nn.Sequential(nn.Linear(8, 4), nn.Tanh())

        def forward(self, x: Tensor) -> Tensor:
            low = self.down(x)
            made: Tensor = self.up(torch.cat([self.deep(low), low], dim=1))
            return made

    steps = traced(Skipping(), torch.ones(2, 4)).steps(fold="*")
    assert re.search(
        r"goes on to down, which makes \(2, 4\) of norm [\d.]+ there", at(steps, "deep")
    )
    assert re.search(r"arrives from node \d+ \(CatBackward0\), deep;", at(steps, "down"))


def test_where_no_gradient_arrives_and_none_goes_on_this_is_told() -> None:
    class Lost(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(*_: Any) -> Any:
            return None

    x = torch.ones(3, requires_grad=True)
    y = Lost.apply(x.sin()).sum()  # type: ignore[no-untyped-call]
    sentences = said(trace_graph(y, gradients=True).steps(fold=True))
    assert any("arrives from node 0 (SumBackward0); nothing goes on." in one for one in sentences)
    assert any("nothing arrives; nothing goes on." in one for one in sentences)


def test_a_leaf_that_is_a_root_completes_itself() -> None:
    x = torch.ones((), requires_grad=True)
    sentences = said(trace_graph([x, x * 2], names={"x": x}, gradients=True).steps(fold=True))
    assert any("The gradient of x is complete" in one for one in sentences)


def test_what_cannot_be_read_says_why() -> None:
    made = torch.ones(2, 2, requires_grad=True).to_sparse()
    trace = trace_graph(made, gradients=True, grad_outputs=torch.ones(2, 2).to_sparse())
    unread = [one.unread for node in trace.nodes for one in node.gradients if one is not None]
    assert any(unread) == any("not read" in one for one in said(trace.steps(fold=True)))


# --- What follows from all of it


@pytest.mark.parametrize("make", [tied, *MODELS.values()])
def test_what_is_let_go_and_completed_is_all_that_there_is(make: Any) -> None:
    trace = make()
    if not any(node.gradients for node in trace.nodes):
        trace = tied(3)
    shown = Shown(trace, fold=None, open=())
    visits = Visits(shown.graph, shown.view)
    came = [node for node in trace.nodes if node.visited is not None]
    assert sum(visits.let_go.values()) == trace.memory.total.bytes_without_parameters
    complete = [leaf.index for leaves in visits.complete.values() for leaf in leaves]
    assert sorted(complete) == [node.index for node in came if node.is_leaf]
    taken = [node.index for visit in visits.backward for node in visit.nodes]
    assert {*taken, *complete} >= {node.index for node in came}


@pytest.mark.parametrize("fold", [None, True, "*"])
@pytest.mark.parametrize("values", [False, True])
def test_in_the_end_every_box_says_what_its_picture_does(fold: Any, *, values: bool) -> None:
    shown = Shown(tied(values=values), fold=fold, open=())
    written = {write[:2]: write[2] for _, sign in shown.steps for write in sign.writes}
    drawn = {
        (place, number): line
        for place, box in enumerate(shown.view.boxes)
        for number, line in enumerate(
            line.text
            for line in lines(box, made="", direction="backward")
            if line.style in {"value", "grad"}
        )
    }
    assert written == drawn


def test_the_norms_of_the_profile_are_those_that_hooks_see() -> None:
    torch.manual_seed(0)
    model, x = Tied(), torch.tensor([[1, 2, 3]])
    seen: dict[str, float] = {}

    def watch(name: str) -> Any:
        def hook(_: nn.Module, __: Any, made: Tensor) -> None:
            made.register_hook(lambda gradient: seen.update({name: gradient.norm().item()}))

        return hook

    for name, block in model.blocks.named_children():
        block.register_forward_hook(watch(name))
    model(x).square().mean().backward()
    norms = [
        (step.module, sign.norm)
        for step, sign in Shown(tied(), fold=None, open=()).steps
        if step.module is not None and step.module.startswith("blocks.")
    ]
    assert [module for module, _ in norms] == [f"blocks.{name}" for name in seen]
    assert [norm for _, norm in norms] == pytest.approx([*seen.values()], rel=1e-4)


def test_the_profile_has_a_bar_for_each_step_which_falls_with_the_norm() -> None:
    html = traced(deep(), torch.ones(2, 4)).steps()._repr_html_()
    heights = [float(height) for height in re.findall(r'height="([\d.]+)" data-at', html)]
    assert len(heights) == 23
    assert all(before > after for before, after in pairwise(heights[3:]))
    assert "in powers of ten" in html


def test_a_graph_that_is_shown_node_by_node_has_no_profile() -> None:
    x = torch.ones(3, requires_grad=True)
    html = trace_graph(x.sum(), gradients=True).steps()._repr_html_()
    assert "<figure" not in html


# --- What one may choose


def test_what_is_open_is_gone_through_node_by_node_or_if_it_is_large_by_its_modules() -> None:
    trace = tied()
    opened = "blocks.3", "blocks.5.perceptron"
    inside = {node.index for node in trace.nodes if (node.module or "").startswith(opened[1])}
    steps = trace.steps(open=opened).steps
    leaves = {leaf.index for leaf in trace.leaves}
    assert {step.node for step in steps if step.module is None} >= inside - leaves
    modules = {step.module for step in steps}
    assert {"blocks.3.attend", "blocks.3.perceptron", "blocks.5.attend", "blocks.4"} <= modules
    assert not {"blocks.3", "blocks.5", "blocks.5.perceptron"} & modules


def test_fold_false_goes_through_every_node_of_a_large_graph() -> None:
    trace = tied(2)
    steps = trace.steps(fold=False)
    assert {step.node for step in steps.steps} == {
        node.index for node in trace.nodes if node.visited is not None
    }
    assert all(step.module is None for step in steps.steps)


def test_a_module_that_is_not_there_cannot_be_opened() -> None:
    with pytest.raises(
        ValueError, match=r"^open must name modules of the graph, .* not 'blocks\.'"
    ):
        tied(2).steps(open="blocks.")
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"^open must be the path of a module or several, not 3; n"):
        tied(2).steps(open=wrong)


def test_a_page_of_twelve_layers_is_small() -> None:
    page = tied(values=True).steps().to_html()
    assert len(page.encode()) < 60_000
    signs = json.loads(unescape(re.findall('data-steps="(.*?)"', page)[0]))
    assert len(signs) == page.count("<li>")


def test_a_weight_that_a_module_uses_several_times_counts_once() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.LSTMCell(2, 3), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            state = None
            for _ in range(10):
                state = self.cell(x, state)
            assert state is not None
            made: Tensor = self.head(state[0])
            return made

    trace = traced(Recurrent(), torch.ones(1, 2))
    norms = [
        leaf.gradients[0].norm
        for leaf in trace.leaves
        if (leaf.leaf_name or "").startswith("cell") and leaf.gradients[0] is not None
    ]
    together = math.hypot(*(norm for norm in norms if norm is not None))
    assert f"of its leaves {together:.3g}<" in trace.to_svg(fold="*")
    assert f"of norm {together:.2g} together" in at(trace.steps(fold="*"), "cell")
