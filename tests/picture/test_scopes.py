"""Views of one module each, which the page of a graph opens."""

import base64
import json
import re
import zlib
from typing import NamedTuple

import pytest
import torch
from torch import nn

from leafgrad import GraphTrace, record, trace_graph
from tests.models import MODELS, pinn
from tests.picture.picture import Box, Picture, read_picture
from tests.picture.test_modules import Twice, recorded
from tests.picture.test_overview import Language, traced


class Scope(NamedTuple):
    """A module that can be looked into: the title, the module around it, and the picture."""

    title: str
    outer: str | None
    picture: Picture


def scopes_of(trace: GraphTrace) -> dict[str, Scope]:
    """Unpack the views of modules from the page of a graph, by their paths."""
    page = trace.to_html()
    data, rest = (
        re.search(rf'<script [^>]*id="{name}">(.*?)</script>', page) for name in ("data", "rest")
    )
    assert data is not None
    assert rest is not None
    facts = json.loads(data[1])
    views = json.loads(zlib.decompress(base64.b64decode(rest[1])))[facts["wholes"] :]
    paths = [title.partition(":")[0] for title, _ in facts["modules"]]
    return {
        path: Scope(title, None if outer < 0 else paths[outer], read_picture(view["markup"]))
        for path, (title, outer), view in zip(paths, facts["modules"], views, strict=True)
    }


def inside(scope: Scope) -> list[Box]:
    boxes = scope.picture.boxes
    return [box for box in boxes if not re.search(r"\b(beyond|input)\b", box.rect.kind)]


def beyond(scope: Scope, side: str) -> list[str]:
    """The boxes outside that lead to the module, or that it leads to."""
    boxes = [box for box in scope.picture.boxes if "beyond" in box.rect.kind]
    return [box.name for box in boxes if bool(box.targets) is (side == "user")]


def test_every_module_of_several_nodes_can_be_opened_outer_ones_first() -> None:
    found = scopes_of(traced(Language(2)))
    assert [*found][:4] == ["embed", "blocks.0", "blocks.1", "head"]
    assert {"blocks.1.attend", "blocks.1.perceptron.0"} < {*found}
    assert "norm" not in found  # one node
    assert found["blocks.1"].outer is None
    assert found["blocks.1.attend"].outer == "blocks.1"
    assert found["blocks.1.perceptron.0"].outer == "blocks.1.perceptron"
    assert found["blocks.1"].title == "blocks.1: Block"


def test_a_module_is_shown_by_the_modules_directly_within_and_its_own_nodes() -> None:
    scope = scopes_of(traced(Language(3)))["blocks.1"]
    assert [box.name for box in inside(scope)] == [
        "AddBackward0",
        "blocks.1.perceptron: Sequential",
        "blocks.1.norms.1: LayerNorm",
        "AddBackward0",
        "blocks.1.attend: MultiheadAttention",
        "blocks.1.norms.0: LayerNorm",
    ]


def test_neighbours_of_a_module_are_shown_outside_of_it() -> None:
    found = scopes_of(traced(Language(3)))
    assert beyond(found["blocks.1"], "user") == ["blocks.2: Block"]
    assert beyond(found["blocks.1"], "input") == ["blocks.0: Block"]
    assert beyond(found["blocks.1.attend"], "user") == ["AddBackward0"]
    assert beyond(found["blocks.1.attend"], "input") == ["blocks.1.norms.0: LayerNorm"]
    assert beyond(found["head"], "user") == ["SumBackward0"]
    assert beyond(found["embed"], "input") == []


def test_boxes_outside_are_not_linked_to_each_other() -> None:
    for trace in (traced(Language(2)), recorded(Twice(), 1, 2)):
        for scope in scopes_of(trace).values():
            boxes = scope.picture.boxes
            for number, box in enumerate(boxes):
                assert all(target > number for target in box.targets)
                if "beyond" in box.rect.kind:
                    assert not any("beyond" in boxes[target].rect.kind for target in box.targets)


def test_all_calls_of_a_module_are_there_and_what_ran_between_is_on_both_sides() -> None:
    scope = scopes_of(recorded(Twice(), 1, 2))["inner"]
    assert len(inside(scope)) == 4  # a linear layer and its activation, twice
    assert beyond(scope, "user") == ["SumBackward0", "AddBackward0", "ExpBackward0"]
    assert beyond(scope, "input") == ["AddBackward0"]


class Nested(nn.Module):
    """A module whose inner one is called twice, with nothing of itself in between."""

    def __init__(self) -> None:
        super().__init__()
        self.outer = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.outer(self.outer(x).exp())
        return y


def test_two_calls_are_two_boxes_though_what_ran_between_is_outside() -> None:
    scope = scopes_of(recorded(Nested(), 1, 2))["outer"]
    assert [box.copies for box in inside(scope)] in ([2], [1, 1])


def test_a_leaf_outside_is_shown_within_the_box_that_uses_it() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
    with record() as recording:
        y = model(torch.ones(1, 2, requires_grad=True)).sum()
    scope = scopes_of(trace_graph(y, names=model, recording=recording))["0"]
    assert beyond(scope, "input") == []
    leaves = [line for box in inside(scope) for line in box.tooltip if line.startswith("leaf ")]
    assert leaves == ["leaf 0.0.bias (2,)", "leaf leaf (1, 2)", "leaf 0.0.weight (2, 2)"]


def test_a_module_with_too_many_boxes_cannot_be_opened_but_those_within_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = traced(Language(2))
    size = len(scopes_of(trace)["blocks.1"].picture.boxes)
    monkeypatch.setattr("leafgrad._picture.html.page.MOST_BOXES", size - 1)
    few = scopes_of(trace)
    assert "blocks.1" not in few
    assert few["blocks.1.perceptron"].outer is None
    monkeypatch.setattr("leafgrad._picture.html.page.MOST_IN_ALL", 20)
    assert sum(len(one.picture.boxes) for one in scopes_of(trace).values()) <= 20


def test_without_modules_there_is_nothing_to_open() -> None:
    assert scopes_of(pinn()) == {}


@pytest.mark.parametrize("name", [name for name in MODELS if name not in {"pinn", "wide"}])
def test_each_node_of_a_module_is_in_its_view(name: str) -> None:
    trace = MODELS[name]()
    for path, scope in scopes_of(trace).items():
        counts = [re.search(r"(\d+) nodes?\b", box.tooltip[0]) for box in inside(scope)]
        nodes = [int(count[1]) if count else 1 for count in counts]
        copies = [box.copies for box in inside(scope)]
        within = [n for n in trace.nodes if f"{n.module}.".startswith(f"{path}.")]
        assert sum(map(int.__mul__, nodes, copies)) == sum(not node.is_leaf for node in within)
