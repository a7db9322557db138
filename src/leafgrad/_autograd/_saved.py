"""What a node saved for backward, read without unpacking it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch.autograd.graph import Node

from leafgrad._autograd._checkpoint import given_to_block
from leafgrad._autograd._compiled import names_in_compiled_code
from leafgrad._autograd._node import forward_class
from leafgrad._autograd._tensor import (
    Facts,
    address_of_storage,
    extents,
    facts,
    is_parameter,
    plain,
)

_CUSTOM: Any = torch._C._FunctionBase
_SAVED: Any = torch._C._autograd.SavedTensor

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
    slots: list[Slot] = []
    for raw, public, name in _slot_names(_CUSTOM if custom else type(node)):
        slots += _slots(node, _held(node, raw), public, name)
    return (*_as_compiled(node, slots), *slots_on_ctx(node)) if custom else tuple(slots)


class SavedFacts(NamedTuple):
    """What a slot tells, but for its node and its storage; see `SavedTensor`."""

    name: str
    state: State
    shape: tuple[int | str, ...] | None = None
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    nbytes: int | None = None
    is_parameter: bool | None = None
    saved_version: int | None = None
    current_version: int | None = None


Told = tuple[Any, ...]


def facts_of(told: Iterable[Told]) -> list[SavedFacts]:
    """Give names to what `saved_facts` read, and sizes as numbers; equal facts become one value."""
    known = _Facts()
    return [known[one] for one in told]


class _Facts(dict[Told, SavedFacts]):
    def __missing__(self, told: Told) -> SavedFacts:
        name, state, sizes, *rest = told
        shape = extents(sizes) if type(sizes) is torch.Size else sizes
        return self.setdefault(told, SavedFacts(name, state, shape, *rest))


def saved_facts(
    nodes: Sequence[Node], parameters: Container[int | None]
) -> tuple[list[int], list[int | None], list[Told]]:
    """Read what many nodes saved, as `saved_slots` does, into values that keep nothing alive.

    Gives in columns the places of the nodes, the identities of the storages and all else, for
    `facts_of`. A storage among `parameters` is a parameter's, whatever shows it.
    """
    known, slots = dict[Told, Told](), _Slots()
    quick_row = _QuickReader(known, parameters).row
    places, storages, facts = [], [], []
    for place, node in enumerate(nodes):
        for names in slots[type(node)]:
            row = quick_row(node, names)
            if row is None:
                for slot in _slots_of(node, *names):
                    storage, told = _told_of(slot, parameters)
                    places.append(place)
                    storages.append(storage)
                    facts.append(known.setdefault(told, told))
            else:
                places.append(place)
                storages.append(row[0])
                facts.append(row[1])
    return places, storages, facts


class _Slots(dict[type, tuple[tuple[str, str, str], ...]]):
    """What `_slot_names` gives for nodes of each type; all that a custom function has is one."""

    def __missing__(self, kind: type) -> tuple[tuple[str, str, str], ...]:
        return self.setdefault(kind, _slot_names(_CUSTOM if issubclass(kind, _CUSTOM) else kind))


def _slots_of(node: Node, raw: str, public: str, name: str) -> Sequence[Slot]:
    if isinstance(node, _CUSTOM):
        return saved_slots(node)
    return _slots(node, _held(node, raw), public, name)


class _QuickReader:
    """Reads what nearly all slots hold: one tensor, as it is, that is no subclass's."""

    def __init__(self, known: dict[Told, Told], parameters: Container[int | None]) -> None:
        self.known = known
        self.parameters = parameters
        self.nbytes: dict[int, int] = {}

    def row(self, node: Node, names: tuple[str, str, str]) -> tuple[int, Told] | None:
        """Tell the identity of the storage and all else, None of what is not so.

        This is most of what it takes to read a graph, so it takes as few steps as it can.
        """
        raw, public, name = names
        try:
            saved = getattr(node, raw)
            if type(saved) is not _SAVED or saved.unpack_hook is not None:
                return None
            kept = saved.data
            kind = type(kept)
            if kind is not torch.Tensor and kind is not torch.nn.Parameter:
                return None
            storage = address_of_storage(kept)
            nbytes = self.nbytes.get(storage)
            if nbytes is None:
                nbytes = self.nbytes[storage] = kept.untyped_storage().nbytes()
            current = kept._version  # 0 where it was never written to, thus as it was saved
            expected = current and _expected_version(_complaint(getattr, node, public), current)
            is_own = (
                storage in self.parameters
                or kind is torch.nn.Parameter
                or hasattr(kept, "_is_param")
                or ((base := kept._base) is not None and is_parameter(base))
            )
            shape, dtype, device = kept.shape, kept.dtype, kept.device
            told = name, "live", shape, dtype, device, nbytes, is_own, expected, current
            return storage, self.known.setdefault(told, told)
        except (RuntimeError, TypeError):  # freed; sparse or nested; sizes without a hash
            return None


def _held(node: Node, raw: str) -> Any:
    """Give what an attribute holds, None where that was freed."""
    try:
        return getattr(node, raw)
    except RuntimeError:
        return None


def _told_of(slot: Slot, parameters: Container[int | None]) -> tuple[int | None, Told]:
    """Tell what a slot shows; of a packed one, shape and dtype are those of something else."""
    name, state, tensor, expected, current = slot
    if tensor is None:
        return None, (name, state, *_NOTHING, None, None)
    storage, shown = facts(tensor, parameters)
    if state == "packed":
        shown = None, None, *shown[2:]
    return storage, (name, state, *shown, expected, current)


_NOTHING: Facts = (None,) * 5


def _as_compiled(node: Node, slots: list[Slot]) -> Iterator[Slot]:
    """Give the slots of a compiled function the names that its code has for them."""
    known = enumerate(names_in_compiled_code(node))
    names = {f"saved_tensors[{number}]": name for number, name in known}
    for slot in slots:
        yield slot._replace(name=names.get(slot.name, slot.name))


@functools.cache  # of PyTorch's own types only, as it keeps them alive
def _slot_names(kind: type) -> tuple[tuple[str, str, str], ...]:
    """List the attributes that hold slots, those that unpack what they hold, and their names."""
    raw = [name for name in dir(kind) if name.startswith("_raw_saved_")]
    unpacked = [name.removeprefix("_raw") for name in raw]
    public = [name if hasattr(kind, name) else name.removeprefix("_") for name in unpacked]
    names = [name.removeprefix("_saved_") for name in public]
    return tuple(zip(raw, public, names, strict=True))


def _slots(node: Node, saved: Any, public: str, name: str) -> list[Slot]:
    """Read the slots behind one attribute, which holds one of them or a tuple, None when freed."""
    if saved is None:
        return [Slot(name, "freed")]
    if isinstance(saved, tuple):
        found = [_slot(f"{name}[{n}]", one, _unpacking(one)) for n, one in enumerate(saved)]
        slots = [slot for slot in found if slot is not None]
    else:
        slot = _slot(name, saved, partial(getattr, node, public))
        slots = [] if slot is None else [slot]
    if not slots:  # there is nothing that a hook could unpack
        return [Slot(name, "freed")] if _complaint(getattr, node, public) else []
    for slot in slots:
        if slot.saved_version is None:
            return _asked_further(slots, saved, partial(getattr, node, public))
    return slots


def _asked_further(slots: list[Slot], saved: Any, unpack_all: Callable[[], object]) -> list[Slot]:
    """Add what slots with hooks, or of the node's own outputs, do not tell by themselves."""
    held = saved if isinstance(saved, tuple) else (saved,)
    is_block = any(slot.state == "recompute" for slot in slots)
    given = [slot for one in held for slot in _given_to_block(one)] if is_block else []
    return [*_with_versions_of_the_node(slots, unpack_all), *given]


def _unpacking(saved: Any) -> Callable[[], object]:
    return lambda: saved.unpack()  # noqa: PLW0108 - it has no unpack before 2.12


def _slot(name: str, saved: Any, unpack: Callable[[], object]) -> Slot | None:
    """Read one slot, None where it holds no tensor.

    The slot alone cannot unpack what the node itself made, and says so at length.
    """
    kept, hook = saved.data, saved.unpack_hook
    if hook is not None:
        return Slot(name, _hooked_state(hook), _packed_tensor(kept))
    if kept is None:
        return None
    current = plain(kept, "_version")
    if current == 0:  # never written to, thus as it was saved
        return Slot(name, "live", kept, 0, 0)
    return Slot(name, "live", kept, _expected_version(_complaint(unpack), current), current)


def _given_to_block(saved: Any) -> list[Slot]:
    """Read what a checkpointed block, of which this is a slot, will be given once more.

    A block within another one may be given what that one will compute again.
    """
    slots, ahead = [], [saved]
    while ahead:
        saved = ahead.pop()
        hook = saved.unpack_hook
        if hook is None or _hooked_state(hook) != "recompute":
            continue
        for place, kept in given_to_block(hook, saved.data):
            slots.append(_slot(f"checkpoint.inputs[{place}]", kept, _unpacking(kept)))
            ahead.append(kept)
    return [slot for slot in slots if slot is not None]


def _complaint(unpack: Callable[..., object], *what: object) -> str | None:
    """Tell what PyTorch, or Python, has against unpacking."""
    try:
        unpack(*what)
    except (RuntimeError, AttributeError) as error:
        return str(error)
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


def _expected_version(complaint: str | None, current: int | None) -> int | None:
    """Tell which version of a tensor backward expects, None where the complaint is another."""
    if complaint is None:
        return current
    expected = _EXPECTED.search(complaint)
    return int(expected[1]) if expected else None


def _with_versions_of_the_node(slots: list[Slot], unpack_all: Callable[[], object]) -> list[Slot]:
    """Fill in the versions that the node alone can check: of its own outputs, and before 2.12 all.

    It checks all slots of the attribute, calling their hooks, and complains of one, so it is asked
    where there is no hook, and a complaint is an answer where one slot alone can be meant.
    """
    sure = [slot for slot in slots if slot.saved_version is not None]
    disagreeing = [slot for slot in sure if slot.saved_version != slot.current_version]
    if disagreeing or any(slot.state != "live" for slot in slots):
        return slots
    complaint = _complaint(unpack_all)
    if complaint is not None and len(slots) - len(sure) > 1:
        return slots
    told = [_expected_version(complaint, slot.current_version) for slot in slots]
    return [
        slot if slot.saved_version is not None else slot._replace(saved_version=version)
        for slot, version in zip(slots, told, strict=True)
    ]


def keeps_detached(node: Node) -> bool:
    """Say whether something that the node saved has lost its graph by ``detach_()`` since.

    Backward refuses that, except where a hook packed it, or a custom function saved it. PyTorch
    shows it from 2.12 on.
    """
    return any(
        _is_detached(slot, partial(getattr, node, public))
        for raw, public, _ in _slot_names(type(node))
        if isinstance(slot := _held(node, raw), _SAVED) and slot.unpack_hook is None
    )


def _is_detached(saved: Any, unpack: Callable[[], Any]) -> bool:
    """Tell what has lost its graph from what the node itself made, of which the slot says alike."""
    if "detached in-place" not in (_complaint(_unpacking(saved)) or ""):
        return False
    return _complaint(unpack) is None and not plain(unpack(), "requires_grad")


def slots_on_ctx(node: Node) -> Iterator[Slot]:
    """Find the tensors that a custom function keeps as attributes of its ctx, never freed."""
    for place, kept in on_ctx(node):
        if isinstance(kept, torch.Tensor):
            yield Slot(f"ctx.{place}", "live", kept)


def on_ctx(node: Node) -> Iterator[tuple[str, object]]:
    """Yield what a custom function keeps as attributes of its ctx, but for numbers and the like.

    Lists, tuples and dicts are looked into, once each, as they may hold themselves.
    """
    ahead: list[tuple[str, object]] = list(vars(node).items())
    seen = set[int]()
    for place, kept in ahead:
        yield place, kept
        if isinstance(kept, dict | list | tuple) and id(kept) not in seen:
            seen.add(id(kept))
            items = kept.items() if isinstance(kept, dict) else enumerate(kept)
            ahead += (
                (f"{place}[{key!r}]", item)
                for key, item in items
                if not isinstance(item, int | float | str)  # of which there may be a million
            )
