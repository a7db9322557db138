"""Traces of a forward pass that raised."""

import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
import torch
from torch import Tensor, nn

from leafgrad import record, trace_graph
from tests.messages import exactly
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
    """Return a model whose third block raises a shape error."""
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


def test_trace_of_error_is_graph_of_last_results() -> None:
    model = network()
    trace = trace_graph(failed(model), names=model)
    until = model[:2](torch.ones(2, 4))
    whole = trace_graph(nn.Tanh()(model.get_submodule("2.one")(until).sin()), names=model)
    assert [node.name for node in trace.nodes] == [node.name for node in whole.nodes]
    assert [node.name for node in trace.roots] == ["TanhBackward0"]
    assert {leaf.leaf_name for leaf in trace.leaves} == {leaf.leaf_name for leaf in whole.leaves}


def test_failure_names_module_and_line() -> None:
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


def test_text_and_picture_show_failure() -> None:
    trace = trace_graph(failed())
    assert "\nstopped in module 2.other.1 (Linear), at " in str(trace)
    assert "stopped in module 2.other.1" in trace.to_svg()


def test_recording_knows_modules_and_lines_of_failed_forward() -> None:
    model = network()
    with pytest.raises(RuntimeError) as raised, record() as recording:
        model(torch.ones(2, 4))
    trace = trace_graph(raised.value, recording=recording)
    assert trace.roots[0].module == "2.other.0"
    assert trace.roots[0].source is not None


@pytest.mark.parametrize(("name", "module"), [("net", "net.2.other.1"), ("another", "2.other.1")])
def test_failure_path_starts_with_name_of_model(name: str, module: str) -> None:
    model = network()
    named = model if name == "net" else nn.Linear(2, 2)
    failure = trace_graph(failed(model), names={name: named}).failure
    assert failure is not None
    assert failure.module == module


def test_failed_outermost_module_has_empty_path() -> None:
    class Alone(nn.Module):
        def forward(self, x: Tensor) -> Any:
            h = x.sin()
            raise ValueError(h.shape)

    trace = trace_graph(error_of(lambda: Alone()(leaf(2))))
    assert trace.failure is not None
    assert (trace.failure.module, trace.failure.class_name) == ("", "Alone")
    assert "\nstopped in module (Alone), at " in str(trace)


def test_tensors_around_outermost_module_are_left_out() -> None:
    def train() -> None:
        x = leaf(2, 4)
        earlier = x.exp()
        network()(torch.ones(2, 4))
        assert earlier is not None

    assert "ExpBackward0" not in str(trace_graph(error_of(train)))


def test_failed_function_without_module_is_traced() -> None:
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
def test_cause_and_context_of_error_are_searched(*, cause: bool) -> None:
    trace = trace_graph(again(failed(), cause=cause))
    assert [node.name for node in trace.roots] == ["TanhBackward0"]
    assert trace.failure is not None
    assert (trace.failure.error, trace.failure.module) == ("LookupError", "2.other.1")


def test_circular_causes_end() -> None:
    error, other = failed(), LookupError()
    error.__cause__, other.__cause__ = other, error
    assert len(trace_graph(error).roots) == 1


def test_failure_shows_first_line_of_message() -> None:
    def compute() -> None:
        h = leaf(2).sin()
        raise RuntimeError(f"\n  one {h.numel()}\n  two")

    failure = trace_graph(error_of(compute)).failure
    assert failure is not None
    assert failure.error == "RuntimeError: one 2"


def without_graph() -> BaseException:
    with torch.no_grad():
        return failed()


def raised_in_script() -> BaseException:
    return error_of(lambda: exec("h = x.sin()\nraise ValueError", {"x": leaf(2)}))


@pytest.mark.parametrize(
    "make",
    [
        without_graph,
        raised_in_script,
        lambda: ValueError("never raised"),
        lambda: error_of(lambda: int("x")),
        lambda: again(failed(), cause=False, hide=True),
    ],
    ids=["no_grad", "script", "never raised", "no tensor", "hides another error"],
)
def test_error_without_results_is_refused(make: Callable[[], BaseException]) -> None:
    error = make()
    with pytest.raises(ValueError, match=exactly("errors.trace.failed", type=type(error).__name__)):
        trace_graph(error)


def test_failure_survives_pickle() -> None:
    trace = trace_graph(failed(), names=network())
    assert pickle.loads(pickle.dumps(trace)) == trace


# --- No tensor is kept alive


def test_trace_and_recording_of_error_keep_no_tensor() -> None:
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
