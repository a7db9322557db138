"""`GraphTrace.modules`: modules and frozen parameters."""

import gc

import torch
from torch import nn
from torch.nn import UninitializedParameter

from leafgrad import GraphTrace, record, trace_graph
from leafgrad.types import TracedModule


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


def test_modules_around_nodes_have_their_classes() -> None:
    model = Stack()
    modules = by_path(trace_graph(model(torch.ones(1, 3)).sum(), names=model))
    assert {path: module.class_name for path, module in modules.items()} == {
        "": "Stack",
        "layers": "ModuleList",
        "layers.0": "Linear",
        "layers.1": "Linear",
    }
    assert [path for path, module in modules.items() if not module.has_forward] == ["layers"]


def test_frozen_parameters_are_counted_in_outer_modules() -> None:
    model = Stack()
    model.layers[0].requires_grad_(False)
    model.layers[1].bias.requires_grad_(False)
    trace = trace_graph(model(torch.ones(1, 3, requires_grad=True)).sum(), names={"net": model})
    counts = {
        path: (module.parameters, module.frozen, module.frozen_numbers)
        for path, module in by_path(trace).items()
    }
    assert counts == {"net": (6, 3, 15), "net.layers": (4, 3, 15), "net.layers.1": (2, 1, 3)}


def test_tied_parameter_counts_once() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    assert by_path(trace_graph(model(torch.ones(1, 3)).sum(), names=model))[""].parameters == 3


def test_lazy_parameter_is_counted_without_its_elements() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.LazyLinear(3))
    model[1].weight = UninitializedParameter(requires_grad=False)
    model[1].bias = UninitializedParameter(requires_grad=False)
    model.scale = nn.Parameter(torch.tensor(2.0), requires_grad=False)
    known = by_path(trace_graph(model[0](torch.ones(1, 3)).sum(), names=model))[""]
    assert (known.parameters, known.frozen, known.frozen_numbers) == (5, 3, 1)


def test_recording_knows_class_of_deleted_module() -> None:
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
