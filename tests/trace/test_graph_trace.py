"""A trace as a value: members, copies, JSON."""

import copy
import pickle
from dataclasses import replace
from typing import Any

import torch

from leafgrad import GraphTrace, trace_graph
from tests.tensors import Doubled


def example() -> GraphTrace:
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    return trace_graph(x * x + torch.sin(2 * y), names={"x": x, "y": y})


def test_members_of_trace_follow_order_of_nodes() -> None:
    trace = example()
    assert [node.index for node in trace.roots] == [0]
    assert [node.index for node in trace.leaves] == [2, 5]
    assert len(trace.edges) == 7
    assert [(saved.node, saved.name) for saved in trace.saved] == [
        (1, "other"),
        (1, "self"),
        (3, "self"),
        (4, "other"),
    ]
    assert (trace.depth, trace.is_freed) == (3, False)


def test_traces_of_equal_graphs_are_equal() -> None:
    assert example() == example()
    assert example() != trace_graph(torch.ones(3, requires_grad=True))


def test_trace_can_be_pickled_and_copied() -> None:
    trace = example()
    untouched = pickle.dumps(trace)
    assert str(trace.memory)
    restored, looked_at = pickle.loads(untouched), pickle.loads(pickle.dumps(trace))
    assert restored == trace == looked_at
    assert hash(restored) == hash(trace) == hash(looked_at)
    assert restored.roots[0] is restored.nodes[0]
    assert copy.deepcopy(trace) == copy.copy(trace) == trace


def test_repr_of_trace_is_short() -> None:
    assert repr(example()) == "<GraphTrace of 6 nodes, 2 of them leaves>"


def test_custom_function_shows_its_line_without_folders_of_this_machine() -> None:
    function: Any = Doubled
    made = trace_graph(function.apply(torch.ones(2, requires_grad=True))).nodes[0].custom_function
    assert made is not None
    line = Doubled.forward.__code__.co_firstlineno
    assert str(made) == f"tests.tensors.Doubled, tests/tensors.py:{line}"
    assert str(replace(made, file=None, line=None)) == "tests.tensors.Doubled"
