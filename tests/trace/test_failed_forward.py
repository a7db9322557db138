"""The graph of what a forward had computed when it raised."""

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
import torch
from torch import Tensor, nn

from leafgrad import ForwardFailure, GraphTrace, record, trace_graph
from tests.tensors import leaf


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.other = nn.Sequential(nn.Tanh(), nn.Linear(width, 4))

    def forward(self, x: Tensor) -> Tensor:
        kept = self.one(x).sin()
        result: Tensor = x + self.other(kept)
        return result


def network() -> nn.Sequential:
    """A model, the third block of which takes what is one too wide."""
    return nn.Sequential(*[Block(width) for width in (4, 4, 5, 4)])


def error_of(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - an interrupt is one
        return error
    raise AssertionError("it must raise")


def failed(model: nn.Module | None = None) -> BaseException:
    model = model or network()
    return error_of(lambda: model(torch.ones(2, 4)))


def test_it_is_the_graph_of_what_came_last() -> None:
    model = network()
    trace = trace_graph(failed(model), names=model)
    until = model[:2](torch.ones(2, 4))
    whole = trace_graph(nn.Tanh()(model.get_submodule("2.one")(until).sin()), names=model)
    assert [node.name for node in trace.nodes] == [node.name for node in whole.nodes]
    assert [node.name for node in trace.roots] == ["TanhBackward0"]
    assert {leaf.leaf_name for leaf in trace.leaves} == {leaf.leaf_name for leaf in whole.leaves}


def test_it_names_the_module_and_the_line_where_it_stopped() -> None:
    model = network()
    failure = trace_graph(failed(model), names=model).failure
    assert failure is not None
    assert (failure.module, failure.class_name) == ("2.other.1", "Linear")
    assert failure.error.startswith("RuntimeError: ")
    assert "mat1 and mat2 shapes cannot be multiplied" in failure.error
    assert failure.source is not None
    assert failure.source.file == __file__
    lines = Path(__file__).read_text("utf-8").splitlines()
    assert "self.other(kept)" in lines[failure.source.line - 1]
    assert str(failure) == (
        f"stopped in module 2.other.1 (Linear), at {failure.source}: {failure.error}"
    )


def test_text_and_picture_say_where_it_stopped() -> None:
    trace = trace_graph(failed())
    assert "\nstopped in module 2.other.1 (Linear), at " in str(trace)
    assert "stopped in module 2.other.1" in trace.to_svg()


def test_a_recording_knows_the_modules_and_lines_of_what_had_been_computed() -> None:
    model = network()
    with pytest.raises(RuntimeError) as raised, record() as recording:
        model(torch.ones(2, 4))
    trace = trace_graph(raised.value, recording=recording)
    assert trace.roots[0].module == "2.other.0"
    assert trace.roots[0].source is not None


def test_names_say_where_the_outermost_module_stands() -> None:
    model = network()
    failure = trace_graph(failed(model), names={"net": model}).failure
    assert failure is not None
    assert failure.module == "net.2.other.1"


def test_what_is_not_in_the_names_has_its_path_in_the_outermost_module() -> None:
    failure = trace_graph(failed(), names={"another": nn.Linear(2, 2)}).failure
    assert failure is not None
    assert failure.module == "2.other.1"


def test_a_module_that_is_in_no_other_has_the_name_of_its_class() -> None:
    inner = nn.Linear(3, 3)

    class Outer(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return inner(x.sin())

    failure = trace_graph(error_of(lambda: Outer()(leaf(2, 4)))).failure
    assert failure is not None
    assert failure.module == "Linear"


def test_the_outermost_module_has_an_empty_path() -> None:
    class Alone(nn.Module):
        def forward(self, x: Tensor) -> Any:
            h = x.sin()
            raise ValueError(h.shape)

    trace = trace_graph(error_of(lambda: Alone()(leaf(2))))
    assert trace.failure is not None
    assert (trace.failure.module, trace.failure.class_name) == ("", "Alone")
    assert "\nstopped in module (Alone), at " in str(trace)


def test_what_stands_around_the_outermost_module_is_left_out() -> None:
    def train() -> None:
        x = leaf(2, 4)
        earlier = x.exp()
        network()(torch.ones(2, 4))
        assert earlier is not None

    assert "ExpBackward0" not in str(trace_graph(error_of(train)))


def test_where_no_module_ran_a_function_is_enough() -> None:
    def compute() -> None:
        x = leaf(2)
        made, named = [x.exp(), "no tensor"], {"cosine": x.cos()}
        raise ValueError(len(made) + len(named))

    trace = trace_graph(error_of(compute))
    assert {node.name for node in trace.roots} == {"ExpBackward0", "CosBackward0"}
    assert trace.failure is not None
    assert (trace.failure.module, trace.failure.class_name) == (None, None)
    assert str(trace.failure).startswith("stopped at tests/trace/test_failed_forward.py:")


def again(error: BaseException, *, cause: bool, hide: bool = False) -> BaseException:
    def raising() -> None:
        try:
            raise error
        except RuntimeError as caught:
            if cause:
                raise LookupError from caught
            if hide:
                raise LookupError from None
            raise LookupError  # noqa: B904 - it is the context that is asked about

    return error_of(raising)


@pytest.mark.parametrize("cause", [True, False])
def test_an_error_behind_an_error_is_looked_through(*, cause: bool) -> None:
    trace = trace_graph(again(failed(), cause=cause))
    assert [node.name for node in trace.roots] == ["TanhBackward0"]
    assert trace.failure is not None
    assert (trace.failure.error, trace.failure.module) == ("LookupError", "2.other.1")


def test_an_error_that_hides_another_one_keeps_it_hidden() -> None:
    with pytest.raises(ValueError, match=r"^outputs must be results, or an exception that came"):
        trace_graph(again(failed(), cause=False, hide=True))


def test_errors_behind_each_other_in_a_circle_have_an_end() -> None:
    error, other = failed(), LookupError()
    error.__cause__, other.__cause__ = other, error
    assert len(trace_graph(error).roots) == 1


def test_an_interrupt_is_an_error_as_well() -> None:
    class Slow(nn.Module):
        def forward(self, x: Tensor) -> Any:
            h = x.sin()
            raise KeyboardInterrupt(h.numel(), "\n")

    trace = trace_graph(error_of(lambda: Slow()(leaf(2))))
    assert trace.failure is not None
    assert trace.failure.error.startswith("KeyboardInterrupt: (2, ")


def test_of_a_long_message_the_first_line_is_told() -> None:
    def compute() -> None:
        h = leaf(2).sin()
        raise RuntimeError(f"\n  one {h.numel()}\n  two")

    failure = trace_graph(error_of(compute)).failure
    assert failure is not None
    assert failure.error == "RuntimeError: one 2"


def without_graph() -> BaseException:
    with torch.no_grad():
        return failed()


@pytest.mark.parametrize(
    "make",
    [without_graph, lambda: ValueError("never raised"), lambda: error_of(lambda: int("x"))],
    ids=["no_grad", "never raised", "no tensor"],
)
def test_an_error_that_held_no_result_is_refused(make: Callable[[], BaseException]) -> None:
    with pytest.raises(ValueError, match=r"not a \w+ that did not; pass the tensors that are at h"):
        trace_graph(make())


def test_the_variables_of_a_script_are_left_alone() -> None:
    script = "h = x.sin()\nraise ValueError"
    error = error_of(lambda: exec(script, {"x": leaf(2)}))
    with pytest.raises(ValueError, match=r"^outputs must be results"):
        trace_graph(error)


def test_a_place_without_a_line_reads_as_well() -> None:
    failure = ForwardFailure(error="E: no", module="a.b", class_name="B", source=None)
    assert str(failure) == "stopped in module a.b (B): E: no"


def test_it_goes_into_json_and_back() -> None:
    trace = trace_graph(failed(), names=network())
    assert GraphTrace.from_json(trace.to_json()) == trace
    assert isinstance(GraphTrace.from_json(trace.to_json()).failure, ForwardFailure)
    older = json.loads(trace.to_json())
    del older["failure"]
    assert GraphTrace.from_json(json.dumps(older)).failure is None


# --- It keeps nothing


def test_neither_trace_nor_recording_keep_what_the_error_held() -> None:
    alive: list[ref[Tensor]] = []

    class Watched(nn.Module):
        def forward(self, x: Tensor) -> Any:
            h = x.sin()
            alive.append(ref(h))
            raise ValueError

    with record(values=True) as recording:
        error = error_of(lambda: Watched()(leaf(2)))
    gc.collect()
    gc.disable()
    try:
        trace = trace_graph(error, recording=recording, values=True)
        assert alive[0]() is not None
        del error
        assert alive[0]() is None, "a cycle keeps it until the garbage is collected"
    finally:
        gc.enable()
    assert trace.failure is not None


def test_a_function_that_still_runs_is_not_made_to_keep_its_variables() -> None:
    h = leaf(2).exp()
    alive = ref(h)
    try:
        network()(torch.ones(2, 4) * h.sum())
    except RuntimeError as error:
        trace_graph(error)
    del h
    gc.collect()
    assert alive() is None


def test_nothing_is_changed_by_the_look() -> None:
    error = failed()
    first = trace_graph(error)
    assert trace_graph(error) == first
