"""Gradients in a trace: what a real backward passes on, and all that stays as it was."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.graph import GradientEdge
from torch.utils.checkpoint import checkpoint

from leafgrad import GraphTrace, record, trace_graph
from leafgrad.types import TensorSummary
from tests.models import MODELS, Half
from tests.turns import gradient_turns

Tensors = dict[str, torch.Tensor]


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, requires_grad=True)


def number(value: float, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(value, dtype=dtype, requires_grad=True)


def classic() -> tuple[torch.Tensor, Tensors]:
    x, y = number(4.0), number(math.pi)
    return x * x + torch.sin(2 * y), {"x": x, "y": y}


def one(summary: TensorSummary | None) -> Any:
    assert summary is not None
    assert summary.numbers is not None
    (only,) = summary.numbers
    return only


# --- The numbers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_classic_figure_has_its_gradients(dtype: torch.dtype) -> None:
    x, y = number(4.0, dtype), number(math.pi, dtype)
    trace = trace_graph(x * x + torch.sin(2 * y), names={"x": x, "y": y}, gradients=True)
    assert [one(node.gradients[0]) for node in trace.nodes] == [1, 1, 8, 1, 1, 2]


def test_without_being_asked_a_trace_has_no_gradients_and_runs_nothing() -> None:
    z, names = classic()
    calls: list[torch.Tensor] = []
    z.register_hook(calls.append)
    trace = trace_graph(z, names=names)
    assert {(node.gradients, node.visited) for node in trace.nodes} == {((), None)}
    assert calls == []


def test_each_edge_has_what_came_along_it_and_the_sum_until_then() -> None:
    z, names = classic()
    trace = trace_graph(z, names=names, gradients=True)
    edges = [edge for edge in trace.edges if trace.nodes[edge.target or 0].leaf_name == "x"]
    assert [(one(e.gradient), one(e.gradient_so_far)) for e in edges] == [(4, 4), (4, 8)]


def test_an_input_that_needs_no_gradient_gets_none() -> None:
    trace = trace_graph(number(3.0) * 2, gradients=True)
    assert [edge.gradient is None for edge in trace.edges] == [False, True]


def gradients(trace: GraphTrace) -> dict[str | None, Any]:
    return {node.leaf_name: node.gradients[0] for node in trace.leaves}


def test_weights_are_given_as_to_torch_autograd_grad() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    trace = trace_graph(y, gradients=True, grad_outputs=torch.tensor([1.0, 10.0]))
    arrived = trace.leaves[0].gradients[0]
    assert arrived is not None
    assert arrived.numbers == (2.0, 40.0)


def test_several_outputs_start_together_and_none_stands_for_one() -> None:
    x = number(3.0)
    y = x * x
    trace = trace_graph(
        [y, y.exp(), 2 * x],
        names={"x": x},
        gradients=True,
        grad_outputs=[None, torch.tensor(0.0, dtype=torch.float64), None],
    )
    assert one(gradients(trace)["x"]) == 8.0


def test_an_output_within_the_graph_of_another_has_its_weight_in_the_sums() -> None:
    x = number(3.0)
    y = x * x
    trace = trace_graph([y, 2 * y], names={"x": x}, gradients=True)
    (into_y,) = (edge for edge in trace.edges if edge.target == trace.roots[0].index)
    assert (one(into_y.gradient), one(into_y.gradient_so_far)) == (2, 3)
    assert one(trace.roots[0].gradients[0]) == 3


def test_a_gradient_edge_is_an_output_with_a_weight() -> None:
    x = number(3.0)
    y = x * x
    assert y.grad_fn is not None
    weight = torch.tensor(2.0, dtype=torch.float64)
    trace = trace_graph(GradientEdge(y.grad_fn, 0), gradients=True, grad_outputs=weight)
    assert one(trace.leaves[0].gradients[0]) == 12


def test_an_output_that_needs_no_gradient_needs_no_weight() -> None:
    x = number(3.0)
    trace = trace_graph([torch.ones(3), x * x], gradients=True)
    assert one(trace.leaves[0].gradients[0]) == 6


def test_each_output_of_a_node_has_its_gradient_and_one_that_is_not_used_has_none() -> None:
    first, _, last = leaf(1.0, 2.0, 3.0).unbind()
    trace = trace_graph(first * 2 + last * 5, gradients=True)
    (unbind,) = (node for node in trace.nodes if node.name == "UnbindBackward0")
    assert [g and g.numbers for g in unbind.gradients] == [(2.0,), None, (5.0,)]


def test_where_nothing_is_passed_on_nothing_arrives() -> None:
    x, y = leaf(2.0), leaf(3.0)
    made: Any = Half.apply(x, y.exp())  # type: ignore[no-untyped-call]
    trace = trace_graph(made.sum(), names={"x": x, "y": y}, gradients=True)
    assert gradients(trace)["y"] is None
    assert gradients(trace)["x"].numbers == (1.0,)
    (exp,) = (node for node in trace.nodes if node.name == "ExpBackward0")
    assert (exp.gradients, exp.visited) == ((None,), 3)


# --- The order, and every number, against another backward of the engine


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
def test_order_and_numbers_are_those_of_backward(plan: list[tuple[int, int, int]]) -> None:
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


def test_leaves_are_visited_when_backward_would_fill_them() -> None:
    leaves = {name: number(2.0) for name in "abcd"}
    a, b, c, d = leaves.values()
    z = (a * b) * (c * d) + a * d
    trace = trace_graph(z, names=leaves, gradients=True)
    order: list[str] = []
    for name, tensor in leaves.items():
        tensor.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
    z.backward()
    visited = sorted(trace.leaves, key=lambda node: node.visited or 0)
    assert [node.leaf_name for node in visited] == order


# --- What stays as it was


def test_no_grad_is_filled_no_version_counted_and_nothing_freed() -> None:
    z, names = classic()
    names["x"].grad = before = torch.tensor(7.0, dtype=torch.float64)
    trace_graph(z, names=names, values=True, gradients=True)
    assert names["x"].grad is before
    assert before == 7.0
    assert names["y"].grad is None
    assert [tensor._version for tensor in (z, *names.values())] == [0, 0, 0]
    z.backward()
    assert names["x"].grad == 15.0


@pytest.mark.parametrize("filled", [False, True])
def test_a_retained_gradient_is_as_it_was_also_where_the_tensor_is_not_at_hand(
    *, filled: bool
) -> None:
    x = number(3.0)
    y = x * x
    y.retain_grad()
    z = y.exp()
    if filled:
        z.backward(retain_graph=True)
    before = y.grad
    value = None if before is None else before.item()
    trace_graph(z, gradients=True)
    assert y.grad is before
    assert (y.grad is None) != filled
    assert before is None or before.item() == value


def test_hooks_run_and_what_they_make_is_shown() -> None:
    x = number(3.0)
    y = x * x
    y.register_hook(lambda gradient: gradient * 10)
    x.register_hook(lambda gradient: gradient + 1)
    trace = trace_graph(y * 2, names={"x": x, "y": y}, gradients=True)
    assert [one(node.gradients[0]) for node in trace.nodes] == [1, 20, 121]
    assert [one(edge.gradient) for edge in trace.edges if edge.gradient] == [2, 60, 60]


def test_hooks_that_wait_for_a_filled_grad_do_not_run() -> None:
    x = number(3.0)
    calls: list[torch.Tensor] = []
    x.register_post_accumulate_grad_hook(calls.append)
    trace_graph(x * x, gradients=True)
    assert calls == []


def test_what_is_computed_meanwhile_is_not_recorded_in_a_graph() -> None:
    z, names = classic()
    trace = trace_graph(z, names=names, gradients=True)
    again = trace_graph(z, names=names)
    assert [node.name for node in trace.nodes] == [node.name for node in again.nodes]


def test_a_checkpointed_block_runs_again_as_in_any_backward() -> None:
    calls = []

    def block(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return x.exp()

    trace = trace_graph(checkpoint(block, leaf(0.0), use_reentrant=False).sum(), gradients=True)
    assert one(trace.leaves[0].gradients[0]) == 1.0
    assert len(calls) == 2


@pytest.mark.parametrize("model", MODELS)
def test_real_models_have_a_gradient_wherever_one_arrives(model: str) -> None:
    roots: list[Any] = []
    real = trace_graph

    def traced(outputs: Any, **more: Any) -> GraphTrace:
        roots.append(outputs)
        return real(outputs, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.models.trace_graph", traced)
        MODELS[model]()
    (root,) = roots
    trace = trace_graph(root, gradients=True, grad_outputs=torch.ones_like(root))
    assert all(any(leaf.gradients) for leaf in trace.leaves)
    assert GraphTrace.from_json(trace.to_json()) == trace


# --- Where gradients stop being finite


def turning(trace: GraphTrace) -> list[str]:
    return [node.name for node in gradient_turns(trace)]


def test_the_birthplace_of_a_gradient_that_is_not_finite_is_the_node_that_made_it() -> None:
    x = leaf(0.0, 1.0)
    trace = trace_graph(((x * 2).sqrt() * 3).sum(), names={"x": x}, gradients=True)
    assert turning(trace) == ["SqrtBackward0"]
    assert trace.to_text().splitlines()[1] == (
        "gradients not finite (infinity) from node 2, SqrtBackward0"
    )


def test_a_gradient_that_was_not_finite_from_the_start_turns_nowhere() -> None:
    trace = trace_graph(leaf(1.0) * 2, gradients=True, grad_outputs=torch.tensor([math.inf]))
    assert turning(trace) == []


def test_a_complex_gradient_is_shown() -> None:
    x = torch.tensor(1 + 1j, requires_grad=True)
    trace = trace_graph((x * x.conj()).real, gradients=True)
    assert one(trace.leaves[0].gradients[0]) == 2 + 2j


def test_a_gradient_of_nothing_is_empty() -> None:
    trace = trace_graph(torch.ones(0, 3, requires_grad=True).sum(), gradients=True)
    assert trace.leaves[0].gradients[0] is not None
    assert trace.leaves[0].gradients[0].numbers == ()


# --- What cannot be


def test_a_tensor_with_several_numbers_needs_a_weight() -> None:
    with pytest.raises(
        ValueError,
        match=r"^gradients must start from one real number, or with grad_outputs, not from "
        r"torch.float32 of shape \(2,\) alone; trace its sum\(\), or pass grad_outputs of its sha",
    ):
        trace_graph(leaf(1.0, 2.0).exp(), gradients=True)


def test_a_complex_number_and_a_gradient_edge_need_one_too() -> None:
    z = torch.tensor(1j, requires_grad=True) * 2
    with pytest.raises(ValueError, match=r"not from torch.complex64 of shape \(\) alone"):
        trace_graph(z, gradients=True)
    assert z.grad_fn is not None
    with pytest.raises(ValueError, match=r"not from a GradientEdge alone"):
        trace_graph(GradientEdge(z.grad_fn, 0), gradients=True)


def test_there_must_be_a_weight_for_each_output() -> None:
    x = number(3.0)
    with pytest.raises(
        ValueError, match=r"^grad_outputs must hold a tensor for each of the 2 outp"
    ):
        trace_graph([x * 2, x * 3], gradients=True, grad_outputs=[None])


@pytest.mark.parametrize("name", ["values", "gradients"])
def test_what_is_asked_for_is_a_bool(name: str) -> None:
    asked: Any = {name: torch.ones(2)}
    with pytest.raises(
        TypeError, match=rf"^{name} must be a bool, not Tensor; True asks for them$"
    ):
        trace_graph(number(3.0) * 2, **asked)


def test_no_weights_are_not_enough() -> None:
    with pytest.raises(ValueError, match=r"each of the 1 outputs that need a gradient, not 0;"):
        trace_graph(number(3.0) * 2, gradients=True, grad_outputs=[])


def test_a_weight_without_a_backward_is_an_error() -> None:
    x = number(3.0)
    with pytest.raises(ValueError, match=r"^grad_outputs must come with gradients=True, which"):
        trace_graph(x * 2, grad_outputs=x.detach())


def test_a_freed_graph_is_pytorchs_own_error_and_leaves_no_hook_behind() -> None:
    x = number(3.0)
    y = x * x
    y.backward()
    calls: list[torch.Tensor] = []
    y.register_hook(calls.append)
    with pytest.raises(
        RuntimeError,
        match=r"whole, but node 0 \(MulBackward0\) has lost .* retain_graph=True .* second time",
    ):
        trace_graph(y, gradients=True)
    assert len(calls) == 1
    assert trace_graph(y).is_freed


def test_of_a_graph_that_is_freed_in_part_the_node_is_named_with_its_line() -> None:
    x = number(3.0)
    with record() as recording:
        h = x * x
        y = h + 1
    h.backward()
    (line,) = [
        node.source.line for node in trace_graph(h, recording=recording).nodes if node.source
    ]
    with pytest.raises(
        RuntimeError, match=rf"node 1 \(MulBackward0\), of tests/trace/test_gradi.*:{line} in"
    ):
        trace_graph(y, gradients=True, saved=False, recording=recording)


def test_what_a_hook_raises_passes_through() -> None:
    y = number(3.0) * 2

    def fail(_: torch.Tensor) -> None:
        raise RuntimeError("on purpose, a second time")

    y.register_hook(fail)
    with pytest.raises(RuntimeError, match=r"^on purpose, a second time$"):
        trace_graph(y, gradients=True)


def test_a_weight_has_the_shape_of_its_output() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(
        ValueError, match=r"^grad_outputs\[1\] must have the shape \(2, 1\) of .*, not \(2,\); it"
    ):
        trace_graph(
            [x.sin(), GradientEdge(x.unsqueeze(1).grad_fn, 0)],  # type: ignore[arg-type]
            gradients=True,
            grad_outputs=[torch.ones(2), torch.ones(2)],
        )


def test_a_weight_is_a_tensor() -> None:
    wrong: Any = [1.0]
    with pytest.raises(TypeError, match=r"^grad_outputs\[0\] must be a tensor of shape \(2,\), or"):
        trace_graph(leaf(1.0, 2.0).sin(), gradients=True, grad_outputs=wrong)


def test_a_leaf_that_was_frozen_since_is_told_what_arrives() -> None:
    x, w = number(3.0), number(2.0)
    y = x * w * w
    x.requires_grad_(False)
    trace = trace_graph(y, names={"x": x, "w": w}, gradients=True)
    told = {node.leaf_name: node.gradients for node in trace.leaves}
    assert [str(gradient) for (gradient,) in (told["x"], told["w"])] == ["4", "12"]
    assert x.grad is None
