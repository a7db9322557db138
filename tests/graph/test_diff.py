"""Differences of two traces."""

from typing import Any

import torch
from torch import nn

from leafgrad import trace_graph
from leafgrad.types import GraphDiff
from tests.tensors import leaf


def names(nodes: Any) -> list[str]:
    return [node.name for node in nodes]


def diff(before: torch.Tensor, after: torch.Tensor) -> GraphDiff:
    return trace_graph(before).diff(trace_graph(after))


def test_equal_graphs_have_no_diff() -> None:
    change = diff(leaf(2).exp(), leaf(2).exp())
    assert (change.came, change.went, change.kinds) == ((), (), ())
    assert str(change) == "0 nodes went, 0 came; 8 B before, 8 B after, without parameters"


def test_repeated_nodes_are_matched_one_to_one() -> None:
    change = diff(leaf(2).exp().exp().sin(), leaf(2).exp().sin())
    assert (names(change.went), names(change.came)) == (["ExpBackward0"], [])
    assert [node.index for node in change.went] == [2]
    back = diff(leaf(2).exp().sin(), leaf(2).exp().exp().sin())
    assert (names(back.went), names(back.came)) == ([], ["ExpBackward0"])


def test_diff_of_autocast_has_casts_and_halved_bytes() -> None:
    layers = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
    x = torch.ones(4, 8)
    plain = layers(x)
    with torch.autocast("cpu", torch.bfloat16):
        cast = layers(x)
    change = diff(plain, cast)
    assert set(names(change.came)) == {"ToCopyBackward0"}
    assert change.went == ()
    tanh = next(kind for kind in change.kinds if kind.name == "TanhBackward0")
    assert (tanh.nodes_before, tanh.nodes_after) == (2, 2)
    assert (tanh.bytes_before, tanh.bytes_after) == (2 * 4 * 8 * 4, 2 * 4 * 8 * 2)


def test_diff_text_lists_twenty_kinds_and_counts_the_rest() -> None:
    x = leaf(1)
    operations = ["exp", "sin", "cos", "tan", "log", "sqrt", "sinh", "cosh", "tanh", "abs", "erf"]
    operations += ["erfc", "expm1", "log1p", "log2", "log10", "rsqrt", "sigmoid", "asin", "acos"]
    y = x
    for operation in [*operations, "atan", "square"]:
        y = getattr(y, operation)()
    lines = str(diff(y, x)).splitlines()
    assert lines[0].startswith("22 nodes went, 0 came; ")
    assert lines[2].split() == ["node", "before", "after", "bytes", "before", "after"]
    assert len(lines) == 3 + 20 + 1
    assert lines[-1] == "and 2 other kinds"
