"""Facts about what nodes save in the forward pass, one test each."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from leafgrad import _autograd
from leafgrad._autograd.saved import Slot
from leafgrad._autograd.tensor import facts
from tests.tensors import holding, leaf, node_of, outcome_of

# Before 2.12, a node reports only on all slots of an attribute together.
EACH_SLOT_CAN_BE_ASKED = hasattr(torch._C._autograd.SavedTensor, "unpack")


class Doubled(torch.autograd.Function):
    """Saves its input, None and its output, and stores other objects on ctx."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        doubled = 2 * x
        ctx.save_for_backward(x, None, doubled)
        ctx.factor, ctx.mask, ctx.pair = 2, x > 0, [x.detach(), "two"]
        return doubled

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.factor * gradients[0]


def slot_states(tensor: torch.Tensor) -> dict[str, str]:
    return {slot.name: slot.state for slot in _autograd.saved_slots(node_of(tensor))}


def versions(tensor: torch.Tensor) -> dict[str, tuple[int | None, int | None]]:
    slots = _autograd.saved_slots(node_of(tensor))
    return {slot.name: (slot.saved_version, slot.current_version) for slot in slots}


def refuse(*_: object) -> Any:
    raise AssertionError("a hook was called")


def test_freed_list_of_saved_tensors_is_one_slot() -> None:
    y = leaf(2, 2)[:, torch.tensor([0])]
    before = slot_states(y)
    y.sum().backward()
    assert before == {"indices[1]": "live"}
    assert slot_states(y) == {"indices": "freed"}


# Since 2.13, PyTorch stores the inputs with the frame of the block. Before, Python cannot reach
# them.
INPUTS_OF_A_BLOCK = (
    {"checkpoint.inputs[0]": "live"}
    if hasattr(torch.utils.checkpoint._CheckpointFrame, "save_inputs")
    else {}
)


@pytest.mark.skipif(not INPUTS_OF_A_BLOCK, reason="PyTorch keeps them elsewhere")
def test_inputs_of_checkpointed_block_are_slots_of_its_last_node() -> None:
    def block(x: torch.Tensor, _: float, factor: torch.Tensor) -> torch.Tensor:
        return (x * factor).exp()

    x = leaf(2) * 1
    y = torch.utils.checkpoint.checkpoint(block, x, 2.0, torch.ones(2), use_reentrant=False)
    x.add_(1)
    exp, mul = _autograd.saved_slots(node_of(y)), node_of(y).next_functions[0][0]
    assert [slot[:2] for slot in exp] == [
        ("result", "recompute"),
        ("checkpoint.inputs[0]", "live"),
        ("checkpoint.inputs[2]", "live"),
    ]
    assert exp[1].tensor is x
    assert [slot[3:] for slot in exp[1:]] == [(0, 1), (0, 0)]
    assert [slot[:2] for slot in _autograd.saved_slots(mul)] == [("other", "recompute")]


def test_list_of_saved_tensors_is_numbered() -> None:
    y = torch._foreach_div([leaf(2), leaf(2)], [leaf(2), leaf(2)])[0]
    names = ["other[0]", "other[1]", "self[0]", "self[1]"]
    assert slot_states(y) == dict.fromkeys(names, "live")


class Unspoken:
    """An object without a repr."""

    def __repr__(self) -> str:
        raise AssertionError


class Collected(torch.autograd.Function):
    """Keeps tensors in a dict that contains itself."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.nest = {"one": x.clone(), 2: [3, (x.clone(), "three")], Unspoken(): x.clone()}
        ctx.nest["all"] = ctx.nest
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return ctx.nest["one"]


def test_nested_tensors_on_ctx_are_found() -> None:
    y = outcome_of(Collected, leaf(2))
    assert [slot.name for slot in _autograd.saved_slots(node_of(y))] == [
        "ctx.nest['one']",
        "ctx.nest[Unspoken]",
        "ctx.nest[2][1][0]",
    ]


def kept_in(seen: list[torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a hook that adds its tensors to `seen`."""

    def hook(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(tensor)
        return tensor

    return hook


@pytest.mark.skipif(not EACH_SLOT_CAN_BE_ASKED, reason="PyTorch does not show it")
def test_saved_tensor_detached_in_place_is_detected() -> None:
    h = leaf(2) * 1
    sine, product = node_of(h.sin()), node_of(h * leaf(2))
    assert not any(map(_autograd.saved_a_detached_tensor, (sine, product)))
    h.detach_()
    assert all(map(_autograd.saved_a_detached_tensor, (sine, product)))


def test_unpackable_tensor_counts_as_attached() -> None:
    h, made, written = leaf(2) * 1, leaf(2).exp(), leaf(2).exp()
    unpacked = list[torch.Tensor]()
    hooks = torch.autograd.graph.saved_tensors_hooks(torch.Tensor.detach, kept_in(unpacked))
    with hooks:
        packed = h.sin()
    outputs = [made * 2, outcome_of(Doubled, h), packed]
    nodes = [node_of(tensor) for tensor in (made, written, *outputs)]
    h.detach_()
    made.detach_()
    written.add_(1)
    assert not any(map(_autograd.saved_a_detached_tensor, nodes))
    assert not unpacked
    for tensor in outputs:
        tensor.sum().backward(retain_graph=True)


def test_write_into_saved_output_changes_version() -> None:
    y = leaf(2).exp()
    node = node_of(y)
    y.add_(1)
    (slot,) = _autograd.saved_slots(node)
    assert (slot.saved_version, slot.current_version) == (0, 1)
    relu = torch.relu_(leaf(2) * 1)
    assert versions(relu) == {"result": (1, 1)}


class Kept(torch.autograd.Function):
    """Saves an input and both outputs."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = a * b, a + b
        ctx.save_for_backward(a, *outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return ctx.saved_tensors[0], None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param((), [(0, 0), (0, 0), (0, 0)], id="nothing"),
        pytest.param((0,), [(0, 1), (0, 0), (0, 0)], id="the input"),
        pytest.param((1,), [(0, 0), (0, 1), (0, 0)], id="an output"),
        pytest.param(
            (0, 1),
            [(0 if EACH_SLOT_CAN_BE_ASKED else None, 1), (None, 1), (0, 0)],
            id="the input and an output",
        ),
        pytest.param((1, 2), [(0, 0), (None, 1), (None, 1)], id="both outputs"),
    ],
)
def test_saved_version_is_none_if_pytorch_does_not_show_it(
    written: tuple[int, ...], expected: list[tuple[int | None, int]]
) -> None:
    a = leaf(2) * 1
    outputs = outcome_of(Kept, a, leaf(2))
    node = node_of(outputs[0])
    for number in written:
        with torch.no_grad():
            (a, *outputs)[number].add_(1)
    found = [(slot.saved_version, slot.current_version) for slot in _autograd.saved_slots(node)]
    assert found == expected


def test_reading_the_version_of_an_own_output_calls_no_hook() -> None:
    outputs = outcome_of(Kept, leaf(2) * 1, leaf(2))
    node = node_of(outputs[0])
    node._raw_saved_tensors[0].register_hooks(lambda _: None, refuse)
    node._raw_saved_tensors[2].register_hooks(lambda _: None, refuse)
    with torch.no_grad():
        outputs[0].add_(1)
    slots = _autograd.saved_slots(node)
    assert [slot.state for slot in slots] == ["packed", "live", "packed"]
    assert slots[1].saved_version is None


def test_reading_slots_does_not_keep_the_class_of_the_function_alive() -> None:
    def made() -> weakref.ref[type]:
        class Passing(Doubled):
            pass

        assert _autograd.saved_slots(node_of(outcome_of(Passing, leaf(2))))
        return weakref.ref(Passing)

    passing = made()
    gc.collect()
    assert passing() is None


def results_of_all_kinds() -> list[torch.Tensor]:
    """Return results whose nodes saved tensors of all kinds."""
    x, hidden, parameter = leaf(2, 2), leaf(2, 2) * 1, torch.nn.Parameter(torch.ones(2, 2))
    results = [x.sin(), hidden.sin(), (x * 1).exp().sigmoid_(), x @ parameter.t(), x * parameter]
    results += [x[:, torch.tensor([0])], x + 1, outcome_of(Doubled, x), (x * 1).exp()]
    results += [torch.nn.functional.layer_norm(x, (2,)), torch.eye(2).to_sparse() * x.to_sparse()]
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.half(), refuse):
        results.append(x.sin())
    with torch.no_grad():
        hidden.add_(1)
        results[8].add_(1)
    freed = [x.sin(), x[:, torch.tensor([0])], outcome_of(Doubled, x)]
    torch.autograd.backward([one.sum() for one in freed])
    return results + freed


def told_one_by_one(place: int, slot: Slot) -> tuple[object, ...]:
    if slot.tensor is None:
        return place, None, None, slot.name, slot.state, *[None] * 7
    (storage, _) = _autograd.storage(slot.tensor) or (None, None)
    _, (shape, dtype, device, nbytes, is_own) = facts(slot.tensor)
    if slot.state == "packed":
        shape = dtype = None
    seen = shape, dtype, device, nbytes, is_own
    versions = slot.saved_version, slot.current_version
    return place, storage, storage, slot.name, slot.state, *seen, *versions


def test_read_saved_returns_the_same_as_saved_slots() -> None:
    results = results_of_all_kinds()
    nodes = [*map(node_of, results)]
    slots = [(place, s) for place, node in enumerate(nodes) for s in _autograd.saved_slots(node)]
    read = _autograd.read_saved(nodes, ())
    assert read == [told_one_by_one(place, slot) for place, slot in slots]
    assert {one.state for one in read} == {"live", "packed", "freed"}
    modified = [
        one for one in read if one.state == "live" and one.saved_version != one.current_version
    ]
    assert [(one.name, one[-2:]) for one in modified if one.saved_version is not None] == [
        ("self", (0, 1)),
        ("result", (0, 1)),
    ]


# --- Arguments, modes and numbers


def test_signed_restores_negative_arguments() -> None:
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


def test_kept_at_hand_reads_saved_tensors_with_and_without_hooks() -> None:
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
        kept = _autograd.run_in_backward(
            lambda: [_autograd.kept(inner, "self"), _autograd.kept(outer, "result")]
        )
    assert [len(calls), *kept[0].tolist()] == [2, 1.0, 1.0]
    assert kept[1].grad_fn is outer


def test_output_types_are_those_of_each_output() -> None:
    parts = leaf(4, 3).double().split([1, 3])
    types = _autograd.output_types(node_of(parts[0]))
    assert [tuple(kind.shape) for kind in types] == [(1, 3), (3, 3)]
    assert {(kind.dtype, kind.device.type) for kind in types} == {(torch.float64, "cpu")}


def test_keeps_finds_only_arguments_that_this_kind_of_node_saves() -> None:
    node = node_of(leaf(2, 3).amax(1))
    assert _autograd.keeps(node, "keepdim")
    assert not _autograd.keeps(node_of(leaf(2).max()), "keepdim")


def test_modes_and_transforms_are_detected() -> None:
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


def test_as_number_reads_tensors_that_pytorch_made_of_numbers() -> None:
    made = _autograd.kept(node_of(leaf(2) * 0.1), "other")
    assert _autograd.as_number(made) == 0.1
    assert _autograd.as_number(torch.tensor(3)) == 3


def test_as_number_reads_no_tensor_inside_modes_and_transforms() -> None:
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
def test_results_are_read_from_saved_slots_unless_modified_or_freed(
    y: torch.Tensor, expected: list[tuple[str, int, list[float]]]
) -> None:
    assert results(y.grad_fn) == expected


def test_results_are_not_unpacked_from_packed_slots() -> None:
    unpacked: list[Any] = []
    unpack: Any = unpacked.append
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        y = (holding(0.0) * 2.0).exp()
    assert results(y.grad_fn) == []
    assert unpacked == []


# --- Freed saved tensors


def test_saved_is_at_hand_raises_once_the_graph_is_freed() -> None:
    inner = leaf(2) * 2
    outputs = inner.sin().cos()
    nodes = _autograd.walk([node_of(outputs)])
    assert _autograd.saved_is_at_hand(nodes)
    outputs.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        _autograd.saved_is_at_hand(nodes)


@pytest.mark.parametrize("is_kept", [True, False])
def test_graph_after_its_backward_pass_is_detected(is_kept: bool) -> None:  # noqa: FBT001
    middle = leaf(2).sin()
    outputs = (middle + middle * 2).view(2, 1).t() + 1
    assert not _autograd.was_freed(node_of(outputs))
    outputs.sum().backward(retain_graph=is_kept)
    assert _autograd.was_freed(node_of(outputs)) != is_kept
