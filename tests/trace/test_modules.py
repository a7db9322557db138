"""Modules of nodes, inferred from parameters."""

import torch
from torch import nn

from leafgrad import GraphTrace, record, trace_graph


def modules_of(trace: GraphTrace) -> list[tuple[str, str | None]]:
    return [(n.name.removesuffix("Backward0"), n.module) for n in trace.nodes]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
        self.last = nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.first(x).sin()) * self.scale
        return result


def test_module_of_node_is_inferred_from_parameters_around_it() -> None:
    model = Model()
    trace = trace_graph(model(torch.ones(1, 2)).sum(), names=model)
    assert modules_of(trace) == [
        ("Sum", ""),
        ("Mul", ""),
        ("Addmm", "last"),
        ("AccumulateGrad", "last"),
        ("Sin", ""),
        ("Addmm", "first.2"),
        ("AccumulateGrad", "first.2"),
        ("Tanh", "first"),
        ("Addmm", "first.0"),
        ("AccumulateGrad", "first.0"),
        ("T", "first.0"),
        ("AccumulateGrad", "first.0"),
        ("T", "first.2"),
        ("AccumulateGrad", "first.2"),
        ("T", "last"),
        ("AccumulateGrad", "last"),
        ("AccumulateGrad", ""),
    ]
    assert all(node.is_module_inferred for node in trace.nodes)


def test_recorded_modules_are_not_inferred() -> None:
    model = Model()
    with record() as recording:
        y = model(torch.ones(1, 2))
    trace = trace_graph(y.exp(), names=model, recording=recording)
    assert modules_of(trace)[:4] == [
        ("Exp", None),
        ("Mul", ""),
        ("Addmm", "last"),
        ("AccumulateGrad", "last"),
    ]
    assert not any(node.is_module_inferred for node in trace.nodes)


def test_no_module_is_inferred_from_names_of_tensors() -> None:
    model = Model()
    y = model(torch.ones(1, 2))
    trace = trace_graph(y, names=dict(model.named_parameters()))
    assert {node.module for node in trace.nodes} == {None}


def test_unnamed_leaf_has_no_module() -> None:
    model = Model()
    trace = trace_graph(model(torch.ones(1, 2, requires_grad=True)), names=model)
    assert [n.module for n in trace.leaves if not n.tensor_names] == [None]


def test_node_made_before_recording_has_no_module() -> None:
    y = torch.ones(2, requires_grad=True).sin()
    with record() as recording:
        nn.Identity()(torch.ones(2))
    node = trace_graph(y, recording=recording).nodes[0]
    assert (node.module, node.source, node.derivative_order) == (None, None, None)
