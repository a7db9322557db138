"""Sentences of a backward pass, step by step."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from leafgrad import trace_graph
from leafgrad.types import BackwardSteps
from tests.messages import exactly, message
from tests.models import Half


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def classic() -> BackwardSteps:
    x, y = number(4.0), number(math.pi)
    a = x * x
    u = 2 * y
    s = torch.sin(u)
    z = a + s
    names = {"x": x, "y": y, "a": a, "u": u, "s": s, "z": z}
    return trace_graph(z, names=names, values=True, gradients=True).steps()


def said(steps: BackwardSteps) -> list[str]:
    return [step.sentence for step in steps.steps]


# --- Sentences


def test_steps_are_printed_as_sentences() -> None:
    assert str(classic()) == TEXT.strip("\n")


TEXT = """
 1. Forward: x (a leaf) is 4.
 2. Forward: y (a leaf) is 3.1416.
 3. Forward: a (MulBackward0) is 16, computed from x and x.
 4. Forward: u (MulBackward0) is 6.2832, computed from y and a constant.
 5. Forward: s (SinBackward0) is -2.4493e-16, computed from u.
 6. Forward: z (AddBackward0) is 16, computed from a and s.
 7. Backward starts at z (AddBackward0) with the gradient 1.
 8. Backward: z (AddBackward0) multiplies 1 by its local derivative 1 and passes 1 to a.
 9. Backward: z (AddBackward0) multiplies 1 by its local derivative 1 and passes 1 to s.
10. Backward: s (SinBackward0) multiplies 1 by its local derivative cos(u) = 1 and passes 1 to u.
11. Backward: u (MulBackward0) multiplies 1 by its local derivative 2 and passes 2 to y.
12. The gradient of y is complete: 2. backward() adds it to y.grad.
13. Backward: a (MulBackward0) multiplies 1 by its local derivative x = 4 and passes 4 to x. FIRST
14. Backward: a (MulBackward0) multiplies 1 by its local derivative x = 4 and passes 4 to x. SUM
15. The gradient of x is complete: 8. backward() adds it to x.grad.
"""
TEXT = TEXT.replace("FIRST", "It is the first of 2 gradients to arrive there.")
TEXT = TEXT.replace("SUM", "With the earlier gradients, x now has 8.")


def test_steps_have_kind_node_and_edge() -> None:
    steps = classic()
    assert [step.kind for step in steps.steps[-4:]] == ["complete", "pass", "pass", "complete"]
    assert [(step.node, step.edge) for step in steps.steps[-3:]] == [(1, 0), (1, 1), (2, None)]
    first = steps.steps[0]
    assert (first.kind, first.node, first.edge) == ("value", 2, None)
    assert first.sentence == "Forward: x (a leaf) is 4."
    assert repr(steps) == "<BackwardSteps: 15 of them>"
    assert str(steps).splitlines()[0] == " 1. Forward: x (a leaf) is 4."


def test_step_shows_that_value_is_unknown_without_recording() -> None:
    trace = trace_graph(number(3.0) * 2 + 1, values=True, gradients=True)
    assert message("steps.value-unknown", node="node 1 (MulBackward0)") in said(trace.steps())


def test_small_tensors_are_listed() -> None:
    x = torch.ones(2, requires_grad=True)
    trace = trace_graph((x * 3).sum(), names={"x": x}, gradients=True)
    assert said(trace.steps())[1:3] == [
        "Backward: node 0 (SumBackward0) turns 1 into [1, 1] for node 1.",
        "Backward: node 1 (MulBackward0) turns [1, 1] into [3, 3] for x.",
    ]


def test_large_tensors_have_shape_mean_and_norm() -> None:
    x = torch.ones(4, 4, requires_grad=True)
    trace = trace_graph(x.sum(), names={"x": x}, gradients=True)
    assert said(trace.steps())[1:] == [
        "Backward: node 0 (SumBackward0) turns 1 into (4, 4) of mean 1, norm 4 for x.",
        "The gradient of x is complete: (4, 4) of mean 1, norm 4. backward() adds it to x.grad.",
    ]


def test_zero_gradient_has_no_local_derivative() -> None:
    x = number(0.0)
    trace = trace_graph((x.exp()) ** 2 * 0, names={"x": x}, gradients=True)
    assert "Backward: node 1 (PowBackward0) turns 0 into 0 for node 2." in said(trace.steps())


def test_step_shows_none_for_output_without_gradient() -> None:
    first, second = torch.tensor([1.0, 2.0], requires_grad=True).unbind()
    trace = trace_graph(first, names={"first": first}, gradients=True)
    assert said(trace.steps())[:2] == [
        "Backward starts at first (UnbindBackward0) with the gradient 1; none.",
        "Backward: first (UnbindBackward0) turns 1 into [1, 0] for node 1.",
    ]
    assert second.grad_fn is first.grad_fn


def test_step_reports_backward_that_returns_none() -> None:
    x, y = number(2.0), number(3.0)
    made: Any = Half.apply(x, y)  # type: ignore[no-untyped-call]
    sentences = said(trace_graph(made, names={"x": x, "y": y}, gradients=True).steps())
    slots = {"node": "node 0 (HalfBackward)", "target": "y"}
    assert message("steps.nothing-passed", **slots) in sentences


# --- Formulas of local derivatives


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "CosBackward0": torch.cos,
    "ExpBackward0": torch.exp,
    "LogBackward0": torch.log,
    "ReciprocalBackward0": torch.reciprocal,
    "SigmoidBackward0": torch.sigmoid,
    "SinBackward0": torch.sin,
    "SqrtBackward0": torch.sqrt,
    "TanhBackward0": torch.tanh,
}


@pytest.mark.parametrize("name", [*UNARY, "MulBackward0"])
def test_shown_local_derivative_matches_backward(name: str) -> None:
    x, y = number(0.7), number(1.3)
    made = UNARY[name](x) if name in UNARY else x * y
    trace = trace_graph(made, names={"x": x, "y": y}, values=True, gradients=True)
    passed = [s for s in said(trace.steps()) if " by its local derivative " in s]
    assert trace.nodes[0].name == name
    for sentence in passed:
        found = re.search(r"derivative (.*) = (.*) and passes (.*?) to", sentence)
        assert found is not None
        known = {**vars(math), "sigmoid": sigmoid, "x": 0.7, "y": 1.3}
        value = eval(found[1], known)
        assert f"{value:.5g}" == found[2] == found[3]


# --- Refused arguments


def test_steps_without_gradients_are_refused() -> None:
    trace = trace_graph(number(3.0) * 2, values=True)
    with pytest.raises(ValueError, match=exactly("errors.graph.no-gradients", what="steps()")):
        trace.steps()


def test_player_with_more_than_a_thousand_steps_is_refused() -> None:
    y = x = number(1.0)
    for _ in range(499):
        y = y.sin()
    assert len(trace_graph(y, names={"x": x}, gradients=True).steps().steps) == 501
    with pytest.raises(ValueError, match=exactly("errors.steps.count", most=1000, count=1001)):
        trace_graph(y, names={"x": x}, values=True, gradients=True).steps()
