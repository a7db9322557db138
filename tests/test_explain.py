"""Why a tensor has no gradient: each cause on a real graph, and no other."""

import gc
import json
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import CutKind, GradCause, GradExplanation, explain_grad, record

LINES = Path(__file__).read_text("utf-8").splitlines()


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=True)


def lines(explanation: GradExplanation) -> list[str]:
    """Give the text of the line of each cut."""
    return [LINES[cut.source.line - 1].strip() for cut in explanation.cuts if cut.source]


# --- What can be seen without a recording


def filled() -> tuple[Any, Any]:
    x = leaf(2)
    y = x.sum()
    y.backward()
    return x, y


def not_run() -> tuple[Any, Any]:
    x = leaf(2)
    return x, [x.sum(), torch.ones(2)]


def retained() -> tuple[Any, Any]:
    h = leaf(2) * 2
    h.retain_grad()
    return h, h.sum()


def used_up() -> tuple[Any, Any]:
    x = leaf(2)
    y = x.exp().sum()
    torch.autograd.grad(y, x)
    return x, y


def not_retained() -> tuple[Any, Any]:
    h = leaf(2) * 2
    return h, h.sum()


def output_itself() -> tuple[Any, Any]:
    y = leaf(2).sum()
    return y, y


def constant() -> tuple[Any, Any]:
    x = torch.ones(2)
    return x, (x * leaf(2)).sum()


def frozen() -> tuple[Any, Any]:
    linear = nn.Linear(2, 2)
    linear.weight.requires_grad_(False)
    return linear.weight, linear(torch.ones(2)).sum()


def integer() -> tuple[Any, Any]:
    index = torch.tensor([0, 1])
    return index, leaf(2)[index].sum()


def not_reached() -> tuple[Any, Any]:
    return leaf(2), leaf(2).sum()


def other_output_of_the_node() -> tuple[Any, Any]:
    first, second = (leaf(2) * 2).unbind()
    return first, second.exp()


def without_graph() -> tuple[Any, Any]:
    x = leaf(2)
    return x, x.detach().sum()


def unrecorded_view() -> tuple[Any, Any]:
    base = leaf(2)
    with torch.no_grad():
        view = base[:1]
    return view, base.sum()


def invalid_view() -> tuple[Any, Any]:
    base = leaf(2) * 1
    with torch.no_grad():
        view = base.unbind()[0]
    base.add_(1)
    return view, base.sum()


SEEN: dict[Callable[[], tuple[Any, Any]], GradCause] = {
    filled: GradCause.FILLED,
    not_run: GradCause.NOT_RUN,
    retained: GradCause.NOT_RUN,
    used_up: GradCause.USED_UP,
    not_retained: GradCause.NOT_RETAINED,
    output_itself: GradCause.NOT_RETAINED,
    constant: GradCause.CONSTANT,
    frozen: GradCause.FROZEN,
    integer: GradCause.INTEGER,
    not_reached: GradCause.NOT_REACHED,
    other_output_of_the_node: GradCause.NOT_REACHED,
    without_graph: GradCause.WITHOUT_GRAPH,
    unrecorded_view: GradCause.UNRECORDED_VIEW,
    invalid_view: GradCause.INVALID_VIEW,
}


@pytest.mark.parametrize("case", SEEN, ids=lambda case: case.__name__)
def test_a_cause_is_seen_without_a_recording(case: Callable[[], tuple[Any, Any]]) -> None:
    tensor, outputs = case()
    explanation = explain_grad(tensor, outputs)
    assert explanation.cause is SEEN[case]
    assert explanation.cuts == ()
    assert explanation.because.endswith(".")
    assert explanation.cure.endswith(".")


def test_a_tensor_inside_a_transform_has_no_grad() -> None:
    causes = []

    def inside(x: torch.Tensor) -> torch.Tensor:
        y = x.sin().sum()
        causes.append(explain_grad(x, y).cause)
        return y

    torch.func.grad(inside)(torch.ones(2))
    assert causes == [GradCause.WRAPPED]


def test_the_facts_are_fields() -> None:
    h = leaf(2) * 2
    explanation = explain_grad(h, h.exp().sum())
    assert (explanation.requires_grad, explanation.is_leaf) == (True, False)
    assert (explanation.retains_grad, explanation.has_grad) == (False, False)
    assert (explanation.is_reached, explanation.is_freed) == (True, False)


def test_a_gradient_edge_is_an_output_too() -> None:
    x = leaf(2)
    edge = torch.autograd.graph.get_gradient_edge(x.exp())
    assert explain_grad(x, edge).cause is GradCause.NOT_RUN
    with record() as recording:
        assert explain_grad(leaf(2), edge, recording=recording).cause is GradCause.NOT_REACHED


# --- What a recording shows

W = leaf(2)


def detached(x: torch.Tensor) -> torch.Tensor:
    h = x.exp().detach()
    return (h * W).sum()


def detached_in_place(x: torch.Tensor) -> torch.Tensor:
    h = x.exp()
    h.detach_()
    return (h * W).sum()


def started_anew(x: torch.Tensor) -> torch.Tensor:
    h = x.exp().detach().requires_grad_()
    return (h * W).sum()


def data(x: torch.Tensor) -> torch.Tensor:
    h = x.exp().data
    return (h * W).sum()


def no_grad(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        h = 2 * x
    return (h * W).sum()


def inference(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        h = (2 * x).sum()
    return (h.clone() * W).sum()


def not_floating(x: torch.Tensor) -> torch.Tensor:
    h = x.exp().argmax()
    return (h * W).sum()


def not_differentiable(x: torch.Tensor) -> torch.Tensor:
    h = torch.autograd.grad(x.exp().sum(), x)[0]
    return (h * W).sum()


def python(x: torch.Tensor) -> torch.Tensor:
    h = x.sum().exp().item()
    return (h * W).sum()


def listed(x: torch.Tensor) -> torch.Tensor:
    h = torch.tensor((2 * x).tolist())
    return (h * W).sum()


def numpy(x: torch.Tensor) -> torch.Tensor:
    h = torch.from_numpy(x.exp().detach().numpy())
    return (h * W).sum()


def nested_in_a_list(x: torch.Tensor) -> torch.Tensor:
    h = torch.stack([x.detach(), W.detach()])
    return (h * W).sum()


def written_into_a_constant(x: torch.Tensor) -> torch.Tensor:
    h = torch.zeros(2)
    with torch.no_grad():
        h[0] = x[0]
    return (h * W).sum()


def without_any_graph(x: torch.Tensor) -> torch.Tensor:
    h = x.exp().detach()
    return h.sum()


CUTS: dict[Callable[[torch.Tensor], torch.Tensor], GradCause] = {
    detached: GradCause.DETACHED,
    detached_in_place: GradCause.DETACHED,
    started_anew: GradCause.DETACHED,
    data: GradCause.DATA,
    no_grad: GradCause.NO_GRAD,
    inference: GradCause.NO_GRAD,
    not_floating: GradCause.NOT_FLOATING,
    not_differentiable: GradCause.NOT_DIFFERENTIABLE,
    python: GradCause.PYTHON,
    listed: GradCause.PYTHON,
    numpy: GradCause.NUMPY,
    nested_in_a_list: GradCause.DETACHED,
    written_into_a_constant: GradCause.NO_GRAD,
    without_any_graph: GradCause.DETACHED,
}


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar")
@pytest.mark.parametrize("compute", CUTS, ids=lambda case: case.__name__)
def test_a_cut_is_found_with_its_line(compute: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = leaf(2)
    with record() as recording:
        loss = compute(x)
    explanation = explain_grad(x, loss, recording=recording)
    assert explanation.cause is CUTS[compute]
    assert re.match(r"h(\[0\])? = |h\.detach_\(\)", lines(explanation)[0])
    assert not explanation.is_reached


def test_a_path_around_the_cut_leaves_nothing_to_explain() -> None:
    x = leaf(2)
    with record() as recording:
        loss = (x * x.detach()).sum()
    explanation = explain_grad(x, loss, recording=recording)
    assert (explanation.cause, explanation.cuts) == (GradCause.NOT_RUN, ())


def test_only_the_cuts_between_the_tensor_and_the_outputs_are_told() -> None:
    x, y = leaf(2), leaf(2)
    with record() as recording:
        a = x.exp().detach()
        b = y.exp().detach()
        c = x.sin().detach()
        loss = (a * b * W).sum()
    explanation = explain_grad(x, loss, recording=recording)
    assert lines(explanation) == ["a = x.exp().detach()"]
    assert lines(explain_grad(x, c.sum() + W.sum(), recording=recording)) == []


def test_all_the_cuts_on_the_way_are_told() -> None:
    x = leaf(2)
    with record() as recording:
        a = x.exp().detach()
        b = x.sin().data
        loss = (a * b * W).sum()
    explanation = explain_grad(x, loss, recording=recording)
    assert [cut.kind for cut in explanation.cuts] == [CutKind.DETACHED, CutKind.DATA]
    assert explanation.because.endswith("all_the_cuts_on_the_way_are_told (and 1 more).")


def test_an_intermediate_result_is_explained_as_well() -> None:
    x = leaf(2)
    with record() as recording:
        h = x.exp()
        loss = (h.sin().detach() * x).sum()
    assert explain_grad(h, loss, recording=recording).cause is GradCause.DETACHED
    assert explain_grad(x, loss, recording=recording).cause is GradCause.NOT_RUN


def test_what_was_cut_off_itself_tells_where() -> None:
    x = leaf(2)
    with record() as recording:
        h = x.exp().detach()
        loss = (h * x).sum()
    explanation = explain_grad(h, loss, recording=recording)
    assert explanation.cause is GradCause.CONSTANT
    assert lines(explanation) == ["h = x.exp().detach()"]


def test_what_only_takes_its_shape_from_a_tensor_is_no_cut() -> None:
    x = leaf(2)
    with record() as recording:
        loss = (torch.zeros_like(x) * W + x.new_ones(2)).sum()
    explanation = explain_grad(x, loss, recording=recording)
    assert (explanation.cause, explanation.cuts) == (GradCause.UNUSED, ())


def test_a_new_tensor_is_not_taken_for_one_that_is_gone() -> None:
    x = leaf(2)
    with record() as recording:
        for _ in range(100):
            x.detach()
        loss = (torch.ones(2) * W).sum()
    assert explain_grad(x, loss, recording=recording).cause is GradCause.UNUSED


def test_a_graph_that_is_gone_still_tells() -> None:
    x = leaf(2)
    with record() as recording:
        h = x
        for _ in range(5):
            h = h.exp().sin()
        h = h.detach()
        loss = (h * W).sum()
    gc.collect()
    assert explain_grad(x, loss, recording=recording).cause is GradCause.DETACHED


def test_a_deep_graph_behind_a_cut_can_be_freed() -> None:
    x = h = leaf(1)
    with record() as recording:
        for _ in range(20_000):
            h = h.sin()
            if _ % 1000 == 0:
                h.detach()
        loss = h.detach()
    del h
    assert explain_grad(x, loss, recording=recording).cause is GradCause.DETACHED


def test_a_recording_of_cuts_keeps_nothing_alive() -> None:
    x = leaf(2)
    with record() as recording:
        h = x.exp()
        d = h.detach()
    references: list[Any] = [weakref.ref(thing) for thing in (x, h, d)]
    del x, h, d
    gc.collect()
    assert [reference() for reference in references] == [None] * 3
    assert recording.log.losses.touched == {}


# --- The forms and what is refused


def test_the_text_is_a_card() -> None:
    h = leaf(2) * 2
    assert f"{explain_grad(h, h.sum())}\n" == CARD


CARD = """\
gradient of tensor: not retained
  .grad                 None
  requires_grad         True
  is_leaf               False
  retains_grad          False
  reached from outputs  True
  graph freed           False
  - It is the result of a recorded operation (MulBackward0), whose gradient is
    passed on and not kept.
  - Call retain_grad() on it before backward(), or ask torch.autograd.grad()
    for its gradient.
"""


def test_a_cut_is_a_row_and_its_line_is_in_the_sentence() -> None:
    x = leaf(2)
    with record() as recording:
        loss = detached(x)
    text = str(explain_grad(x, loss, recording=recording))
    assert "  cut                   detached by detach, test_explain.py:" in text
    assert "was cut by detach(): detach in" in text


def test_a_cut_of_unknown_code_says_so() -> None:
    x = leaf(2)
    with record() as recording:
        loss = detached(x)
    recording.log.losses.cuts[0] = (
        type(recording.log.losses.cuts[0][0])(
            kind=CutKind.DETACHED, operation="detach", source=None
        ),
        recording.log.losses.cuts[0][1],
    )
    assert "code that is not known" in explain_grad(x, loss, recording=recording).because


def test_a_notebook_gets_the_card_as_html() -> None:
    assert "invalid view" in explain_grad(*invalid_view())._repr_html_()


def test_the_dict_holds_json_types_only() -> None:
    x = leaf(2)
    with record() as recording:
        loss = detached(x)
    fields = explain_grad(x, loss, recording=recording).to_dict()
    assert json.loads(json.dumps(fields)) == fields
    assert fields["cuts"][0]["kind"] == "detached"


def test_what_will_be_filled_is_what_backward_fills() -> None:
    x, w = leaf(2), leaf(2)
    h = x * 2
    loss = h.sum()
    assert [explain_grad(t, loss).will_be_filled for t in (x, w, h)] == [True, False, False]
    h.retain_grad()
    assert explain_grad(h, loss).will_be_filled


def test_inspecting_changes_nothing() -> None:
    x = leaf(2)
    y = x.exp()
    number = torch._C._autograd._get_sequence_nr()
    explain_grad(x, y)
    assert torch._C._autograd._get_sequence_nr() == number
    y.sum().backward()


@pytest.mark.parametrize(
    ("tensor", "outputs", "error", "message"),
    [
        (1.0, leaf(2), TypeError, r"^tensor must be a torch.Tensor, not float; pass the one"),
        (leaf(2), 1.0, TypeError, r"^outputs must be a tensor, a GradientEdge, or a nest"),
        (leaf(2), [], ValueError, r"^outputs must hold at least one tensor, not none"),
    ],
    ids=["tensor", "outputs", "no outputs"],
)
def test_anything_else_is_refused(tensor: Any, outputs: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        explain_grad(tensor, outputs)
