"""Facts about walks over graphs, one test each."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._autograd import traversal
from tests.apart import RunApart
from tests.tensors import holding, leaf, node_of

NAME_STEP_BY_STEP = """
import threading
import torch
from leafgrad import _autograd
from leafgrad._autograd import traversal

class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + 1
    @staticmethod
    def backward(ctx, grad):
        return grad

def build_name_and_free(stride):
    steps = [torch.ones(1, requires_grad=True)]
    for number in range(10_000):
        x = steps[-1]
        steps.append(Custom.apply(x) if number % 50 == 0 else x + x if number % 7 == 0 else x + 1)
    for step in steps[::stride]:
        _autograd.grad_fn_name(step)
    del step, x, steps[:-1]
    steps.pop()
    print(stride, len(traversal._KeptSuccessors.waiting.queue))

threading.stack_size(256 * 1024)
for stride in (1, -1, 3):
    thread = threading.Thread(target=build_name_and_free, args=(stride,))
    thread.start()
    thread.join()
"""


def test_deep_graph_can_be_freed_after_naming_its_nodes(run_apart: RunApart) -> None:
    run = run_apart(NAME_STEP_BY_STEP)
    assert (run.returncode, run.stdout, run.stderr) == (0, "1 0\n-1 0\n3 0\n", "")


def test_interrupted_walk_guards_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    x = leaf(1)
    for _ in range(2 * traversal._LONGEST_FALL):
        x = x.sin()
    begun: list[object] = []

    def interrupted(roots: Iterable[Node]) -> object:
        begun.append(roots)
        if len(begun) == 1:
            next(iter(roots)).next_functions  # noqa: B018 (what makes a node dangerous to free)
            raise KeyboardInterrupt
        return walked(roots)

    walked = traversal._walked
    monkeypatch.setattr(traversal, "_walked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _autograd.walk([node_of(x)])
    node, guarded = node_of(x), 0
    while (after := node.next_functions) and after[0][0] is not None:
        guarded += bool(node.metadata)
        node = after[0][0]
    assert guarded > 0


def marks(tensor: torch.Tensor) -> list[object]:
    nodes: Iterable[Any] = _autograd.walk([node_of(tensor)])
    return [mark for node in nodes for mark in node.metadata]


def test_walk_guards_deep_graph() -> None:
    x = leaf(2)
    for _ in range(3 * traversal._LONGEST_FALL):
        x = x.sin()
    assert marks(x) == [traversal._KEPT] * 3


def test_walk_guards_deep_graph_with_shortcut() -> None:
    x = leaf(2)
    steps = [x.sin()]
    for _ in range(3 * traversal._LONGEST_FALL):
        steps.append(steps[-1].sin())
    ends = steps[1] + steps[-1]
    del steps
    assert marks(ends) == [traversal._KEPT] * 3


def test_walk_to_edge_lists_successors_first() -> None:
    x = leaf(2)
    a = x.sin()
    b = (a * a + x.cos()) * leaf(2)
    nodes, edge = traversal.walk_to((node_of(a), 0), node_of(b))
    assert edge == (node_of(a), 0)
    assert [_autograd.node_name(node) for node in nodes] == [
        *("MulBackward0", "AddBackward0", "MulBackward0")
    ]
    assert traversal.walk_to((node_of(leaf(2).sin()), 0), node_of(b))[0] == {}


def test_walk_to_leaf_finds_its_edge() -> None:
    x, y = leaf(2), leaf(2)
    a = x.sin() * y
    nodes, edge = traversal.walk_to(y, node_of(a))
    assert list(nodes) == [node_of(a)]
    assert edge == _autograd.edge_by_use(y)
    assert traversal.walk_to(leaf(2), node_of(a)) == ({}, None)


def test_numbered_output_is_number_of_node_and_output() -> None:
    x = holding(1.0, 2.0) * 1
    first, second = map(_autograd.numbered_output, x.unbind())
    assert first is not None
    assert (first[1], second) == (0, (first[0], 1))
    assert _autograd.numbered_output(holding(1.0)) is None
    assert _autograd.numbered_output(torch.ones(1)) is None
    invalid, _ = x.unbind()
    x.mul_(2.0)
    assert _autograd.numbered_output(invalid) is None
