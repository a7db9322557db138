"""What a graph keeps alive, to the byte."""

import json
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from leafgrad import GraphMemory, MemoryShare, trace_graph


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=True)


def memory(outputs: Any, names: Any = None) -> GraphMemory:
    return trace_graph(outputs, names=names).memory


def by_name(shares: tuple[MemoryShare, ...]) -> dict[str, int]:
    return {share.name: share.bytes_without_parameters for share in shares}


# --- The sums


def test_a_storage_counts_once_however_many_slots_share_it() -> None:
    x = leaf(4)
    total = memory(x * x).total
    assert (total.slots, total.tensor_bytes, total.storage_bytes) == (2, 32, 16)


def test_views_count_with_their_own_size_as_tensors_and_with_the_whole_storage_as_memory() -> None:
    first, second = leaf(4).sin().split(2)
    kept = memory(first * second)
    assert (kept.total.tensor_bytes, kept.total.storage_bytes) == (8 + 8 + 16, 16 + 16)
    assert [[slot.name for slot in storage.saved] for storage in kept.storages] == [
        ["other", "self"],
        ["self"],
    ]


def test_what_lives_in_parameters_is_told_from_what_does_not() -> None:
    linear = nn.Linear(4, 8, bias=False)
    kept = memory(linear(leaf(2, 4)))
    assert kept.total.storage_bytes == 4 * (4 * 8 + 2 * 4)
    assert kept.total.bytes_without_parameters == 4 * 2 * 4
    assert [(s.nbytes, s.is_parameter) for s in kept.storages] == [(128, True), (32, False)]


def test_a_graph_that_keeps_nothing_adds_up_to_nothing() -> None:
    kept = memory(leaf(2) + leaf(2))
    assert (kept.node_count, kept.total.slots, kept.total.storage_bytes) == (3, 0, 0)
    assert (kept.nodes, kept.storages, kept.states) == ((), (), ())


def test_a_ragged_tensor_counts_with_the_storage_as_its_sizes_are_not_known() -> None:
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    assert memory(x.sin()).total.tensor_bytes == memory(x.sin()).total.storage_bytes


# --- The groups


def test_nodes_and_kinds_are_listed_from_the_largest() -> None:
    x = leaf(4)
    kept = memory(x.exp().sum() + leaf(8).exp().sin().sum())
    assert by_name(kept.kinds) == {"ExpBackward0": 48, "SinBackward0": 32}
    assert [(share.name, share.bytes_without_parameters) for share in kept.nodes] == [
        ("SinBackward0", 32),
        ("ExpBackward0", 32),
        ("ExpBackward0", 16),
    ]
    assert all(len(share.nodes) == 1 for share in kept.nodes)
    assert by_name(kept.devices) == {"cpu": 48}


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
    assert any(sentence in why for why in kept.why)


def test_nodes_that_do_not_show_what_they_keep_are_counted() -> None:
    kept = memory(torch._foreach_exp([leaf(2), leaf(2)])[0].sin())
    assert (kept.hiding, kept.total.slots, kept.total.hidden) == ((1,), 1, 0)
    assert "Of 1 node, PyTorch does not show what is kept" in kept.why[-1]


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


def test_a_notebook_gets_the_card_as_html() -> None:
    html = memory(leaf(2).exp())._repr_html_()
    assert html.startswith("<div")
    assert "largest kinds" in html


def test_the_dict_holds_json_types_only() -> None:
    kept = memory(leaf(2).exp())
    data = kept.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["storages"][0]["saved"][0]["dtype"] == "float32"
    assert data["devices"][0]["name"] == "cpu"
