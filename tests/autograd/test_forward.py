"""Facts about what nodes keep of the forward pass, one test each."""

from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from leafgrad import _autograd
from tests.tensors import holding, leaf, node_of


def test_signed_undoes_unsigned_arguments() -> None:
    x = leaf(2, 3)
    read = _autograd.reader_of_kept("dim0", "dim1")(node_of(x.transpose(0, -1)))
    assert read == (0, 2**64 - 1)
    assert _autograd.signed(read) == (0, -1)
    assert _autograd.reader_of_kept("dim")(node_of(x.unsqueeze(1))) == 1
    assert _autograd.signed((None, (3, 2**64 - 2), True)) == (None, (3, -2), True)


def test_modified_and_freed_tensors_raise() -> None:
    inner = leaf(2) * 2
    outer = inner.sin()
    inner.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        _autograd.kept(node_of(outer), "self")
    freed = leaf(2).exp()
    freed.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        _autograd.kept(node_of(freed), "result")


def test_checkpointed_tensor_raises_recomputation() -> None:
    calls = []

    def function(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x.sin()

    x = leaf(2)
    outputs = checkpoint(function, x, use_reentrant=False)
    with pytest.raises(_autograd.Recomputation):
        _autograd.kept_at_hand(node_of(outputs), "self")
    assert len(calls) == 1
    outputs.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, x.detach().cos())


def test_kept_at_hand_works_under_any_hooks() -> None:
    x = leaf(2)
    assert _autograd.kept_at_hand(node_of(x.sin()), "self") is x
    with save_on_cpu():
        node = node_of(x.exp())
        assert torch.equal(_autograd.kept_at_hand(node, "result"), x.exp())
    with disable_saved_tensors_hooks("mine"):
        assert torch.equal(_autograd.kept_at_hand(node, "result"), x.exp())
        with pytest.raises(RuntimeError, match="mine"), save_on_cpu():
            pass
    with save_on_cpu():
        pass
    freed = leaf(2).exp()
    freed.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        _autograd.kept_at_hand(node_of(freed), "result")


def test_autocast_is_detected_for_device_of_tensor() -> None:
    x = leaf(2)
    assert not _autograd.is_cast(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert _autograd.is_cast(x)
        with torch.autocast("cpu", enabled=False):
            assert not _autograd.is_cast(x)
    torch.set_autocast_enabled("cuda", True)
    try:
        assert not _autograd.is_cast(x)
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_checkpoint_recomputes_once_in_backward() -> None:
    calls = []

    def function(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x.sin().exp()

    outer = node_of(checkpoint(function, leaf(2), use_reentrant=False))
    inner = outer.next_functions[0][0]
    with torch.no_grad():
        kept = _autograd.in_backward(
            lambda: [_autograd.kept(inner, "self"), _autograd.kept(outer, "result")]
        )
    assert [len(calls), *kept[0].tolist()] == [2, 1.0, 1.0]
    assert kept[1].grad_fn is outer


def test_output_types_of_node() -> None:
    parts = leaf(4, 3).double().split([1, 3])
    types = _autograd.output_types(node_of(parts[0]))
    assert [tuple(kind.shape) for kind in types] == [(1, 3), (3, 3)]
    assert {(kind.dtype, kind.device.type) for kind in types} == {(torch.float64, "cpu")}


def test_kept_arguments_depend_on_kind() -> None:
    node = node_of(leaf(2, 3).amax(1))
    assert _autograd.keeps(node, "keepdim")
    assert not _autograd.keeps(node_of(leaf(2).max()), "keepdim")


def test_interception_is_detected() -> None:
    seen = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append((_autograd.is_intercepted(), _autograd.is_transformed()))
        return x

    x = leaf(2)
    look(x)
    torch.vmap(look)(x)
    with TorchDispatchMode():
        look(x)
    look(x)
    none, mode, transform = (False, False), (True, False), (True, True)
    assert seen == [none, transform, mode, none]


def test_wrapped_number_is_a_number() -> None:
    made = _autograd.kept(node_of(leaf(2) * 0.1), "other")
    assert _autograd.as_number(made) == 0.1
    assert _autograd.as_number(torch.tensor(3)) == 3


def test_intercepted_tensor_is_no_number() -> None:
    number = torch.tensor(2.0)
    seen = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(_autograd.as_number(number))
        return x

    torch.vmap(look)(torch.ones(2))
    with TorchDispatchMode():
        look(number)
    with forward_ad.dual_level():
        look(number)
    look(number)
    others = [torch.ones(1), torch.tensor(1.0).requires_grad_(), torch.tensor(1j)]
    assert seen == [None, None, None, 2]
    assert [*map(_autograd.as_number, [*others, torch.nn.Parameter(number)])] == [None] * 4


def results(node: Any) -> list[tuple[str, int, list[float]]]:
    found = _autograd.results_in_slots(node)
    return [(_autograd.node_name(maker), nr, tensor.tolist()) for maker, nr, tensor in found]


def written() -> torch.Tensor:
    doubled = holding(1.0) * 2.0
    sine = doubled.sin()
    doubled.add_(1.0)
    return sine


def freed() -> torch.Tensor:
    y = holding(0.0).exp()
    y.sum().backward()
    return y


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ((holding(1.0) * 2.0).sin(), [("MulBackward0", 0, [2.0])]),
        (holding(0.0).exp(), [("ExpBackward0", 0, [1.0])]),
        (holding(1.0) * torch.tensor([2.0]), []),
        (written(), []),
        (freed(), []),
    ],
    ids=["of another node", "of its own", "leaf and constant", "written", "freed"],
)
def test_results_in_saved_slots(
    y: torch.Tensor, expected: list[tuple[str, int, list[float]]]
) -> None:
    assert results(y.grad_fn) == expected


def test_packed_slot_is_not_unpacked() -> None:
    unpacked: list[Any] = []
    unpack: Any = unpacked.append
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        y = (holding(0.0) * 2.0).exp()
    assert results(y.grad_fn) == []
    assert unpacked == []


# --- Freed saved tensors


def test_saved_tensors_are_at_hand_until_freed() -> None:
    inner = leaf(2) * 2
    outputs = inner.sin().cos()
    nodes = _autograd.walk([node_of(outputs)])
    assert _autograd.saved_is_at_hand(nodes)
    outputs.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        _autograd.saved_is_at_hand(nodes)


@pytest.mark.parametrize("is_kept", [True, False])
def test_passed_graph_is_detected(is_kept: bool) -> None:  # noqa: FBT001
    middle = leaf(2).sin()
    outputs = (middle + middle * 2).view(2, 1).t() + 1
    assert not _autograd.was_passed(node_of(outputs))
    outputs.sum().backward(retain_graph=is_kept)
    assert _autograd.was_passed(node_of(outputs)) != is_kept
