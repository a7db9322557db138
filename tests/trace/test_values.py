"""Forward values in a trace."""

import math
import weakref

import pytest
import torch

from leafgrad import GraphTrace, record, trace_graph
from tests.apart import RunApart
from tests.processes import needs_posix
from tests.tensors import Doubled, holding, outcome_of
from tests.trace.test_gradients import classic


def told(trace: GraphTrace) -> dict[str, list[str | None]]:
    """Return the values of each node as text, by its name."""
    return {
        node.leaf_name or node.name: [v if v is None else str(v) for v in node.values]
        for node in trace.nodes
    }


# --- Where values come from


def test_values_come_from_leaves_outputs_and_saved_tensors() -> None:
    z, names = classic()
    trace = trace_graph(z, names=names, values=True)
    assert [str(v) for node in trace.nodes for v in node.values] == [
        "16",
        "None",
        "4",
        "None",
        "6.2832",
        "3.1416",
    ]


def test_recording_with_values_contains_the_value_of_each_node() -> None:
    with record(values=True) as recording:
        z, names = classic()
    trace = trace_graph(z, names=names, recording=recording, values=True)
    values = [value for node in trace.nodes for value in node.values]
    assert [value.numbers[0] for value in values if value and value.numbers] == pytest.approx(
        [16.0, 16.0, 4.0, 0.0, 2 * math.pi, math.pi], abs=1e-15
    )


def test_recorded_value_is_from_before_later_writes() -> None:
    with record(values=True) as recording:
        x = holding(2.0)
        y = x * 3
        y.mul_(10)
    trace = trace_graph(y, recording=recording, values=True)
    assert [str(node.values[0]) for node in trace.nodes] == ["60", "6", "2"]


def test_tensor_written_in_place_has_no_value() -> None:
    x = holding(2.0)
    y = x * 3
    z = y.sin()
    y.add_(1)
    assert told(trace_graph(z, values=True))["MulBackward0"] == [None]


def test_each_output_of_an_operation_has_its_value() -> None:
    with record(values=True) as recording:
        one, other = holding(1.0, 2.0).unbind()
        z = one * other
    trace = trace_graph(z, recording=recording, values=True)
    assert told(trace)["UnbindBackward0"] == ["1", "2"]


def test_value_of_custom_function_is_recorded_at_its_next_use() -> None:
    with record(values=True) as recording:
        z = outcome_of(Doubled, holding(3.0)) + 1
    assert told(trace_graph(z, recording=recording, values=True))["DoubledBackward"] == ["6"]


def test_meta_tensor_has_no_value() -> None:
    x = torch.ones(2, device="meta", requires_grad=True)
    with record(values=True) as recording:
        y = x.exp()
    assert told(trace_graph(y, recording=recording, values=True)) == {
        "ExpBackward0": [None],
        "AccumulateGrad": [None],
    }


# --- No side effects


def test_values_keep_no_tensor_alive() -> None:
    x = holding(1.0)
    with record(values=True) as recording:
        y = x.exp()
    trace = trace_graph(y, recording=recording, values=True, gradients=True)
    gone = weakref.ref(y)
    del y
    assert gone() is None
    assert trace.nodes[0].values


DEEP = """
import torch
from leafgrad import record, trace_graph
x = torch.ones(1, requires_grad=True)
with record(values=True) as recording:
    y = x
    for _ in range(5_000):
        y = y + 1.0
"""
TRACED = """
trace = trace_graph(y, recording=recording, values=True, gradients=True)
assert trace.nodes[0].values[0].numbers == (5001.0,)
assert trace.leaves[0].gradients[0].numbers == (1.0,)
"""
FREED = """
del y
print("freed")
"""


@needs_posix
@pytest.mark.parametrize("code", [DEEP + FREED, DEEP + TRACED + FREED], ids=["seen", "traced"])
def test_deep_graph_with_recorded_values_can_be_freed(code: str, run_apart: RunApart) -> None:
    run = run_apart(code)
    assert (run.stdout, run.returncode) == ("freed\n", 0), run.stderr
