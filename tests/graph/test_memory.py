"""What a graph keeps alive, to the byte."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from leafgrad import preflight, record, trace_graph
from leafgrad._autograd import saved_slots
from leafgrad.types import GraphMemory, MemoryShare, SavedTensor
from tests.apart import RunApart
from tests.tensors import leaf


def memory(outputs: Any, names: Any = None) -> GraphMemory:
    return trace_graph(outputs, names=names).memory


def by_name(shares: tuple[MemoryShare, ...]) -> dict[str, int]:
    return {share.name: share.bytes_without_parameters for share in shares}


# --- The sums


def prose(kept: GraphMemory) -> str:
    return " ".join(str(kept).split())


def test_a_storage_counts_once_however_many_slots_share_it() -> None:
    x = leaf(4)
    total = memory(x * x).total
    assert (total.slots, total.tensor_bytes, total.storage_bytes) == (2, 32, 16)


def test_views_count_with_their_own_size_as_tensors_and_with_the_whole_storage_as_memory() -> None:
    first, second = leaf(4).sin().split(2)
    kept = memory(first * second)
    assert (kept.total.tensor_bytes, kept.total.storage_bytes) == (8 + 8 + 16, 16 + 16)
    assert kept.total.storages == 2


def test_what_lives_in_parameters_is_told_from_what_does_not() -> None:
    linear = nn.Linear(4, 8, bias=False)
    kept = memory(linear(leaf(2, 4)))
    assert kept.total.storage_bytes == 4 * (4 * 8 + 2 * 4)
    assert kept.total.bytes_without_parameters == 4 * 2 * 4


def test_a_graph_that_keeps_nothing_adds_up_to_nothing() -> None:
    kept = memory(leaf(2) + leaf(2))
    assert (kept.node_count, kept.total.slots, kept.total.storage_bytes) == (3, 0, 0)
    assert (kept.kinds, kept.total.storages, kept.states) == ((), 0, ())


def test_a_ragged_tensor_counts_with_the_storage_as_its_sizes_are_not_known() -> None:
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    assert memory(x.sin()).total.tensor_bytes == memory(x.sin()).total.storage_bytes


# --- Tensors that wrap others


class Wrapper(torch.Tensor):
    """A tensor that claims twice the memory of what it wraps, and does not tell what that is."""

    parts: dict[str, torch.Tensor]

    @classmethod
    def around(cls, **parts: torch.Tensor) -> Any:
        first = next(iter(parts.values()))
        shape = 2 * len(first), *first.shape[1:]
        wrapper: Any = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=first.dtype)
        wrapper.parts = parts
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        opened = {
            name: [arg.parts[name] if isinstance(arg, Wrapper) else arg for arg in args]
            for name in args[0].parts
        }
        results = {name: func(*inside, **(kwargs or {})) for name, inside in opened.items()}
        args[0].parts = {name: inside[0] for name, inside in opened.items()}
        return args[0] if func is torch.ops.aten.mul_.Tensor else cls.around(**results)


class Telling(Wrapper):
    """One that tells, and something else besides."""

    def __getattr__(self, name: str) -> Any:
        if name in self.parts:
            return self.parts[name]
        raise AttributeError(name)

    mesh = "no tensor"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return [*self.parts, "mesh"], None

    @staticmethod
    def __tensor_unflatten__(*_: object) -> None:
        raise AssertionError


def facts(saved: SavedTensor) -> tuple[object, ...]:
    return saved.name, saved.shape, saved.nbytes, saved.is_parameter


def test_what_a_tensor_wraps_counts_and_not_what_it_claims() -> None:
    outer = Telling.around(wrapped=Telling.around(local=torch.ones(2, 3)), scale=torch.ones(5))
    kept = memory(outer.requires_grad_().sin())
    assert (kept.total.storage_bytes, kept.total.tensor_bytes, kept.total.hidden) == (44, 44, 0)
    saved = trace_graph(outer.sin()).saved
    assert [facts(one) for one in saved] == [
        ("self", (8, 3), 0, False),
        ("self.scale", (5,), 20, False),
        ("self.wrapped.local", (2, 3), 24, False),
    ]


def test_what_a_parameter_wraps_is_a_parameters_too() -> None:
    weight: Any = nn.Parameter(Telling.around(local=torch.ones(2)))
    kept = memory([weight.sin(), Telling.around(local=weight.local).requires_grad_().cos()])
    assert (kept.total.storage_bytes, kept.total.bytes_without_parameters) == (8, 0)


def test_what_wraps_something_without_telling_is_hidden() -> None:
    kept = memory(Wrapper.around(local=torch.ones(2)).requires_grad_().sin())
    assert (kept.total.storage_bytes, kept.total.hidden) == (0, 1)
    assert "1 tensor of these do not show what memory they keep" in prose(kept)


def test_a_write_into_a_tensor_that_wraps_others_is_told_with_its_line() -> None:
    x = Telling.around(local=torch.ones(2)).requires_grad_()
    with record() as recording:
        h = x * 2
        y = h.sin()
        h.mul_(3)
    (saved, _) = trace_graph(y, recording=recording).nodes[0].saved
    assert saved.is_modified
    assert [write.operation for write in saved.writes] == ["mul_"]


OF_DTENSOR = """\
import torch
from torch.distributed import HashStore, destroy_process_group, init_process_group
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from leafgrad import trace_graph

init_process_group("gloo", rank=0, world_size=1, store=HashStore())
mesh = init_device_mesh("cpu", (1,))
sizes = {"shape": torch.Size((4, 4)), "stride": (4, 1)}  # as if another rank had the other half
x = DTensor.from_local(torch.ones(2, 4), mesh, [Shard(0)], run_check=False, **sizes)
total = trace_graph((x.requires_grad_() * x)).memory.total
print(total.storage_bytes, total.tensor_bytes, total.hidden)
destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch was built without it")
def test_a_distributed_tensor_counts_with_what_is_here(run_apart: RunApart) -> None:
    run = run_apart(OF_DTENSOR)
    said = [line for line in run.stdout.splitlines() if not line.startswith("[Gloo]")]
    assert said == [f"{2 * 4 * 4} {2 * 2 * 4 * 4} 0"]


# --- The groups


def test_kinds_are_listed_from_the_largest() -> None:
    kept = memory(leaf(4).exp().sum() + leaf(8).exp().sin().sum())
    assert [(share.name, share.bytes_without_parameters) for share in kept.kinds] == [
        ("ExpBackward0", 48),
        ("SinBackward0", 32),
    ]


class Stashing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mask = x > 0
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


def test_what_stands_on_a_ctx_is_told_and_outlives_a_backward() -> None:
    function: Any = Stashing
    y = function.apply(leaf(4))
    assert by_name(memory(y).states) == {"live": 16, "on ctx": 4}
    y.sum().backward()
    after = memory(y)
    assert by_name(after.states) == {"on ctx": 4, "freed": 0}
    assert any("stand on the ctx of a custom function" in sentence for sentence in after.why)


def packed(pack: Any) -> torch.Tensor:
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        return leaf(4).exp()


def offloaded() -> torch.Tensor:
    with torch.autograd.graph.save_on_cpu():
        return leaf(4).exp()


def recomputed() -> torch.Tensor:
    x = leaf(4)  # given as no argument, which would be kept
    result: torch.Tensor = checkpoint(lambda: x.exp().sin(), use_reentrant=False)
    return result


def recomputed_reentrantly() -> torch.Tensor:
    result: torch.Tensor = checkpoint(
        lambda x: x.exp().sin(), leaf(4), use_reentrant=True, preserve_rng_state=False
    )
    return result


@pytest.mark.parametrize(
    ("outputs", "states", "hidden", "sentence"),
    [
        (packed(lambda t: t.half()), {"packed": 8}, 0, "packed by a hook, into 8 B"),
        (packed(lambda _: "a file"), {"packed": 0}, 1, "1 tensor of these do not show"),
        (offloaded(), {"offloaded": 16}, 0, "moved to the CPU by save_on_cpu() and keep 16 B"),
        (recomputed(), {"recompute": 0}, 0, "For 2 nodes, backward computes again"),
        (recomputed_reentrantly(), {"live": 16}, 0, "For 1 node, backward computes again"),
        (torch.eye(2).to_sparse().requires_grad_().sin(), {"live": 0}, 1, "do not show what"),
    ],
    ids=["packed", "packed into a file", "offloaded", "checkpoint", "reentrant", "sparse"],
)
def test_a_state_is_recognised_and_told(
    outputs: torch.Tensor, states: dict[str, int], hidden: int, sentence: str
) -> None:
    kept = memory(outputs)
    assert by_name(kept.states) == states
    assert kept.total.hidden == hidden
    assert sentence in prose(kept)


def selectively(**options: bool) -> torch.Tensor:
    weight = torch.ones(4, 8)  # saved as it is, since a block does not compute it
    contexts = partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default], **options)
    result: torch.Tensor = checkpoint(
        lambda x: (x.exp() @ weight).sin().exp(),
        leaf(2, 4),
        use_reentrant=False,
        context_fn=contexts,
    )
    return result


def test_the_cache_of_selective_checkpointing_counts_and_is_not_said_to_be_computed_again() -> None:
    y = selectively()
    kept = memory(y)
    assert by_name(kept.states)["cached"] == 2 * 8 * 4
    assert [saved.name for saved in trace_graph(y).saved if "cache" in saved.name] == [
        "checkpoint.cache[0]"
    ]
    assert "1 tensor (64 B) are cached by selective checkpointing" in prose(kept)
    assert "For up to 4 nodes, backward computes again" in prose(kept)
    y.sum().backward()
    assert "cached" not in by_name(memory(y).states)


def test_the_cache_is_seen_through_operators_of_several_results_and_of_plain_numbers() -> None:
    operators = [torch.ops.aten.max.dim, torch.ops.aten._local_scalar_dense.default]
    y = checkpoint(
        lambda x: x.exp().max(dim=1).values * x.detach().sum().item(),
        leaf(2, 4),
        use_reentrant=False,
        context_fn=partial(create_selective_checkpoint_contexts, operators),
    )
    cached = [saved for saved in trace_graph(y).saved if "cache" in saved.name]
    assert {(saved.shape, saved.nbytes) for saved in cached} == {((2,), 8), ((2,), 16)}


@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_write_into_the_cache_is_found_where_backward_refuses_it(*, is_allowed: bool) -> None:
    y = selectively(allow_cache_entry_mutation=is_allowed)
    grad_fn: Any = y.grad_fn
    (cached,) = [slot for slot in saved_slots(grad_fn) if "cache" in slot.name]
    assert cached.tensor is not None
    cached.tensor.add_(1)
    assert preflight(y).will_fail is not is_allowed
    if is_allowed:
        y.sum().backward()
    else:
        with pytest.raises(RuntimeError, match="cached during selective activation"):
            y.sum().backward()


def test_nodes_that_do_not_show_what_they_keep_are_counted() -> None:
    kept = memory(torch._foreach_exp([leaf(2), leaf(2)])[0].sin())
    assert (kept.hiding, kept.total.slots, kept.total.hidden) == ((1,), 1, 0)
    assert "Of 1 node, PyTorch does not show what is kept" in prose(kept)


# --- The forms


def test_the_text_is_a_card_that_says_what_the_outputs_pin() -> None:
    linear = nn.Linear(4, 8, bias=False)
    assert f"{memory(linear(leaf(2, 4)).exp().sin())}\n" == CARD


CARD = """\
kept for backward: 96 B without parameters
  tensors saved       4, together 288 B
  memory              224 B in 3 storages
  without parameters  96 B
  largest kinds             64 B  SinBackward0
                            64 B  ExpBackward0
                            32 B  MmBackward0
  - As long as one of the outputs lives, so do 6 nodes and the 224 B that they
    keep for backward. Where only a value is needed, keep output.detach() or
    output.item() instead.
"""


def test_more_shares_than_fit_are_counted() -> None:
    x = leaf(1)
    text = str(memory([x.exp(), x.sin(), x.cos(), x.tan(), x.log()]))
    assert "and 2 kinds more" in text


def test_the_start_of_a_long_name_is_left_out() -> None:
    path = "the_encoder_of_the_model_that_translates"
    layer = torch.nn.Linear(2, 2)
    graph = trace_graph(layer(torch.ones(1, 2)), names={path: layer})
    lines = str(graph.memory).splitlines()
    (line,) = [line for line in lines if line.startswith("  largest modules")]
    assert line.split()[-1] == f"...{path[-33:]}"
