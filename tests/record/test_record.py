"""Where nodes come from, as a recording saw it."""

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import leafgrad
from leafgrad import GraphTrace, Recording, diagnose, laplacian, record, trace_graph
from leafgrad.types import TracedNode
from tests.apart import RunApart
from tests.messages import exactly
from tests.tensors import leaf

LINES = Path(__file__).read_text("utf-8").splitlines()


def line_of(node: TracedNode) -> str | None:
    return None if node.source is None else LINES[node.source.line - 1].strip()


def lines_of(trace: GraphTrace) -> dict[str, str | None]:
    """Return the text of the line that created each node, by the short name of the operation."""
    return {
        node.name.removesuffix("Backward0"): line_of(node)
        for node in trace.nodes
        if not node.is_leaf
    }


def modules_of(trace: GraphTrace) -> list[tuple[str, str | None]]:
    return [(n.name.removesuffix("Backward0"), n.module) for n in trace.nodes if not n.is_leaf]


# --- Lines


def test_node_has_line_and_function_that_created_it() -> None:
    x = leaf(2)
    with record() as recording:
        a = x.sin()
        b = a + a.cos()
    trace = trace_graph(b, recording=recording)
    assert lines_of(trace) == {
        "Add": "b = a + a.cos()",
        "Cos": "b = a + a.cos()",
        "Sin": "a = x.sin()",
    }
    source = trace.nodes[0].source
    assert source is not None
    assert source.file == __file__
    assert source.function == test_node_has_line_and_function_that_created_it.__name__
    assert str(source) == f"tests/record/test_record.py:{source.line} in {source.function}"


def test_all_nodes_of_one_operation_share_its_line() -> None:
    x = leaf(3, 3)
    with record() as recording:
        y = torch.einsum("ij,jk->ik", x, x)
    trace = trace_graph(y, recording=recording)
    assert len(trace.nodes) > 3
    assert set(lines_of(trace).values()) == {'y = torch.einsum("ij,jk->ik", x, x)'}


def test_nodes_created_outside_recording_have_no_line() -> None:
    x = leaf(2).exp()
    with record() as recording:
        y = x.sin()
    z = y.cos()
    assert lines_of(trace_graph(z, recording=recording)) == {
        "Cos": None,
        "Sin": "y = x.sin()",
        "Exp": None,
    }


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return helper(x)

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


def helper(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


class Silent(torch.autograd.Function):
    """Calls no function of PyTorch."""

    made = torch.ones(2)

    @staticmethod
    def forward(_: Any, __: torch.Tensor) -> torch.Tensor:
        return Silent.made

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return gradients[0]


def test_custom_function_has_line_of_its_call_if_it_runs_operations() -> None:
    x = leaf(2)
    functions: Any = Doubled.apply, Silent.apply
    doubled, silent = functions
    with record() as recording:
        a = x.sin()
        b = doubled(a)
        c = silent(b)
        d = c.cos()
    lines = lines_of(trace_graph(d, recording=recording))
    assert lines["DoubledBackward"] == "b = doubled(a)"
    assert lines["SilentBackward"] is None
    assert (lines["Sin"], lines["Cos"]) == ("a = x.sin()", "d = c.cos()")


def test_code_without_file_has_a_source() -> None:
    namespace: dict[str, Any] = {"x": leaf(2)}
    with record() as recording:
        exec("y = x.sin()", namespace)
    source = trace_graph(namespace["y"], recording=recording).nodes[0].source
    assert (str(source), recording.sources) == ("<string>:1 in <module>", (source,))


def test_equal_code_in_two_files_has_two_sources() -> None:
    with record() as recording:
        for file in ("one.py", "two.py"):
            exec(compile("y = x.sin()", file, "exec"), {"x": leaf(2)})
    assert [source.file for source in recording.sources] == ["one.py", "two.py"]


# --- Modules


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        y = y + self.inner(y)
        y = nn.Sigmoid()(y)
        result: torch.Tensor = y.cos()
        return result


def test_node_has_its_module_between_and_after_inner_calls() -> None:
    x = leaf(1, 2)
    with record() as recording:
        y = Block()(x.exp()).tan()
    assert modules_of(trace_graph(y, recording=recording)) == [
        ("Tan", None),
        ("Cos", ""),
        ("Sigmoid", "Sigmoid"),
        ("Add", ""),
        ("Tanh", "inner.1"),
        ("Addmm", "inner.0"),
        ("Sin", ""),
        ("Exp", None),
        ("T", "inner.0"),
    ]
    assert recording.modules == ("", "inner", "inner.0", "inner.1", "Sigmoid")


class Failing(nn.Module):
    def forward(self, _: torch.Tensor) -> torch.Tensor:
        raise ValueError("on purpose")


class Catching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.failing = Failing()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            self.failing(x)
        except ValueError:
            return x.sin()
        raise AssertionError


def refuse(module: nn.Module, _: Any) -> None:
    if isinstance(module, Failing):
        raise ValueError("not this one")  # noqa: TRY004 (what the module raises itself)


@pytest.mark.parametrize("hooks", [[], [refuse]], ids=["module", "pre-hook"])
def test_module_path_is_right_after_module_or_pre_hook_raises(hooks: list[Any]) -> None:
    handles = [register_module_forward_pre_hook(hook) for hook in hooks]
    with record() as recording:
        y = Catching()(leaf(2)).cos()
    for handle in handles:
        handle.remove()
    assert modules_of(trace_graph(y, recording=recording)) == [("Cos", None), ("Sin", "")]


# --- Writes


def test_write_has_its_line_and_whether_it_went_through_a_view() -> None:
    h = leaf(2, 2) * 1
    with record() as recording:
        y = h.sin()
        h[0].add_(1)
        h.mul_(2)
    trace = trace_graph(y, recording=recording)
    saved = trace.saved[0]
    assert (saved.saved_version, saved.current_version) == (0, 2)
    assert [(write.operation, write.through_view) for write in saved.writes] == [
        ("add_", True),
        ("mul_", False),
    ]
    sources = [write.source for write in saved.writes]
    assert [LINES[source.line - 1].strip() for source in sources if source] == [
        "h[0].add_(1)",
        "h.mul_(2)",
    ]
    assert recording.writes == saved.writes


@pytest.mark.parametrize(
    ("write", "operation"),
    [
        (lambda h: h.add_(1), "add_"),
        (lambda h: h.__setitem__(0, 1.0), "__setitem__"),
        (lambda h: h.__iadd__(1), "add_"),
        (lambda h: torch.exp(torch.ones(2), out=h), "exp"),
        (lambda h: torch._foreach_add_([h], 1), "_foreach_add_"),
        (lambda h: nn.functional.relu(h, inplace=True), "relu"),
        (lambda h: nn.functional.dropout(h, 0.5, True, True), "dropout"),
        (lambda h: torch.ops.aten.mul_(h, 2), "mul_"),
        (lambda h: nn.functional.embedding(torch.tensor(0), h[None], max_norm=1), "embedding"),
        (nn.init.zeros_, "zero_"),
    ],
    ids=[
        "method", "item", "operator", "out", "foreach", "inplace", "inplace by place",
        "operator of the dispatcher", "norm kept", "initialisation",
    ],
)  # fmt: skip
def test_every_form_of_in_place_write_is_recorded(write: Any, operation: str) -> None:
    h = torch.ones(2)
    with record() as recording, torch.no_grad():
        write(h)
    assert {seen.operation.startswith(operation) for seen in recording.writes} == {True}


def test_write_into_inference_tensor_is_not_recorded() -> None:
    with torch.inference_mode(), record() as recording:
        torch.ones(2).add_(1)
    assert recording.writes == ()


# --- No side effects


def test_exception_ends_recording_and_leaves_no_hook() -> None:
    def hooks() -> tuple[int, int]:
        module = torch.nn.modules.module
        return len(module._global_forward_hooks), len(module._global_forward_pre_hooks)

    before = hooks()
    with pytest.raises(ValueError, match="on purpose"), record() as recording:
        Failing()(leaf(2).sin())
    assert hooks() == before
    assert torch.overrides._get_current_function_mode_stack() == []
    assert len(recording.sources) == 1


def test_recording_above_limit_drops_calls_and_cannot_be_used() -> None:
    model, x = nn.Sequential(nn.Linear(2, 2), nn.Tanh()), torch.ones(1, 2)
    with record() as recording:
        recording.log.max_entries = 100
        for _ in range(60):
            y = model(x).sum()
    assert len(recording._log.tape.calls) + len(recording._log.modules) < 200
    for ask in (trace_graph, diagnose):
        with pytest.raises(RuntimeError, match=exactly("errors.record.full", most=100)):
            ask(y, recording=recording)
    with pytest.raises(RuntimeError, match="record a few steps"):
        recording.sources  # noqa: B018


def test_nested_recordings_both_record() -> None:
    x = leaf(2)
    with record() as outer:
        a = x.sin()
        with record() as inner:
            b = a.cos()
            b.mul_(2)
        c = b.exp()
    assert lines_of(trace_graph(c, recording=outer)) == {
        "Exp": "c = b.exp()",
        "Mul": "b.mul_(2)",
        "Cos": "b = a.cos()",
        "Sin": "a = x.sin()",
    }
    assert lines_of(trace_graph(c, recording=inner))["Sin"] is None
    assert len(outer.writes) == len(inner.writes) == 1


def test_each_thread_has_its_own_recording() -> None:
    barrier, traces = threading.Barrier(2), {}

    def work(name: str) -> None:
        with record() as recording:
            barrier.wait()
            module = nn.Sequential(nn.Tanh() if name == "one" else nn.Sigmoid())
            y = module(leaf(2))
            barrier.wait()
        traces[name] = trace_graph(y, recording=recording), recording

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, kind in (("one", "Tanh"), ("two", "Sigmoid")):
        trace, recording = traces[name]
        assert modules_of(trace) == [(kind, "0")]
        assert (len(recording.sources), recording.modules) == (1, ("", "0"))


class Counting(TorchFunctionMode):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_surrounding_mode_sees_the_same_calls_during_a_recording() -> None:
    def work() -> None:
        x = torch.ones(2)
        x.add_(1)
        nn.functional.relu(x, inplace=True)

    with Counting() as plain:
        work()
    with Counting() as counting, record():
        work()
    assert counting.calls == plain.calls


def test_recording_changes_no_value_gradient_or_random_number() -> None:
    def run() -> tuple[torch.Tensor, torch.Tensor | None]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Tanh())
        y = model(torch.ones(2, 4)).sum()
        y.backward()
        return y, next(model.parameters()).grad

    plain = run()
    with record():
        recorded = run()
    assert torch.equal(plain[0], recorded[0])
    assert plain[1] is not None
    assert recorded[1] is not None
    assert torch.equal(plain[1], recorded[1])


def test_recording_keeps_no_tensor_node_or_module_alive() -> None:
    model, x = nn.Sequential(nn.Linear(2, 2), nn.Tanh()), leaf(1, 2)
    with record() as recording:
        y = model(x)
        y.mul_(2)
    references: list[Any] = [weakref.ref(thing) for thing in (model, x, y, y.untyped_storage())]
    del model, x, y
    gc.collect()
    assert [reference() for reference in references] == [None] * 4
    assert recording.modules == ("", "0", "1")


def test_checkpointed_block_is_recorded_when_it_is_rerun() -> None:
    block = nn.Sequential(nn.Tanh())
    with record() as recording:
        y = checkpoint(block, leaf(2), use_reentrant=False)
        y.sum().backward()
    assert modules_of(trace_graph(y, recording=recording)) == [("Tanh", "0")]


def test_compiled_module_runs_eagerly_while_recording() -> None:
    compiled: Any = nn.Sequential(nn.Tanh())
    compiled.compile(backend="eager")
    x = leaf(2)
    plain = compiled(x)
    with record() as recording:
        y = compiled(x)
    trace = trace_graph(y, recording=recording)
    assert modules_of(trace) == [("Tanh", "0")]
    assert lines_of(trace) == {"Tanh": "y = compiled(x)"}
    assert torch.equal(y, plain)
    assert torch.equal(compiled(x), plain)


def test_compiled_code_is_used_again_after_interleaved_recordings() -> None:
    compiled = torch.compile(lambda x: x.sin().cos(), backend="aot_eager")
    first, second = record(), record()
    first.__enter__()
    second.__enter__()
    inside = compiled(leaf(2))
    with ExitStack() as ends:
        ends.push(first)
        ends.push(second)
    after = compiled(leaf(2))
    assert trace_graph(inside).nodes[0].name == "CosBackward0"
    assert trace_graph(after).nodes[0].name == "CompiledFunctionBackward"


# --- The recording itself


@contextmanager
def entered(times: int) -> Iterator[Recording]:
    with ExitStack() as stack:
        yield [stack.enter_context(record()) for _ in range(times)][-1]


def test_context_manager_is_refused_instead_of_a_recording() -> None:
    wrong: Any = record()
    with pytest.raises(TypeError, match=r"^recording must be what record\(\) gave, not _Gen"):
        trace_graph(leaf(2).sin(), recording=wrong)


def test_source_is_never_a_line_of_leafgrad() -> None:
    x, network = leaf(4, 2), nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    with record() as recording:
        laplacian(network(x), x)
    library = Path(leafgrad.__file__).parent
    assert recording.sources
    assert not [one for one in recording.sources if library in Path(one.file).parents]


WITHOUT_THE_COMPILER = """
import sys, torch
from leafgrad import record
with record() as recording:
    torch.ones(2, requires_grad=True).sin()
print(len(recording.sources), "torch._dynamo" in sys.modules)
"""


def test_recording_does_not_import_the_compiler(run_apart: RunApart) -> None:
    run = run_apart(WITHOUT_THE_COMPILER)
    assert (run.returncode, run.stdout, run.stderr) == (0, "1 False\n", "")


def test_optimizer_step_is_one_write_at_its_calling_line() -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([weight], weight_decay=0.1)
    weight.square().sum().backward()
    with record() as recording:
        optimizer.step()
        (write,) = recording.writes
    assert write.source is not None
    assert LINES[write.source.line - 1].strip() == "optimizer.step()"
    assert (write.within, write.version_after) == ("Adam.step", weight._version)


def test_writes_after_failed_optimizer_step_are_recorded() -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([weight])
    weight.grad, optimizer.param_groups[0]["lr"] = torch.ones(2), None
    with record() as recording:
        with pytest.raises(TypeError):
            optimizer.step()
        with torch.no_grad():
            weight.mul_(2)
    assert [(one.operation, one.within) for one in recording.writes] == [("mul_", None)]
