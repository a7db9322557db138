"""Memory that a graph keeps alive."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from leafgrad import diagnose, record, trace_graph
from leafgrad.types import GraphMemory, MemoryShare, SavedTensor
from tests.messages import message
from tests.tensors import Doubled, leaf, outcome_of


def memory(outputs: Any, names: Any = None) -> GraphMemory:
    return trace_graph(outputs, names=names).memory


def by_name(shares: tuple[MemoryShare, ...]) -> dict[str, int]:
    return {share.name: share.bytes_without_parameters for share in shares}


# --- Totals


def prose(kept: GraphMemory) -> str:
    return " ".join(str(kept).split())


def test_tensor_views_count_once_with_their_whole_storage() -> None:
    first, second = leaf(4).sin().split(2)
    kept = memory(first * second)
    assert (kept.total.tensor_bytes, kept.total.storage_bytes) == (8 + 8 + 16, 16 + 16)
    assert kept.total.storages == 2


def test_memory_is_counted_with_and_without_parameters() -> None:
    linear = nn.Linear(4, 8, bias=False)
    kept = memory(linear(leaf(2, 4)))
    assert kept.total.storage_bytes == 4 * (4 * 8 + 2 * 4)
    assert kept.total.bytes_without_parameters == 4 * 2 * 4


def test_graph_without_saved_tensors_keeps_no_memory() -> None:
    kept = memory(leaf(2) + leaf(2))
    assert (kept.node_count, kept.total.slots, kept.total.storage_bytes) == (3, 0, 0)
    assert (kept.kinds, kept.total.storages, kept.states) == ((), 0, ())


# --- Tensors that wrap others


class Wrapper(torch.Tensor):
    """A wrapper that hides its tensors and reports twice their size."""

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
    """A wrapper that shows its tensors to leafgrad."""

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


def test_wrapped_tensors_count_instead_of_wrapper() -> None:
    outer = Telling.around(wrapped=Telling.around(local=torch.ones(2, 3)), scale=torch.ones(5))
    kept = memory(outer.requires_grad_().sin())
    assert (kept.total.storage_bytes, kept.total.tensor_bytes, kept.total.hidden) == (44, 44, 0)
    saved = trace_graph(outer.sin()).saved
    assert [facts(one) for one in saved] == [
        ("self", (8, 3), 0, False),
        ("self.scale", (5,), 20, False),
        ("self.wrapped.local", (2, 3), 24, False),
    ]


def test_inner_tensor_of_wrapper_parameter_counts_as_parameter_memory() -> None:
    weight: Any = nn.Parameter(Telling.around(local=torch.ones(2)))
    kept = memory([weight.sin(), Telling.around(local=weight.local).requires_grad_().cos()])
    assert (kept.total.storage_bytes, kept.total.bytes_without_parameters) == (8, 0)


def test_opaque_wrapper_counts_as_hidden() -> None:
    kept = memory(Wrapper.around(local=torch.ones(2)).requires_grad_().sin())
    assert (kept.total.storage_bytes, kept.total.hidden) == (0, 1)
    assert message("memory.hidden", tensors="1 tensor") in prose(kept)


def test_write_into_wrapper_is_found() -> None:
    x = Telling.around(local=torch.ones(2)).requires_grad_()
    with record() as recording:
        h = x * 2
        y = h.sin()
        h.mul_(3)
    (saved, _) = trace_graph(y, recording=recording).nodes[0].saved
    assert saved.is_modified
    assert [write.operation for write in saved.writes] == ["mul_"]


# --- Grouping


def test_kinds_are_sorted_by_bytes() -> None:
    kept = memory(leaf(4).exp().sum() + leaf(8).exp().sin().sum())
    assert [(share.name, share.bytes_without_parameters) for share in kept.kinds] == [
        ("ExpBackward0", 48),
        ("SinBackward0", 32),
    ]


def test_tensor_on_ctx_outlives_backward() -> None:
    y = outcome_of(Doubled, leaf(4))
    assert by_name(memory(y).states) == {"live": 16, "on ctx": 4}
    y.sum().backward()
    after = memory(y)
    assert by_name(after.states) == {"on ctx": 4, "freed": 0}
    assert message("memory.states.on-ctx", tensors="1 tensor", bytes="4 B") in after.why


def packed(pack: Any) -> torch.Tensor:
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        return leaf(4).exp()


def offloaded() -> torch.Tensor:
    with torch.autograd.graph.save_on_cpu():
        return leaf(4).exp()


def recomputed() -> torch.Tensor:
    x = leaf(4)  # As an argument of the block, it would be saved.
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
        (packed(lambda t: t.half()), {"packed": 8}, 0, ("states.packed", "1 tensor", "8 B")),
        (packed(lambda _: "a file"), {"packed": 0}, 1, ("hidden", "1 tensor", "")),
        (offloaded(), {"offloaded": 16}, 0, ("states.offloaded", "1 tensor", "16 B")),
        (recomputed(), {"recompute": 0}, 0, ("recomputed", "2 nodes", "")),
        (recomputed_reentrantly(), {"live": 16}, 0, ("recomputed", "1 node", "")),
        (
            torch.eye(2).to_sparse().requires_grad_().sin(),
            {"live": 0},
            1,
            ("hidden", "1 tensor", ""),
        ),
    ],
    ids=["packed", "packed into a file", "offloaded", "checkpoint", "reentrant", "sparse"],
)
def test_state_of_saved_tensor_is_counted_and_explained(
    outputs: torch.Tensor, states: dict[str, int], hidden: int, sentence: tuple[str, str, str]
) -> None:
    kept = memory(outputs)
    assert by_name(kept.states) == states
    assert kept.total.hidden == hidden
    key, number, nbytes = sentence
    assert message(f"memory.{key}", tensors=number, nodes=number, bytes=nbytes) in prose(kept)


def selectively(products: list[torch.Tensor], **options: bool) -> torch.Tensor:
    weight = torch.ones(4, 8)  # an input of the block is saved, not recomputed

    def block(x: torch.Tensor) -> torch.Tensor:
        products.append(x.exp() @ weight)
        return products[-1].sin().exp()

    contexts = partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default], **options)
    result: torch.Tensor = checkpoint(block, leaf(2, 4), use_reentrant=False, context_fn=contexts)
    return result


def test_cache_of_selective_checkpoint_counts_as_memory() -> None:
    y = selectively([])
    kept = memory(y)
    assert by_name(kept.states)["cached"] == 2 * 8 * 4
    assert [saved.name for saved in trace_graph(y).saved if "cache" in saved.name] == [
        "checkpoint.cache[0]"
    ]
    assert message("memory.states.cached", tensors="1 tensor", bytes="64 B") in prose(kept)
    assert message("memory.recomputed-partly", nodes="4 nodes") in prose(kept)
    y.sum().backward()
    assert "cached" not in by_name(memory(y).states)


def test_cached_tensors_of_operators_with_several_results_count() -> None:
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
def test_write_into_cache_fails_unless_allowed(*, is_allowed: bool) -> None:
    products: list[torch.Tensor] = []
    y = selectively(products, allow_cache_entry_mutation=is_allowed)
    with torch.no_grad():
        products[0].add_(1)
    assert ("in-place" in diagnose(y.sum()).codes) is not is_allowed
    if is_allowed:
        y.sum().backward()
    else:
        with pytest.raises(RuntimeError, match="cached during selective activation"):
            y.sum().backward()


def test_nodes_that_hide_saved_tensors_are_counted() -> None:
    kept = memory(torch._foreach_exp([leaf(2), leaf(2)])[0].sin())
    assert (kept.hiding, kept.total.slots, kept.total.hidden) == ((1,), 1, 0)
    assert message("memory.hiding", nodes="1 node") in prose(kept)


# --- Text


def test_text_of_memory_lists_totals_and_largest_kinds() -> None:
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
  - As long as one of the outputs is alive, so are 6 nodes and the 224 B that
    they keep for the backward pass. If you need only its value, keep
    `output.detach()` or `output.item()` instead.
"""


def test_long_name_loses_its_start() -> None:
    path = "the_encoder_of_the_model_that_translates"
    layer = torch.nn.Linear(2, 2)
    graph = trace_graph(layer(torch.ones(1, 2)), names={path: layer})
    lines = str(graph.memory).splitlines()
    (line,) = [line for line in lines if line.startswith("  largest modules")]
    assert line.split()[-1] == f"...{path[-33:]}"
