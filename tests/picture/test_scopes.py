"""Views of single modules on the page of a graph."""

import base64
import json
import pickle
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
    """The view of a module: its title, the module around it and its picture."""

    title: str
    outer: str | None
    picture: Picture


def scopes_of(trace: GraphTrace) -> dict[str, Scope]:
    """Return the views of modules on the page of a graph, by path."""
    page = trace.to_html()
    data, rest = (
        re.search(rf'<script [^>]*id="{name}">(.*?)</script>', page) for name in ("data", "rest")
    )
    assert data is not None
    assert rest is not None
    facts = json.loads(data[1])
    packed = json.loads(zlib.decompress(base64.b64decode(rest[1])))["backward"]
    views = packed[facts["wholes"] :]
    paths = [title.partition(":")[0] for title, _ in facts["modules"]]
    return {
        path: Scope(title, None if outer < 0 else paths[outer], read_picture(view["markup"]))
        for path, (title, outer), view in zip(paths, facts["modules"], views, strict=True)
    }


def inside(scope: Scope) -> list[Box]:
    boxes = scope.picture.boxes
    return [box for box in boxes if not re.search(r"\b(beyond|input)\b", box.rect.kind)]


def beyond(scope: Scope, side: str) -> list[str]:
    """Return the neighbours on one side of the module."""
    boxes = [box for box in scope.picture.boxes if "beyond" in box.rect.kind]
    return [box.name for box in boxes if bool(box.targets) is (side == "user")]


def test_modules_of_several_nodes_have_their_own_pictures() -> None:
    found = scopes_of(traced(Language(2)))
    assert [*found][:4] == ["embed", "blocks.0", "blocks.1", "head"]
    assert {"blocks.1.attend", "blocks.1.perceptron.0"} < {*found}
    assert "norm" not in found  # one node
    assert found["blocks.1"].outer is None
    assert found["blocks.1.attend"].outer == "blocks.1"
    assert found["blocks.1.perceptron.0"].outer == "blocks.1.perceptron"
    assert found["blocks.1"].title == "blocks.1: Block"


def test_picture_of_module_has_inner_modules_and_own_nodes() -> None:
    scope = scopes_of(traced(Language(3)))["blocks.1"]
    assert [box.name for box in inside(scope)] == [
        "AddBackward0",
        "blocks.1.perceptron: Sequential",
        "blocks.1.norms.1: LayerNorm",
        "AddBackward0",
        "blocks.1.attend: MultiheadAttention",
        "blocks.1.norms.0: LayerNorm",
    ]


def test_picture_of_module_has_its_neighbours() -> None:
    found = scopes_of(traced(Language(3)))
    assert beyond(found["blocks.1"], "user") == ["blocks.2: Block"]
    assert beyond(found["blocks.1"], "input") == ["blocks.0: Block"]
    assert beyond(found["blocks.1.attend"], "user") == ["AddBackward0"]
    assert beyond(found["blocks.1.attend"], "input") == ["blocks.1.norms.0: LayerNorm"]
    assert beyond(found["head"], "user") == ["SumBackward0"]
    assert beyond(found["embed"], "input") == []


def test_neighbours_of_module_are_not_linked_to_each_other() -> None:
    for trace in (traced(Language(2)), recorded(Twice(), 1, 2)):
        for scope in scopes_of(trace).values():
            boxes = scope.picture.boxes
            for number, box in enumerate(boxes):
                assert all(target > number for target in box.targets)
                if "beyond" in box.rect.kind:
                    assert not any("beyond" in boxes[target].rect.kind for target in box.targets)


def test_picture_of_module_has_all_of_its_calls() -> None:
    scope = scopes_of(recorded(Twice(), 1, 2))["inner"]
    assert len(inside(scope)) == 4  # a linear layer and its activation, twice
    assert beyond(scope, "user") == ["SumBackward0", "AddBackward0", "ExpBackward0"]
    assert beyond(scope, "input") == ["AddBackward0"]


def test_leaf_from_outside_is_drawn_within_the_node_that_uses_it() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
    with record() as recording:
        y = model(torch.ones(1, 2, requires_grad=True)).sum()
    scope = scopes_of(trace_graph(y, names=model, recording=recording))["0"]
    assert beyond(scope, "input") == []
    leaves = [line for box in inside(scope) for line in box.tooltip if line.startswith("leaf ")]
    assert leaves == ["leaf 0.0.bias (2,)", "leaf leaf (1, 2)", "leaf 0.0.weight (2, 2)"]


def test_graph_without_modules_has_no_pictures_of_modules() -> None:
    assert scopes_of(pinn()) == {}


@pytest.mark.parametrize("name", [name for name in MODELS if name not in {"pinn", "wide"}])
def test_picture_of_module_contains_all_its_nodes(name: str) -> None:
    trace = MODELS[name]()
    for path, scope in scopes_of(trace).items():
        counts = [re.search(r"(\d+) nodes?\b", box.tooltip[0]) for box in inside(scope)]
        nodes = [int(count[1]) if count else 1 for count in counts]
        copies = [box.copies for box in inside(scope)]
        within = [n for n in trace.nodes if f"{n.module}.".startswith(f"{path}.")]
        assert sum(map(int.__mul__, nodes, copies)) == sum(not node.is_leaf for node in within)


@pytest.mark.parametrize("is_summed", [False, True])
def test_each_derivative_has_name_picture_and_line_of_text(*, is_summed: bool) -> None:
    layers = nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)
    net = nn.Sequential(*layers)
    x, t = (torch.rand(3, 1, requires_grad=True) for _ in range(2))

    def slope(y: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
        start = y.sum() if is_summed else y
        return torch.autograd.grad(start, of, torch.ones_like(start), create_graph=True)[0]

    with record() as recording:
        u = net(torch.cat([x, t], 1))
        u_t, loss = slope(u, t), slope(slope(u, x), x).square().mean()
        loss = loss + u_t.square().mean()
    trace = trace_graph(loss, names={"net": net, "x": x, "t": t, "u": u}, recording=recording)
    assert {node.derivative for node in trace.nodes} == {None, "u_t", "u_x", "u_xx"}
    assert {"u_t", "u_x", "u_xx"} < {*scopes_of(trace)}
    assert any(line.startswith("u_xx ") for line in str(trace).splitlines())
    unnamed = trace_graph(loss, names=net, recording=recording)
    assert "∇∇Sequential" in {node.derivative for node in unnamed.nodes}
    assert pickle.loads(pickle.dumps(trace)) == trace


class Slope(nn.Sequential):
    """The derivative of a network, computed by a module."""

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = nn.Sequential(*self)(points)
        return torch.autograd.grad(value.sum(), points, create_graph=True)[0]


def test_derivative_computed_inside_a_module_has_a_picture() -> None:
    model = Slope(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    with record() as recording:
        slopes = model(torch.rand(3, 2, requires_grad=True))
    trace = trace_graph(slopes, names=model, recording=recording)
    assert "∇Slope" in scopes_of(trace)


def test_pass_for_several_derivatives_is_named_after_all_of_them() -> None:
    x, t = (torch.rand(3, 1, requires_grad=True) for _ in range(2))
    with record() as recording:
        u = (x * t).sin()
        u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        (second,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
        loss = (u_t - second).square().mean()
    names = {"x": x, "t": t, "u": u, "u_x": u_x, "u_t": u_t}
    named = {node.derivative for node in trace_graph(loss, names=names, recording=recording).nodes}
    assert named == {None, "u_x, u_t", "u_xx"}
    del names["u_x"]
    named = {node.derivative for node in trace_graph(loss, names=names, recording=recording).nodes}
    assert "u_tx" not in named


def test_derivative_of_unnamed_tensor_is_not_named_after_another() -> None:
    x = torch.rand(3, 1, requires_grad=True)
    with record() as recording:
        u = x.sin() * x
        u.contiguous()  # returning u creates no node; the next node belongs to y
        y = x * 2
        (slopes,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        loss = (slopes * y).sum()
    trace = trace_graph(loss, names={"x": x, "y": y}, recording=recording)
    assert {node.derivative for node in trace.nodes} == {None, "∇"}


def test_settings_of_operation_and_module_are_shown() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3, stride=2), nn.Flatten(), nn.Softmax(-1))
    trace = trace_graph(model(torch.ones(1, 1, 8, 8)).sum(), names=model)
    assert "Conv2d(1, 2, kernel_size=(3, 3), stride=(2, 2))" in trace.to_svg(fold="*")
    assert ("dim", "-1") in next(n for n in trace.nodes if "Softmax" in n.name).settings
    assert "dim=-1" in trace.to_svg(fold=False)
