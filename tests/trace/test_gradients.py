"""Gradients in a trace."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.graph import GradientEdge

from leafgrad import GraphTrace, trace_graph
from leafgrad.types import TensorSummary
from tests.messages import exactly
from tests.models import Half
from tests.tensors import holding

Tensors = dict[str, torch.Tensor]


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def classic() -> tuple[torch.Tensor, Tensors]:
    x, y = number(4.0), number(math.pi)
    return x * x + torch.sin(2 * y), {"x": x, "y": y}


def one(summary: TensorSummary | None) -> Any:
    assert summary is not None
    assert summary.numbers is not None
    (only,) = summary.numbers
    return only


# --- Values


def test_trace_has_no_numbers_by_default_and_runs_no_hook() -> None:
    z, names = classic()
    calls: list[torch.Tensor] = []
    z.register_hook(calls.append)
    trace = trace_graph(z, names=names)
    assert {(n.values, n.gradients, n.visited) for n in trace.nodes} == {((), (), None)}
    assert calls == []


def test_nodes_and_edges_have_gradients_and_sums_so_far() -> None:
    z, names = classic()
    trace = trace_graph(z, names=names, gradients=True)
    assert [one(node.gradients[0]) for node in trace.nodes] == [1, 1, 8, 1, 1, 2]
    edges = [edge for edge in trace.edges if trace.nodes[edge.target or 0].leaf_name == "x"]
    assert [(one(e.gradient), one(e.gradient_so_far)) for e in edges] == [(4, 4), (4, 8)]


def gradients(trace: GraphTrace) -> dict[str | None, Any]:
    return {node.leaf_name: node.gradients[0] for node in trace.leaves}


def test_grad_outputs_weigh_elements() -> None:
    x = holding(1.0, 2.0)
    y = x * x
    trace = trace_graph(y, gradients=True, grad_outputs=torch.tensor([1.0, 10.0]))
    arrived = trace.leaves[0].gradients[0]
    assert arrived is not None
    assert arrived.numbers == (2.0, 40.0)


def test_none_in_grad_outputs_means_one() -> None:
    x = number(3.0)
    y = x * x
    trace = trace_graph(
        [y, y.exp(), 2 * x],
        names={"x": x},
        gradients=True,
        grad_outputs=[None, torch.tensor(0.0, dtype=torch.float64), None],
    )
    assert one(gradients(trace)["x"]) == 8.0


def test_gradient_of_output_inside_another_graph_is_added() -> None:
    x = number(3.0)
    y = x * x
    trace = trace_graph([y, 2 * y], names={"x": x}, gradients=True)
    (into_y,) = (edge for edge in trace.edges if edge.target == trace.roots[0].index)
    assert (one(into_y.gradient), one(into_y.gradient_so_far)) == (2, 3)
    assert one(trace.roots[0].gradients[0]) == 3


def test_unused_output_of_node_has_no_gradient() -> None:
    first, _, last = holding(1.0, 2.0, 3.0).unbind()
    trace = trace_graph(first * 2 + last * 5, gradients=True)
    (unbind,) = (node for node in trace.nodes if node.name == "UnbindBackward0")
    assert [g and g.numbers for g in unbind.gradients] == [(2.0,), None, (5.0,)]


def test_no_gradient_arrives_where_backward_returns_none() -> None:
    x, y = holding(2.0), holding(3.0)
    made: Any = Half.apply(x, y.exp())  # type: ignore[no-untyped-call]
    trace = trace_graph(made.sum(), names={"x": x, "y": y}, gradients=True)
    assert gradients(trace)["y"] is None
    assert gradients(trace)["x"].numbers == (1.0,)
    (exp,) = (node for node in trace.nodes if node.name == "ExpBackward0")
    assert (exp.gradients, exp.visited) == ((None,), 3)


# --- Order and values match a second backward pass


def operands(made: list[torch.Tensor], places: list[int]) -> list[torch.Tensor]:
    return [made[place % len(made)] for place in places]


OPERATIONS: list[Callable[..., torch.Tensor]] = [
    lambda a, b: a * b,
    lambda a, b: a + b,
    lambda a, _: a.sin(),
    lambda a, b: torch.stack([a, b]).sum(),
    lambda a, b: a - 2 * b,
]
PLANS = st.lists(
    st.tuples(st.sampled_from(range(len(OPERATIONS))), st.integers(0, 9), st.integers(0, 9)),
    min_size=1,
    max_size=9,
)


@settings(max_examples=60, deadline=None)
@given(PLANS)
def test_order_of_nodes_and_gradients_match_backward(plan: list[tuple[int, int, int]]) -> None:
    leaves = [number(0.5), number(1.5), number(-0.25)]
    made = [*leaves]
    for operation, one_place, other_place in plan:
        made.append(OPERATIONS[operation](*operands(made, [one_place, other_place])))
    names = {f"t{place}": tensor for place, tensor in enumerate(made)}
    trace = trace_graph(made[-1], names=names, gradients=True)
    order: list[str] = []
    arrived: dict[str, torch.Tensor] = {}
    for name, tensor in names.items():

        def note(gradient: torch.Tensor, name: str = name) -> None:
            order.append(name)
            arrived[name] = gradient

        tensor.register_hook(note)
    made[-1].backward()
    taken = [n for n in trace.nodes if n.visited is not None and n.tensor_names]
    taken.sort(key=lambda node: node.visited or 0)
    assert [node.tensor_names[0] for node in taken] == order
    for node in taken:
        assert one(node.gradients[0]) == arrived[node.tensor_names[0]].item()
    for node in trace.nodes:
        into = [edge for edge in trace.edges if edge.target == node.index and edge.gradient]
        into.sort(key=lambda edge: (trace.nodes[edge.source].visited or 0, edge.output_nr))
        if into:
            last = into[-1].gradient_so_far
            assert last in (node.gradients[0], *node.gradients)
    for tensor in leaves:
        found = [node for node in trace.leaves if node.tensor_names[0] in names]
        expected = {n.leaf_name: one(n.gradients[0]) for n in found}
        name = next(name for name, named in names.items() if named is tensor)
        assert (tensor.grad is None) == (name not in expected)
        if tensor.grad is not None:
            assert tensor.grad.item() == expected[name]


# --- No side effects


def test_trace_fills_no_grad_and_frees_nothing() -> None:
    z, names = classic()
    names["x"].grad = before = torch.tensor(7.0, dtype=torch.float64)
    trace_graph(z, names=names, values=True, gradients=True)
    assert names["x"].grad is before
    assert before == 7.0
    assert names["y"].grad is None
    assert [tensor._version for tensor in (z, *names.values())] == [0, 0, 0]
    z.backward()
    assert names["x"].grad == 15.0


def test_gradients_include_what_hooks_change() -> None:
    x = number(3.0)
    y = x * x
    y.register_hook(lambda gradient: gradient * 10)
    x.register_hook(lambda gradient: gradient + 1)
    trace = trace_graph(y * 2, names={"x": x, "y": y}, gradients=True)
    assert [one(node.gradients[0]) for node in trace.nodes] == [1, 20, 121]
    assert [one(edge.gradient) for edge in trace.edges if edge.gradient] == [2, 60, 60]


# --- Gradients that are not finite


def test_complex_gradient_is_shown() -> None:
    x = torch.tensor(1 + 1j, requires_grad=True)
    trace = trace_graph((x * x.conj()).real, gradients=True)
    assert one(trace.leaves[0].gradients[0]) == 2 + 2j


# --- Refused arguments


def edge(tensor: torch.Tensor) -> GradientEdge:
    assert tensor.grad_fn is not None
    return GradientEdge(tensor.grad_fn, 0)


COMPLEX = torch.tensor(1j, requires_grad=True) * 2
TWO = holding(1.0, 2.0).sin()


@pytest.mark.parametrize(
    ("outputs", "weights", "message"),
    [
        (TWO, None, r"^gradients must start .* not from torch.float32 of shape \(2,\);"),
        (COMPLEX, None, r"not from torch.complex64 of shape \(\);"),
        (edge(COMPLEX), None, r"not from a GradientEdge;"),
        ([TWO, TWO], [None], exactly("errors.grad-outputs.count", count=2, came=1)),
        (TWO, [], exactly("errors.grad-outputs.count", count=1, came=0)),
        ([TWO, edge(TWO.unsqueeze(1))], [TWO, TWO], r"^grad_outputs\[1\] .* \(2, 1\) .* \(2,\)"),
        (TWO, [1.0], r"^grad_outputs\[0\] must be a tensor of shape \(2,\)"),
    ],
    ids=["several numbers", "complex", "edge", "too few", "none", "shape", "no tensor"],
)
def test_invalid_grad_outputs_are_refused(outputs: Any, weights: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        trace_graph(outputs, gradients=True, grad_outputs=weights)


def test_grad_outputs_without_gradients_is_refused() -> None:
    with pytest.raises(ValueError, match=exactly("errors.trace.grad-outputs-alone")):
        trace_graph(TWO, grad_outputs=TWO.detach())


def test_freed_graph_raises_and_leaves_no_hook() -> None:
    x = number(3.0)
    y = x * x
    y.backward()
    calls: list[torch.Tensor] = []
    y.register_hook(calls.append)
    with pytest.raises(RuntimeError, match="second time"):
        trace_graph(y, gradients=True)
    assert len(calls) == 1
    assert trace_graph(y).is_freed


def test_error_of_hook_passes_through() -> None:
    y = number(3.0) * 2

    def fail(_: torch.Tensor) -> None:
        raise RuntimeError("on purpose, a second time")

    y.register_hook(fail)
    with pytest.raises(RuntimeError, match=r"^on purpose, a second time$"):
        trace_graph(y, gradients=True)


def test_leaf_frozen_after_forward_has_its_gradient() -> None:
    x, w = number(3.0), number(2.0)
    y = x * w * w
    x.requires_grad_(False)
    trace = trace_graph(y, names={"x": x, "w": w}, gradients=True)
    told = {node.leaf_name: node.gradients for node in trace.leaves}
    assert [str(gradient) for (gradient,) in (told["x"], told["w"])] == ["4", "12"]
    assert x.grad is None
