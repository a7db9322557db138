"""Saved tensors, storages and custom functions in a trace."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from leafgrad import GraphTrace, trace_graph
from leafgrad.types import SavedTensor
from tests.tensors import Doubled, leaf


def states(trace: GraphTrace) -> dict[str, str]:
    return {saved.name: saved.state for saved in trace.saved}


def only(trace: GraphTrace) -> SavedTensor:
    (saved,) = trace.saved
    return saved


def refuse(*_: object) -> Any:
    raise AssertionError("a hook was called")


# --- What a node saved


def test_saved_tensor_has_shape_dtype_device_bytes_and_versions() -> None:
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    assert only(trace_graph(x.sin())) == SavedTensor(
        node=0,
        name="self",
        state="live",
        shape=(2, 3),
        dtype=torch.float64,
        device=torch.device("cpu"),
        nbytes=48,
        storage=0,
        is_parameter=False,
        saved_version=0,
        current_version=0,
    )


def test_freed_saved_tensor_has_its_state_only() -> None:
    y = leaf(2).sin()
    y.sum().backward()
    assert only(trace_graph(y)) == SavedTensor(node=0, name="self", state="freed")


def test_graph_without_saved_tensors_is_never_freed() -> None:
    x = leaf(2)
    y = (x + x.sum()).sum()
    for _ in range(2):
        y.backward()
        assert not trace_graph(y).is_freed


def test_packed_tensor_shows_memory_of_its_one_tensor() -> None:
    def halved(pack: Callable[[torch.Tensor], object]) -> SavedTensor:
        with torch.autograd.graph.saved_tensors_hooks(pack, refuse):
            y = leaf(4).exp()
        return only(trace_graph(y))

    alone, noted = halved(lambda t: t.half()), halved(lambda t: (t.half(), "was float32"))
    assert (alone.nbytes, alone.storage, alone.shape, alone.dtype) == (8, 0, None, None)
    assert alone == noted
    assert halved(lambda t: [t.half(), t.half()]).nbytes is None


def test_offloaded_tensor_shows_its_copy() -> None:
    with torch.autograd.graph.save_on_cpu():
        y = leaf(2).exp()
    saved = only(trace_graph(y))
    assert (saved.state, saved.shape, saved.nbytes) == ("offloaded", (2,), 8)
    assert saved.device == torch.device("cpu")
    y.sum().backward()
    assert states(trace_graph(y)) == {"result": "freed"}


@pytest.mark.parametrize(
    ("use_reentrant", "nodes", "saved"),
    [
        (False, ["ExpBackward0", "SinBackward0"], {"result": "recompute", "self": "recompute"}),
        (True, ["CheckpointFunctionBackward"], {"saved_tensors[0]": "live"}),
    ],
    ids=["not reentrant", "reentrant"],
)
def test_trace_does_not_rerun_checkpointed_block(
    *, use_reentrant: bool, nodes: list[str], saved: dict[str, str]
) -> None:
    runs: list[None] = []

    def block(x: torch.Tensor) -> torch.Tensor:
        runs.append(None)
        return x.sin().exp()

    y = checkpoint(block, leaf(2), use_reentrant=use_reentrant, preserve_rng_state=False)
    trace = trace_graph(y)
    assert len(runs) == 1
    assert [node.name for node in trace.nodes] == [*nodes, "AccumulateGrad"]
    computed = {n: state for n, state in states(trace).items() if not n.startswith("checkpoint.")}
    assert computed == saved


def test_tensor_written_in_place_is_modified() -> None:
    h = leaf(2) * 1
    y = h.sin() + h.cos()
    h.add_(1)
    late = trace_graph([y, h.exp()])
    assert [s.is_modified for s in late.saved if s.name == "self"] == [True, True]
    assert [s.is_modified for s in late.saved if s.name == "result"] == [False]
    assert [(s.saved_version, s.current_version) for s in late.saved if s.is_modified] == [
        (0, 1)
    ] * 2
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
        y.sum().backward()


# --- Storages


def test_tensors_of_one_storage_share_its_number_and_bytes() -> None:
    x = leaf(4)
    halves = x.sin().split(2)
    trace = trace_graph(halves[0] * halves[1])
    assert {(saved.name, saved.storage, saved.nbytes) for saved in trace.saved} == {
        ("other", 0, 16),
        ("self", 0, 16),
        ("self", 1, 16),
    }


def parameters_saved(module: nn.Module, names: nn.Module | None = None) -> set[str]:
    trace = trace_graph(module(leaf(1, 2)), names=names)
    return {saved.name for saved in trace.saved if saved.is_parameter}


def test_saved_view_of_parameter_is_a_parameter() -> None:
    linear = nn.Linear(2, 2)
    assert parameters_saved(linear) == {"mat2"}
    assert parameters_saved(linear.requires_grad_(requires_grad=False)) == {"mat2"}


class Detached(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight.detach()) + (x * self.weight).sum()


def test_saved_alias_of_parameter_in_graph_or_names_is_a_parameter() -> None:
    module = Detached(2, 2)
    assert parameters_saved(module) == {"mat2", "other"}
    module.requires_grad_(requires_grad=False)
    assert parameters_saved(module) == {"other"}
    assert parameters_saved(module, names=module) == {"mat2", "other"}


def test_sparse_tensor_beside_sparse_parameter_is_not_a_parameter() -> None:
    sparse = nn.Parameter(torch.eye(2).to_sparse())
    saved = trace_graph(sparse.sin() * torch.eye(2).to_sparse(), names={"p": sparse}).saved
    told = {(one.name, one.storage, one.is_parameter) for one in saved if one.shape == (2, 2)}
    assert ("self", None, True) in told
    assert ("other", None, False) in told


# --- Custom functions


class Separate(torch.autograd.Function):
    """A custom function with setup_context."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def setup_context(ctx: Any, _: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


class Unwritten(Separate):
    """A custom function whose forward has no code object."""

    forward = staticmethod(functools.partial(Separate.forward))


def trace_of(function: Any) -> GraphTrace:
    return trace_graph(function.apply(leaf(2)))


def test_custom_function_has_name_file_and_line() -> None:
    found = trace_of(Separate).nodes[0].custom_function
    assert found is not None
    assert (found.name, found.file) == (f"{__name__}.Separate", __file__)
    assert found.line == Separate.forward.__code__.co_firstlineno
    assert trace_of(Separate).nodes[1].custom_function is None


def test_custom_function_without_code_has_its_name() -> None:
    found = trace_of(Unwritten).nodes[0].custom_function
    assert found is not None
    assert (found.name, found.file, found.line) == (f"{__name__}.Unwritten", None, None)


def test_custom_function_shows_tensors_saved_and_on_ctx() -> None:
    assert states(trace_of(Doubled)) == {"saved_tensors[0]": "live", "ctx.mask": "live"}
    assert states(trace_of(Separate)) == {"saved_tensors[0]": "live"}
    mask = trace_of(Doubled).saved[1]
    assert (mask.dtype, mask.saved_version, mask.is_modified) == (torch.bool, None, False)
    assert [saved.is_on_ctx for saved in trace_of(Doubled).saved] == [False, True]


# --- Retained gradients


def test_retains_grad_is_known_only_for_outputs_leaves_and_named_tensors() -> None:
    x = leaf(2)
    h = x.sin()
    h.retain_grad()
    y = h.exp()
    unnamed = [node.retains_grad for node in trace_graph(y).nodes]
    named = [node.retains_grad for node in trace_graph(y, names={"h": h}).nodes]
    assert unnamed == [False, None, False]
    assert named == [False, True, False]
