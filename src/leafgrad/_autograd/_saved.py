"""What a node saved for backward, read without unpacking it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import torch
from torch.autograd.graph import Node

from leafgrad._autograd._node import forward_class
from leafgrad._autograd._tensor import plain

State = Literal["live", "freed", "packed", "offloaded", "recompute"]


class Slot(NamedTuple):
    """What a node keeps in one place for backward.

    A live slot shows its tensor, an offloaded one the copy, a packed one the tensor that a hook
    made of it, if it did.
    """

    name: str
    state: State
    tensor: torch.Tensor | None = None
    saved_version: int | None = None
    current_version: int | None = None


def saved_slots(node: Node) -> tuple[Slot, ...]:
    """Read what the node saved: no hook is called, nothing recomputed, nothing complains.

    A slot that never held a tensor is left out, and a custom function's slots are freed as one.
    Drop the slots when the facts are read: each of them keeps its tensor alive.
    """
    custom = forward_class(node) is not None
    names = _slot_names(torch._C._FunctionBase if custom else type(node))
    slots = [slot for raw, public in names for slot in _slots(node, raw, public)]
    return (*slots, *slots_on_ctx(node)) if custom else tuple(slots)


@functools.cache  # of PyTorch's own types only, as it keeps them alive
def _slot_names(kind: type) -> tuple[tuple[str, str], ...]:
    """Pair each attribute that holds slots with the one that unpacks what they hold."""
    raw = [name for name in dir(kind) if name.startswith("_raw_saved_")]
    unpacked = [name.removeprefix("_raw") for name in raw]
    public = [name if hasattr(kind, name) else name.removeprefix("_") for name in unpacked]
    return tuple(zip(raw, public, strict=True))


def _slots(node: Node, raw: str, public: str) -> list[Slot]:
    """Read the slots behind one attribute, which holds one of them or a tuple."""
    name = public.removeprefix("_saved_")
    try:
        saved = getattr(node, raw)
    except RuntimeError:
        return [Slot(name, "freed")]
    named = [(name, saved)]
    if isinstance(saved, tuple):
        named = [(f"{name}[{number}]", slot) for number, slot in enumerate(saved)]
    slots = [slot for name, saved in named if (slot := _slot(name, saved)) is not None]
    if None in [slot.saved_version for slot in slots]:
        return _with_version_of_own_output(node, public, slots)
    return slots


def _slot(name: str, saved: Any) -> Slot | None:
    """Read one slot, None where it never held a tensor."""
    kept, hook = saved.data, saved.unpack_hook
    if hook is not None:
        return Slot(name, _hooked_state(hook), _packed_tensor(kept))
    if kept is not None:
        current = plain(kept, "_version")
        return Slot(name, "live", kept, _expected_version(saved.unpack, current), current)
    try:
        saved.unpack()
    except RuntimeError:
        return Slot(name, "freed")
    return None


def _hooked_state(unpack_hook: object) -> State:
    """Tell the hooks that PyTorch brings along from anybody's, by where the hook is defined."""
    module = getattr(unpack_hook, "__module__", None)
    name = getattr(unpack_hook, "__qualname__", "")
    if module == "torch.utils.checkpoint":
        return "recompute"
    if module == "torch.autograd.graph" and name.startswith("save_on_cpu."):
        return "offloaded"
    return "packed"


def _packed_tensor(packed: object) -> torch.Tensor | None:
    """Give the one tensor that a pack hook made, alone or with notes beside it, as in a tuple."""
    parts = packed if isinstance(packed, list | tuple) else [packed]
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    return tensors[0] if len(tensors) == 1 else None


_EXPECTED = re.compile(r"is at version \d+; expected version (\d+)")


def _expected_version(unpack: Callable[[], object], current: int) -> int | None:
    """Tell which version of a tensor backward expects, None where the complaint is another."""
    if current == 0:  # never written to, thus as it was saved
        return 0
    try:
        unpack()
    except RuntimeError as error:
        expected = _EXPECTED.search(str(error))
        return int(expected[1]) if expected else None
    return current


def _with_version_of_own_output(node: Node, public: str, slots: list[Slot]) -> list[Slot]:
    """Fill in the version of a saved output of the node itself, which only the node can check.

    It checks all slots of the attribute and complains of one, so the answer is sure only where
    one slot alone can be meant.
    """
    unsure = [slot for slot in slots if slot.saved_version is None]
    agreeing = [slot for slot in slots if slot.saved_version == slot.current_version]
    match unsure:
        case [Slot(current_version=int(current)) as own]:
            if len(agreeing) + 1 == len(slots):
                version = _expected_version(lambda: getattr(node, public), current)
                return [s._replace(saved_version=version) if s is own else s for s in slots]
    return slots


def slots_on_ctx(node: Node) -> Iterator[Slot]:
    """Find the tensors that a custom function keeps as attributes of its ctx, never freed."""
    for name, kept in vars(node).items():
        if isinstance(kept, torch.Tensor):
            yield Slot(f"ctx.{name}", "live", kept)
        elif isinstance(kept, list | tuple):
            for number, item in enumerate(kept):
                if isinstance(item, torch.Tensor):
                    yield Slot(f"ctx.{name}[{number}]", "live", item)
