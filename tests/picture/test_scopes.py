"""Views of one module each, which a page opens."""

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from leafgrad import GraphTrace, record, trace_graph
from leafgrad._picture.scopes import Scope, scopes
from leafgrad._picture.view import Box
from tests.models import MODELS, pinn
from tests.picture.test_modules import Twice, recorded
from tests.picture.test_overview import Language, traced


def scopes_of(trace: GraphTrace, most: int = 3000, in_all: int = 20_000) -> dict[str, Scope]:
    return {one.path: one for one in scopes(trace, most_boxes=most, most_in_all=in_all)}


def names(boxes: Sequence[Box]) -> list[str]:
    return [box.title or box.node.name for box in boxes]


def beyond(scope: Scope, where: str) -> list[str]:
    return names([box for box in scope.view.boxes if box.beyond == where])


def test_every_module_of_several_nodes_can_be_looked_into_the_outer_ones_first() -> None:
    found = scopes_of(traced(Language(2)))
    assert [*found][:4] == ["embed", "blocks.0", "blocks.1", "head"]
    assert {"blocks.1.attend", "blocks.1.perceptron.0"} < {*found}
    assert "norm" not in found  # one node
    assert found["blocks.1"].outer is None
    assert found["blocks.1.attend"].outer == "blocks.1"
    assert found["blocks.1.perceptron.0"].outer == "blocks.1.perceptron"
    assert found["blocks.1"].title == "blocks.1: Block"


def test_a_module_is_shown_by_those_right_within_and_its_own_nodes() -> None:
    scope = scopes_of(traced(Language(3)))["blocks.1"]
    inside = names([box for box in scope.view.boxes if box.beyond is None])
    assert inside == [
        "AddBackward0",
        "blocks.1.perceptron: Sequential",
        "blocks.1.norms.1: LayerNorm",
        "AddBackward0",
        "blocks.1.attend: MultiheadAttention",
        "blocks.1.norms.0: LayerNorm",
    ]


def test_what_stands_next_to_a_module_is_shown_outside_of_it() -> None:
    found = scopes_of(traced(Language(3)))
    assert beyond(found["blocks.1"], "user") == ["blocks.2: Block"]
    assert beyond(found["blocks.1"], "input") == ["blocks.0: Block"]
    assert beyond(found["blocks.1.attend"], "user") == ["AddBackward0"]
    assert beyond(found["blocks.1.attend"], "input") == ["blocks.1.norms.0: LayerNorm"]
    assert beyond(found["head"], "user") == ["SumBackward0"]
    assert beyond(found["embed"], "input") == []


def test_what_stands_outside_leads_in_or_is_led_to_and_nothing_else() -> None:
    for trace in (traced(Language(2)), recorded(Twice(), 1, 2)):
        for scope in scopes_of(trace).values():
            boxes = scope.view.boxes
            for place, box in enumerate(boxes):
                assert all(target > place for target, _ in box.edges)
                assert not (box.beyond == "input" and box.edges)
                assert not any(boxes[t].beyond == "user" for t, _ in box.edges)
                assert not (box.beyond == "user" and any(boxes[t].beyond for t, _ in box.edges))


def test_all_calls_of_a_module_are_there_and_what_ran_between_is_on_both_sides() -> None:
    scope = scopes_of(recorded(Twice(), 1, 2))["inner"]
    inside = [box for box in scope.view.boxes if box.beyond is None]
    assert sum(len(box.members) * box.copies for box in inside) == 6
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
    inner = [box for box in scope.view.boxes if box.beyond is None]
    assert [box.copies * len(box.alike[0]) for box in inner] in ([6], [3, 3])
    assert sum(box.copies for box in inner) == 2


def test_a_leaf_outside_is_shown_within_the_box_that_uses_it() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
    with record() as recording:
        y = model(torch.ones(1, 2, requires_grad=True)).sum()
    scope = scopes_of(trace_graph(y, names=model, recording=recording))["0"]
    assert beyond(scope, "input") == []
    assert {leaf.name for box in scope.view.boxes for leaf in box.leaves} == {
        "0.0.weight",
        "0.0.bias",
        None,
    }


def test_what_has_too_many_boxes_cannot_be_looked_into_but_what_is_in_it_can() -> None:
    trace = traced(Language(2))
    size = len(scopes_of(trace)["blocks.1"].view.boxes)
    few = scopes_of(trace, most=size - 1)
    assert "blocks.1" not in few
    assert few["blocks.1.perceptron"].outer is None
    assert sum(len(one.view.boxes) for one in scopes_of(trace, in_all=20).values()) <= 20


def test_without_modules_there_is_nothing_to_look_into() -> None:
    assert scopes_of(pinn()) == {}


@pytest.mark.parametrize("name", MODELS)
def test_each_node_of_a_module_is_in_its_view(name: str) -> None:
    trace = MODELS[name]()
    for path, scope in scopes_of(trace).items():
        shown = {
            node.index
            for box in scope.view.boxes
            if box.beyond is None and box.given is None
            for nodes in box.alike
            for node in nodes
        }
        inside = {
            node.index
            for node in trace.nodes
            if not node.is_leaf and f"{node.module}.".startswith(f"{path}.")
        }
        assert shown == inside
