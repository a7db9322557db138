"""One test a fact about where a gradient arrives, and the path that it takes there."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from leafgrad import _autograd
from tests.tensors import leaf, node_of


class WatchingDispatchMode(TorchDispatchMode):
    """A mode that records every operation that reaches PyTorch's kernels."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[object] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


def view_under_no_grad(base: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return base[:]


def test_a_gradient_arrives_where_autograd_would_send_it() -> None:
    x = leaf(3)
    third = x.unbind()[2]
    node = node_of(x * 2).next_functions[0][0]
    assert _autograd.gradient_edge(third) == (node_of(third), 2)
    with torch.inference_mode():
        assert _autograd.gradient_edge(x) == (node, 0)
    assert _autograd.gradient_edge(torch.ones(3)) is None
    with torch.no_grad():
        unrecorded = x[0]
    assert _autograd.gradient_edge(unrecorded) is None


def test_the_edge_of_a_leaf_leads_to_its_accumulator() -> None:
    leaf = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        edge = _autograd.edge_by_use(leaf)
    assert edge == node_of(leaf * 2).next_functions[0]


def test_the_edge_of_a_result_leads_to_the_node_and_output_that_made_it() -> None:
    parts = torch.ones(2, requires_grad=True).unbind()
    assert _autograd.edge_by_use(parts[1]) == (parts[0].grad_fn, 1)


def test_a_constant_and_an_unrecorded_view_have_no_edge() -> None:
    leaf = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        view = leaf[:1]
    assert view.requires_grad
    assert _autograd.edge_by_use(view) is _autograd.edge_by_use(torch.ones(2)) is None


def test_only_a_leaf_with_a_flag_of_its_own_has_an_accumulator() -> None:
    base = leaf(2)
    constant = torch.ones(2)
    early = constant[:]
    constant.requires_grad_()
    assert _autograd.has_accumulator(base)
    assert _autograd.has_accumulator(torch.ones(2)[:].requires_grad_())
    assert _autograd.has_accumulator(view_under_no_grad(base).requires_grad_())
    assert not _autograd.has_accumulator(view_under_no_grad(base))
    assert not _autograd.has_accumulator(early)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_view_of_a_nested_tensor_is_told_apart_as_well() -> None:
    base = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], requires_grad=True)
    with torch.no_grad():
        view = base.transpose(1, 2)
    assert not _autograd.has_accumulator(view)
    assert _autograd.has_accumulator(view.requires_grad_())


def test_looking_for_an_accumulator_leaves_no_trace_in_the_thread_that_asks(
    watching_mode: Any,
) -> None:
    view = view_under_no_grad(leaf(2))
    sequence_number = torch._C._autograd._get_sequence_nr()
    modes = watching_mode, WatchingDispatchMode()
    with modes[0] as functions, modes[1] as operations, _autograd.unobserved():
        assert not _autograd.has_accumulator(view)
    assert (functions.calls, operations.calls) == ([], [])
    assert torch._C._autograd._get_sequence_nr() == sequence_number
    with torch.inference_mode():
        assert not _autograd.has_accumulator(view)


def test_the_path_between_are_those_on_a_path_and_no_others() -> None:
    x, y = (torch.ones(2, requires_grad=True) for _ in "xy")
    inner = x.exp()
    outputs = inner.sin() * y.cos() + inner
    path = _autograd.path_between(outputs, x)
    assert path is not None
    assert {_autograd.node_name(node) for node in path.nodes} == {
        *("AddBackward0", "MulBackward0", "SinBackward0", "ExpBackward0")
    }


def test_nothing_is_between_a_tensor_and_itself_and_no_path_is_none() -> None:
    x, y = (torch.ones(2, requires_grad=True) for _ in "xy")
    edge = _autograd.edge_by_use(x)
    assert edge is not None
    assert _autograd.path_between(x, x) == ({}, edge, edge)
    assert _autograd.path_between(x * 2, y) is None
    assert _autograd.path_between(torch.ones(2), y) is None
    assert _autograd.path_between(y, torch.ones(2)) is None


def test_another_output_of_the_same_node_is_not_on_the_path() -> None:
    first, second = torch.ones(2, requires_grad=True).unbind()
    assert _autograd.path_between(first * 2, second) is None
