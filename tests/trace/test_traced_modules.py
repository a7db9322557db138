"""`GraphTrace.modules`: the modules behind a graph, and how many parameters are frozen."""

import gc

import pytest
import torch
from torch import nn
from torch.nn import UninitializedParameter

from leafgrad import GraphTrace, record, trace_graph
from leafgrad.types import TracedModule
from tests.models import Block


class Stack(nn.Module):
    """Layers in a list, and one that is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
        self.unused = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def by_path(trace: GraphTrace) -> dict[str, TracedModule]:
    return {module.path: module for module in trace.modules}


def test_the_modules_of_nodes_and_those_around_them_have_the_names_of_their_classes() -> None:
    model = Stack()
    modules = by_path(trace_graph(model(torch.ones(1, 3)).sum(), names=model))
    assert {path: module.class_name for path, module in modules.items()} == {
        "": "Stack",
        "layers": "ModuleList",
        "layers.0": "Linear",
        "layers.1": "Linear",
    }
    assert [path for path, module in modules.items() if not module.has_forward] == ["layers"]


def test_frozen_parameters_are_counted_with_those_of_the_modules_within() -> None:
    model = Stack()
    model.layers[0].requires_grad_(False)
    model.layers[1].bias.requires_grad_(False)
    trace = trace_graph(model(torch.ones(1, 3, requires_grad=True)).sum(), names={"net": model})
    counts = {
        path: (module.parameters, module.frozen, module.frozen_numbers)
        for path, module in by_path(trace).items()
    }
    assert counts == {
        "net": (6, 3, 15),
        "net.layers": (4, 3, 15),
        "net.layers.1": (2, 1, 3),
    }


def test_a_tied_parameter_counts_once() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    assert by_path(trace_graph(model(torch.ones(1, 3)).sum(), names=model))[""].parameters == 3


def test_a_parameter_without_sizes_counts_without_numbers() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.LazyLinear(3))
    model[1].weight = UninitializedParameter(requires_grad=False)
    model[1].bias = UninitializedParameter(requires_grad=False)
    model.scale = nn.Parameter(torch.tensor(2.0), requires_grad=False)
    known = by_path(trace_graph(model[0](torch.ones(1, 3)).sum(), names=model))[""]
    assert (known.parameters, known.frozen, known.frozen_numbers) == (5, 3, 1)


def test_a_recording_alone_knows_the_modules_that_ran() -> None:
    model = Stack()
    with record() as recording:
        y = model(torch.ones(1, 3))
    modules = by_path(trace_graph(y, recording=recording))
    assert {path: module.class_name for path, module in modules.items()} == {
        "": "Stack",
        "layers": "ModuleList",
        "layers.0": "Linear",
        "layers.1": "Linear",
    }
    assert modules[""].parameters == 6


def test_of_a_module_that_is_gone_a_recording_knows_the_class_alone() -> None:
    model = Stack()
    with record() as recording:
        y = model(torch.ones(1, 3))
    del model
    gc.collect()
    modules = by_path(trace_graph(y, recording=recording))
    assert modules["layers.0"] == TracedModule(
        path="layers.0",
        class_name="Linear",
        has_forward=True,
        parameters=None,
        frozen=None,
        frozen_numbers=None,
    )


def test_where_nothing_has_a_module_there_is_none() -> None:
    x = torch.ones(2, requires_grad=True)
    assert trace_graph(x.sin(), names={"x": x}).modules == ()


@pytest.mark.parametrize("with_recording", [True, False])
def test_they_are_written_as_json_and_read_again(*, with_recording: bool) -> None:
    model = nn.Sequential(Block(4))
    with record() as recording:
        y = model(torch.ones(1, 2, 4)).sum()
    trace = trace_graph(y, names=model, recording=recording if with_recording else None)
    again = GraphTrace.from_json(trace.to_json())
    assert again == trace
    assert again.modules == trace.modules != ()
