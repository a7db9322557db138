"""Why a tensor has no gradient: each cause on a real graph, and no other."""

import functools
import gc
import json
import math
import re
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from leafgrad import CutKind, GradCause, explain_grad, laplacian, record
from leafgrad.types import GradExplanation
from tests.tensors import leaf

LINES = Path(__file__).read_text("utf-8").splitlines()


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


def leaf_as_output() -> tuple[Any, Any]:
    x = leaf(2)
    return x, x.detach().sum().requires_grad_()


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
    other_output_of_the_node: GradCause.BESIDE,
    leaf_as_output: GradCause.LEAF_OUTPUTS,
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


def test_what_to_made_of_a_leaf_is_told_to_require_grad_after_it() -> None:
    moved, result = leaf(2).double(), leaf(2).exp().double()
    cures = [explain_grad(tensor, tensor.sum()).cure for tensor in (moved, result)]
    assert ["call requires_grad_() after to(), not before" in cure for cure in cures] == [
        True,
        False,
    ]
    after = torch.ones(2).double().requires_grad_()
    assert explain_grad(after, after.sum()).cause is GradCause.NOT_RUN


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
    explanation = explain_grad(x, loss, recording=recording)
    assert (explanation.cause, explanation.cuts) == (GradCause.UNUSED, ())


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
    assert recording.log.cuts.cuts_by_tensor == {}


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
  - It is not a leaf but the result of a recorded operation, MulBackward0,
    whose gradient is passed on and not kept.
  - Call retain_grad() on it before backward(), or ask torch.autograd.grad()
    for its gradient. To start from it as a leaf, cut it off: x =
    x.detach().requires_grad_().
"""


def test_a_cut_is_a_row_and_its_line_is_in_the_sentence() -> None:
    x = leaf(2)
    with record() as recording:
        loss = detached(x)
    text = str(explain_grad(x, loss, recording=recording))
    assert "  cut                   detached by detach, tests/explain/test_explain_grad.py:" in text
    assert "was cut where a value was detached: detach" in text


def test_a_cut_of_unknown_code_says_so() -> None:
    x = leaf(2)
    with record() as recording:
        loss = detached(x)
    recording.log.cuts.entries[0] = (
        type(recording.log.cuts.entries[0][0])(
            kind=CutKind.DETACHED, operation="detach", source=None
        ),
        recording.log.cuts.entries[0][1],
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


# --- What cannot be seen, and what comes though nothing was changed


def blocks() -> tuple[torch.Tensor, nn.Linear]:
    linear = nn.Linear(2, 2)
    loss = checkpoint(linear, leaf(2), use_reentrant=True).sum()
    return loss, linear


def test_what_a_reentrant_checkpoint_fills_cannot_be_seen() -> None:
    with record() as recording:
        loss, linear = blocks()
    explanation = explain_grad(linear.weight, loss, recording=recording)
    assert (explanation.cause, explanation.will_be_filled) == (GradCause.UNSEEN, None)
    assert (
        "the code of CheckpointFunctionBackward (torch/utils/checkpoint.py:" in explanation.because
    )
    text = " ".join(str(explanation).split())
    assert "filled by backward cannot be seen" in text
    assert "cannot be seen" in explanation._repr_html_()
    assert explanation.to_dict()["will_be_filled"] is None
    loss.backward()
    assert linear.weight.grad is not None


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")
def test_a_reentrant_checkpoint_of_what_needs_no_gradient_is_the_cut() -> None:
    linear = nn.Linear(2, 2)
    with record() as recording:
        loss = checkpoint(linear, torch.ones(2), use_reentrant=True).sum()
    explanation = explain_grad(linear.weight, loss, recording=recording)
    assert lines(explanation) == [
        "loss = checkpoint(linear, torch.ones(2), use_reentrant=True).sum()"
    ]
    assert "call it with use_reentrant=False" in explanation.cure


class Stopping(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def backward(_: Any, *__: Any) -> Any:
        return None


class Asking(Stopping):
    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return given(gradients[0])


def given(gradient: Any) -> Any:
    return 2 * gradient


def of_custom(function: Any, *inputs: torch.Tensor) -> Any:
    return function.apply(*inputs)


def test_a_custom_backward_that_gives_none_stops_the_gradient() -> None:
    x = leaf(2)
    loss = of_custom(Stopping, x).sum()
    explanation = explain_grad(x, loss)
    assert (explanation.cause, explanation.will_be_filled) == (GradCause.STOPPED, False)
    assert explanation.is_reached
    assert "StoppingBackward (tests/explain/test_explain_grad.py:" in explanation.because
    loss.backward()
    assert x.grad is None


def test_a_custom_backward_that_hands_on_what_another_gives_cannot_be_seen() -> None:
    x = leaf(2)
    loss = of_custom(Asking, x).sum()
    explanation = explain_grad(x, loss)
    assert (explanation.cause, explanation.will_be_filled) == (GradCause.UNSEEN, None)
    h = x * 1
    assert explain_grad(h, of_custom(Asking, h)).will_be_filled is False


def test_compiled_code_shows_which_of_its_inputs_get_a_gradient() -> None:
    x, w = leaf(2), leaf(2)

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a * b.detach()).sum()

    compiled: Any = torch.compile(product, backend="aot_eager")
    loss = compiled(x, w)
    assert [explain_grad(one, loss).will_be_filled for one in (x, w)] == [True, False]
    assert explain_grad(w, loss).cause is GradCause.STOPPED
    loss.backward()
    assert (x.grad is None, w.grad is None) == (False, True)


def test_an_operator_without_a_formula_stops_the_gradient() -> None:
    with torch.library._scoped_library("leafgrad_explain", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: 2 * x.detach(), "CPU")
        x = leaf(2)
        y = torch.ops.leafgrad_explain.twice(x)
        assert y.grad_fn is not None
        explanation = explain_grad(x, y.sum())
    assert (explanation.cause, explanation.will_be_filled) == (GradCause.STOPPED, False)
    assert explanation.because.endswith("WarnNotImplemented.")


def test_a_gradient_that_an_operation_makes_zero_is_told() -> None:
    x = leaf(2)
    explanation = explain_grad(x, x.round().sum())
    assert (explanation.cause, explanation.will_be_filled) == (GradCause.ALL_ZERO, True)
    assert explanation.because.endswith("RoundBackward0.")
    assert explain_grad(x, (x.round() + x).sum()).cause is GradCause.NOT_RUN
    x.round().sum().backward()
    assert x.grad is not None
    assert not x.grad.any()


def test_hooks_are_named_as_what_they_do_is_not_looked_at() -> None:
    x = leaf(2)
    x.register_hook(functools.partial(torch.mul, 0))
    explanation = explain_grad(x, x.sum())
    assert (explanation.hooks, explanation.will_be_filled) == (("partial",), True)
    x.register_post_accumulate_grad_hook(given)
    explanation = explain_grad(x, x.sum())
    assert explanation.will_be_filled is None
    assert re.fullmatch(r"given \(tests/explain/test_explain_grad.py:\d+\)", explanation.hooks[1])
    assert "What its hooks do to the gradient is not looked at" in str(explanation)


def test_what_another_backward_does_to_a_filled_gradient_depends_on_the_graph() -> None:
    x, y = filled()
    cure = explain_grad(x, x.exp().sum()).cure
    assert cure.startswith("Another backward from the outputs adds to it. trace_graph(outputs, ")
    x, y = leaf(2), leaf(2)
    loss = x.exp().sum()
    loss.backward()
    cure = explain_grad(x, loss).cure
    assert cure.startswith("Another backward from the outputs will fail, as a part of their graph")
    other = explain_grad(x, y.exp().sum())
    assert other.cure == "A backward from these outputs is not seen to add to it."


# --- What is said where no cut is known


def test_a_leaf_that_was_used_for_something_else_is_unused_and_that_use_is_named() -> None:
    x = leaf(2)
    with record() as recording:
        unrelated = x.exp()
        loss = W.sum()
    explanation = explain_grad(x, loss, recording=recording)
    assert explanation.cause is GradCause.UNUSED
    assert "for something else: exp in tests/explain/test_explain_grad.py:" in explanation.because
    del unrelated


def test_a_flag_that_came_too_late_is_told() -> None:
    x = torch.ones(2)
    with record() as recording:
        loss = (x * W).sum()
    x.requires_grad_()
    explanation = explain_grad(x, loss, recording=recording)
    assert explanation.cause is GradCause.LATE
    assert "mul in tests/explain/test_explain_grad.py:" in explanation.because


def in_another_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_a_tensor_that_was_detached_in_another_thread_shows_its_memory() -> None:
    x = leaf(2)
    with record() as recording:
        shared = in_another_thread(x.detach)
        loss = (shared * W).sum()
        x.exp()
    explanation = explain_grad(x, loss, recording=recording)
    assert explanation.cause is GradCause.SHARED
    assert "mul in tests/explain/test_explain_grad.py:" in explanation.because


def test_a_constant_without_a_single_storage_is_no_copy_of_a_leaf() -> None:
    leaves = torch.eye(2).to_sparse().requires_grad_()
    loss = (leaves * 2).to_dense().sum()
    assert "ask for that one" not in explain_grad(torch.eye(2).to_sparse(), loss).cure


def test_a_result_that_went_elsewhere_is_lost() -> None:
    x = leaf(2)
    with record() as recording:
        h = x.exp()
        loss = W.sum()
    assert explain_grad(h, loss, recording=recording).cause is GradCause.NOT_REACHED


def test_arguments_that_were_swapped_are_told() -> None:
    x = leaf(2)
    loss = x.exp().sum()
    explanation = explain_grad(loss, x)
    assert explanation.cause is GradCause.SWAPPED
    assert explanation.cure.startswith("Swap the two")


def test_a_detached_copy_of_a_leaf_leads_to_the_leaf() -> None:
    linear = nn.Linear(2, 2)
    loss = linear(torch.ones(2)).sum()
    explanation = explain_grad(linear.state_dict()["weight"], loss)
    assert explanation.cause is GradCause.CONSTANT
    assert "ask for that one" in explanation.cure


# --- Cuts that are none, and those of another kind


def of_broadcasting(x: torch.Tensor) -> torch.Tensor:
    _, h = torch.broadcast_tensors(x, torch.ones(2))
    result: torch.Tensor = (h * W).sum()
    return result


def of_a_grid(x: torch.Tensor) -> torch.Tensor:
    _, h = torch.meshgrid(x, torch.ones(2), indexing="ij")
    result: torch.Tensor = (h.sum(0) * W).sum()
    return result


def of_expansion(x: torch.Tensor) -> torch.Tensor:
    h = torch.ones(1).expand_as(x)
    return (h * W).sum()


@pytest.mark.parametrize("compute", [of_broadcasting, of_a_grid, of_expansion])
def test_a_result_of_other_inputs_is_no_cut(
    compute: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    x = leaf(2)
    with record() as recording:
        loss = compute(x)
    explanation = explain_grad(x, loss, recording=recording)
    assert explanation.cuts == ()
    assert explanation.cause is GradCause.UNUSED


def test_a_cut_within_a_custom_function_is_none_where_its_result_has_a_graph() -> None:
    x, other = leaf(2), leaf(2)
    with record() as recording:
        loss = (of_custom(Asking, x).detach() * of_custom(Asking, other)).sum()
    explanation = explain_grad(x, loss, recording=recording)
    assert [cut.operation for cut in explanation.cuts] == ["detach"]


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar")
def test_the_cure_fits_the_operation() -> None:
    def cure_of(function: Callable[[torch.Tensor], torch.Tensor]) -> str:
        x = leaf(2)
        with record() as recording:
            loss = (function(x) * W).sum()
        return explain_grad(x, loss, recording=recording).cure

    assert "rsample()" in cure_of(lambda x: torch.distributions.Normal(x, 1.0).sample())
    assert "softmax() for argmax()" in cure_of(lambda x: x.argmax())
    assert "interpolate" in cure_of(lambda x: W.detach()[x.long()])
    assert "create_graph=True" in cure_of(lambda x: torch.autograd.grad(x.exp().sum(), x)[0])
    assert "torch.stack(losses)" in cure_of(lambda x: torch.tensor([x[0], x[1]]))
    assert "no derivative" in cure_of(lambda x: (x > 0).float())
    assert "by one with a derivative" in cure_of(lambda x: of_custom(Marked, x))


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = 2 * x
        ctx.mark_non_differentiable(y)
        return y


@pytest.mark.parametrize("several", [nn.Linear(2, 2), [leaf(2), leaf(2)]], ids=["module", "list"])
def test_all_parameters_at_once_are_for_preflight(several: Any) -> None:
    with pytest.raises(TypeError, match=r"preflight\(outputs, names=model\) explains all"):
        explain_grad(several, leaf(2).sum())


def test_what_the_library_itself_hands_on_is_seen() -> None:
    x, network = torch.randn(4, 2, requires_grad=True), nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    explanation = explain_grad(x, laplacian(network(x), x).sum())
    assert (explanation.cause, explanation.will_be_filled) == (GradCause.NOT_RUN, True)


# --- How a graph was used up


def test_a_backward_that_did_not_come_to_a_tensor_is_told_as_such() -> None:
    trunk, first, second = (nn.Linear(2, 2) for _ in range(3))
    with record() as recording:
        hidden = trunk(torch.ones(1, 2)).tanh()
        first(hidden).square().sum().backward()
        loss = second(hidden).square().sum()
    for given in (recording, None):
        explained = explain_grad(second.weight, loss, recording=given)
        assert explained.cause is GradCause.USED_UP
        assert explained.because.endswith("by a backward of others, which did not come to it.")
        assert explained.cure.startswith("For a backward that comes to it: ")
    trunk.weight.grad = None
    assert "cleared since" in explain_grad(trunk.weight, loss, recording=recording).because


def test_a_result_that_retains_its_gradient_too_late_is_told_so_also_without_a_recording() -> None:
    h = leaf(2).exp()
    loss = h.sin().sum()
    loss.backward()
    h.retain_grad()
    explained = explain_grad(h, loss)
    assert explained.cause is GradCause.USED_UP
    assert explained.cure.startswith("Call retain_grad() on it before backward()")


# --- What a derivative does not depend on


@pytest.mark.parametrize("power", [1, 2])
def test_a_derivative_that_is_constant_in_a_tensor_is_told_as_such(power: int) -> None:
    x, other = leaf(2), leaf(2)
    with record() as recording:
        u = (x**power * other).sum() if power == 2 else (3 * x + other.sin()).sum()
        (slope,) = torch.autograd.grad(u, x, create_graph=True)
        loss = (slope * 2).sum()
    explained = explain_grad(other if power == 1 else x, loss, recording=recording)
    expected = GradCause.LINEAR if power == 1 else GradCause.NOT_RUN
    assert explained.cause is expected
    assert explain_grad(leaf(2), loss, recording=recording).cause is not GradCause.LINEAR
    recording.log.prune()
    again = explain_grad(other if power == 1 else x, loss, recording=recording)
    assert again.cause is expected


def test_a_bias_that_no_derivative_has_is_told_as_such() -> None:
    model = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.rand(3, 1, requires_grad=True)
    with record() as recording:
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        loss = (slope - 1).square().mean()
    bias = explain_grad(model.get_parameter("2.bias"), loss, recording=recording)
    assert bias.cause is GradCause.LINEAR
    assert "torch.autograd.grad() in tests/explain/test_explain_grad.py" in bias.because
    weight = explain_grad(model.get_parameter("2.weight"), loss, recording=recording)
    assert weight.cause is GradCause.NOT_RUN


def test_what_derivatives_came_from_is_forgotten_with_them() -> None:
    x, other = leaf(2), leaf(2)
    with record() as recording:
        for _ in range(5):
            u = (x * x.sin() + other.exp()).sum()
            (slope,) = torch.autograd.grad(u, x, create_graph=True)
            loss = slope.sum()
        del u, slope
    gc.collect()
    recording.log.prune()
    assert len(recording.log.passes.sources) == 2  # the first of the line, and the last
    assert explain_grad(x, loss, recording=recording).cause is GradCause.NOT_RUN
    assert explain_grad(other, loss, recording=recording).cause is GradCause.LINEAR


# --- Which of several cuts is named


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
def test_a_cut_that_only_led_to_a_later_one_is_not_named() -> None:
    w, x = leaf(2), leaf(2)
    with record() as recording:
        h = w * x.exp().detach()
        loss = torch.tensor(h.sum())
    (cut,) = explain_grad(w, loss, recording=recording).cuts
    assert cut.operation == "tensor"
    assert [one.operation for one in explain_grad(x, loss, recording=recording).cuts] == ["detach"]
    recording.log.prune()
    (cut,) = explain_grad(w, loss, recording=recording).cuts
    assert cut.operation == "tensor"
    (cut,) = explain_grad(torch.ones(2) * loss, loss, recording=recording).cuts or (cut,)
    assert cut.operation == "tensor"


def test_names_give_the_tensor_its_name() -> None:
    model = nn.Linear(2, 1)
    explanation = explain_grad(model.weight, model(torch.ones(1, 2)).sum(), names={"net": model})
    assert explanation.name == "net.weight"
    assert str(explanation).startswith("gradient of net.weight: ")
    assert explain_grad(leaf(1), model.bias.sum(), names=model).name is None


@pytest.mark.parametrize(
    ("gradient", "held"),
    [
        ([0.0, 0.0], "only zeros"),
        ([0.0, 2.0], "a gradient"),
        ([0.0, math.nan], "a gradient with NaN in it"),
    ],
)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_what_a_filled_grad_holds_is_read(
    gradient: list[float], held: str, *, is_sparse: bool
) -> None:
    x = leaf(2)
    x.grad = torch.tensor(gradient)
    if is_sparse:
        x.grad = x.grad.to_sparse()
    told = explain_grad(x, x.sum()).because
    assert told == f"Its .grad holds {held}, from a backward or set by hand."
    assert x.grad._version == 0
