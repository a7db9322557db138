"""Steps of a backward pass, one for each box of a picture."""

import json
import math
import re
import xml.etree.ElementTree as ET
from functools import cache
from html import unescape
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leafgrad import GraphTrace, record, trace_graph
from leafgrad.types import BackwardSteps
from tests.models import Block

SVG = "{http://www.w3.org/2000/svg}"


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
    """Trace the model once for all tests, as recording takes longer than most of them."""
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


# --- Sentences


def test_each_block_has_a_step_in_order_of_backward() -> None:
    steps = tied().steps()
    modules = [step.module for step in steps.steps if step.module is not None]
    assert modules == ["head", *(f"blocks.{n}" for n in reversed(range(12))), "embed"]
    assert [step.kind for step in steps.steps] == ["start", *["pass"] * (len(steps.steps) - 1)]
    assert all(step.edge is None for step in steps.steps)


def test_sentence_of_step_of_module() -> None:
    steps = tied().steps()
    shape, norm = r"\(1, 3, 8\) of norm [\d.e-]+", r"[\d.e-]+"
    assert re.fullmatch(
        rf"Backward: {shape} arrives at blocks\.5 \(Block\) from blocks\.6; \d gradients go on to "
        rf"blocks\.4, together {shape}\. backward\(\) adds to the \.grad of \d+ leaves, of norm "
        rf"{norm} together: [\w.]+, [\w.]+, and \d+ more\. It frees [\d.]+ KiB that no later "
        r"step needs\.",
        at(steps, "blocks.5"),
    )


def test_shared_weight_waits_for_last_module() -> None:
    steps = tied().steps()
    assert "goes on to embed.weight (a leaf), which waits for more" in at(steps, "head")
    assert ".grad" not in at(steps, "head")
    assert re.search(
        r"The gradient of weight is complete, of norm [\d.]+: backward\(\) adds it to its \.grad\.",
        at(steps, "embed"),
    )


def test_values_come_first_in_forward_order() -> None:
    steps = tied(values=True).steps()
    forward = [step.module for step in steps.steps if step.kind == "value" and step.module]
    assert forward == ["embed", *(f"blocks.{n}" for n in range(12)), "head"]
    assert re.fullmatch(
        r"Forward: blocks\.3 \(Block\) computes \(1, 3, 8\) of norm [\d.]+ from blocks\.2\.",
        at(steps, "blocks.3", "value"),
    )


def test_steps_report_vanishing_gradients() -> None:
    trace = traced(deep(), torch.ones(2, 4))
    steps = trace.steps()
    vanished = {one.module for one in trace.gradient_norms.vanishing}
    for step in steps.steps:
        if step.module is not None:
            inside = f"{step.module}.0" in vanished or step.module in vanished
            assert (" of that at 20) arrives" in step.sentence) is inside


def test_step_reports_first_nonfinite_number() -> None:
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


def test_gradient_without_readable_numbers_is_reported() -> None:
    made = torch.ones(2, 2, requires_grad=True).to_sparse()
    trace = trace_graph(made, gradients=True, grad_outputs=torch.ones(2, 2).to_sparse())
    unread = [one.unread for node in trace.nodes for one in node.gradients if one is not None]
    assert any(unread) == any("not read" in one for one in said(trace.steps(fold=True)))


# --- Totals over all steps


def test_steps_free_all_bytes_and_complete_all_leaves() -> None:
    trace = tied(3)
    sentences = " ".join(said(trace.steps()))
    units = {"B": 1, "KiB": 1024}
    freed = re.findall(r"It frees ([\d.]+) (B|KiB)", sentences)
    kept = trace.memory.total.bytes_without_parameters
    assert sum(float(n) * units[unit] for n, unit in freed) == pytest.approx(kept, rel=0.02)
    counts = re.findall(r"\.grad of (\d+) leaves", sentences)
    complete = sum(map(int, counts)) + len(re.findall(r"is complete", sentences))
    assert complete == len(trace.leaves)


def numbers_in(picture: str) -> dict[tuple[int, int], str]:
    """Read the lines of values and gradients in each box."""
    parts = [one for one in ET.fromstring(picture).iter(f"{SVG}g") if one.get("class") == "part"]
    lines = {
        place: [one.text or "" for one in part if one.get("class") in {"value", "grad"}]
        for place, part in enumerate(parts)
    }
    return {(place, n): text for place, found in lines.items() for n, text in enumerate(found)}


@pytest.mark.parametrize("fold", [None, "*"])
@pytest.mark.parametrize("values", [False, True])
def test_last_step_shows_numbers_of_picture(fold: Any, *, values: bool) -> None:
    trace = tied(values=values)
    data = re.findall('data-steps="(.*?)"', trace.steps(fold=fold)._repr_html_())[0]
    writes = [write for sign in json.loads(unescape(data)) for write in sign["writes"]]
    written = {(box, line): text for box, line, text in writes}
    assert written == numbers_in(trace.to_svg(fold=fold))


def test_norms_of_steps_match_hooks() -> None:
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
    norms = {
        name: float(re.findall(r"of norm (\S+?) arrives", at(tied().steps(), f"blocks.{name}"))[0])
        for name in seen
    }
    assert norms == pytest.approx(seen, rel=0.06)


def test_profile_has_a_bar_for_each_step() -> None:
    html = traced(deep(), torch.ones(2, 4)).steps()._repr_html_()
    heights = [float(height) for height in re.findall(r'height="([\d.]+)" data-at', html)]
    assert len(heights) == 23
    assert all(before > after for before, after in pairwise(heights[3:]))
    assert "in powers of ten" in html


def test_steps_of_nodes_have_no_profile() -> None:
    x = torch.ones(3, requires_grad=True)
    html = trace_graph(x.sum(), gradients=True).steps()._repr_html_()
    assert "<figure" not in html


# --- Options


def test_open_module_has_steps_of_its_nodes_or_modules() -> None:
    trace = tied()
    opened = "blocks.3", "blocks.5.perceptron"
    inside = {node.index for node in trace.nodes if (node.module or "").startswith(opened[1])}
    steps = trace.steps(open=opened).steps
    leaves = {leaf.index for leaf in trace.leaves}
    assert {step.node for step in steps if step.module is None} >= inside - leaves
    modules = {step.module for step in steps}
    assert {"blocks.3.attend", "blocks.3.perceptron", "blocks.5.attend", "blocks.4"} <= modules
    assert not {"blocks.3", "blocks.5", "blocks.5.perceptron"} & modules


def test_open_must_name_module_of_graph() -> None:
    with pytest.raises(
        ValueError, match=r"^open must name modules of the graph, .* not 'blocks\.'"
    ):
        tied(2).steps(open="blocks.")
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"^open must be the path of a module or several, not 3; n"):
        tied(2).steps(open=wrong)


def test_page_of_twelve_layers_is_small() -> None:
    page = tied(values=True).steps().to_html()
    assert len(page.encode()) < 60_000
    signs = json.loads(unescape(re.findall('data-steps="(.*?)"', page)[0]))
    assert len(signs) == page.count("<li>")


def test_weight_used_several_times_counts_once() -> None:
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
