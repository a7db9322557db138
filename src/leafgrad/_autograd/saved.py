"""What a node saved for backward, read without unpacking it."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import torch
from torch.autograd.graph import Node

from leafgrad._autograd.checkpoint import (
    cached_of_block,
    caches_of_block,
    given_to_block,
    taken_along,
)
from leafgrad._autograd.compiled import names_in_compiled_code
from leafgrad._autograd.node import forward_class
from leafgrad._autograd.tensor import (
    Facts,
    facts,
    inner_tensors,
    plain,
    storage_identity,
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
    for raw, public, name in SLOTS[type(node)]:
        slots += _slots(node, _held(node, raw), public, name)
    return (*_as_compiled(node, slots), *slots_on_ctx(node)) if custom else tuple(slots)


class SavedFacts(NamedTuple):
    """What a slot tells, in values that keep nothing alive; see `SavedTensor`.

    Attributes:
        node: The place of its node among those that are read.
        storage: The identity of its storage, None where there is no single one.
        written: The identity by which writes into it are known. A tensor that wraps others has no
            memory of its own, but is written into all the same.
    """

    node: int
    storage: int | None
    written: int | None
    name: str
    state: State
    shape: tuple[int | str, ...] | None
    dtype: torch.dtype | None
    device: torch.device | None
    nbytes: int | None
    is_parameter: bool | None
    saved_version: int | None
    current_version: int | None


def read_saved(nodes: Iterable[Node], parameters: Container[int | None]) -> list[SavedFacts]:
    """Read what many nodes saved, node by node, as `saved_slots` does of one.

    A storage among `parameters` is a parameter's, whatever shows it. What a tensor wraps follows
    it, with facts of its own.
    """
    return [
        SavedFacts(place, *row)
        for place, node in enumerate(nodes)
        for slot in saved_slots(node)
        for row in _rows(slot, parameters)
    ]


def _held(node: Node, raw: str) -> Any:
    """Return what an attribute holds, None where that was freed."""
    try:
        return getattr(node, raw)
    except RuntimeError:
        return None


def _rows(slot: Slot, parameters: Container[int | None]) -> Iterator[tuple[Any, ...]]:
    """Yield what a slot tells and, in rows of their own, what the tensors tell that it wraps.

    Of a packed slot, shape and dtype are those of something else. A tensor that wraps others has 0
    for its bytes, and None where it does not show the others.
    """
    name, state, tensor, *versions = slot
    if tensor is None:
        yield None, None, name, state, *_NOTHING, *versions
        return
    storage, (shape, dtype, device, nbytes, is_own) = facts(tensor, parameters)
    if state == "packed":
        shape = dtype = None
    inside = inner_tensors(tensor)
    if inside is None:
        yield storage, storage, name, state, shape, dtype, device, nbytes, is_own, *versions
        return
    written, nbytes = (storage_identity(tensor), 0) if inside else (None, None)
    yield None, written, name, state, shape, dtype, device, nbytes, is_own, *versions
    for path, part in inside:
        storage, (*seen, nbytes, is_parameters) = facts(part, parameters)
        if nbytes != 0:
            is_theirs = is_own or is_parameters
            yield storage, storage, f"{name}{path}", state, *seen, nbytes, is_theirs, None, None


_NOTHING: Facts = (None,) * 5


def _as_compiled(node: Node, slots: list[Slot]) -> Iterator[Slot]:
    """Yield the slots of a compiled function by the names that its code has for them."""
    known = enumerate(names_in_compiled_code(node))
    names = {f"saved_tensors[{number}]": name for number, name in known}
    for slot in slots:
        yield slot._replace(name=names.get(slot.name, slot.name))


class _Slots(dict[type, tuple[tuple[str, str, str], ...]]):
    """The attributes that hold slots, those that unpack what they hold, and their names, by type.

    Of PyTorch's own types only, which are there for good. Custom functions have one for all slots.
    """

    def __missing__(self, kind: type) -> tuple[tuple[str, str, str], ...]:
        if issubclass(kind, _CUSTOM) and kind is not _CUSTOM:
            return self[_CUSTOM]
        raw = [name for name in dir(kind) if name.startswith("_raw_saved_")]
        unpacked = [name.removeprefix("_raw") for name in raw]
        public = [name if hasattr(kind, name) else name.removeprefix("_") for name in unpacked]
        names = [name.removeprefix("_saved_") for name in public]
        return self.setdefault(kind, tuple(zip(raw, public, names, strict=True)))


SLOTS = _Slots()


@cache
def _setting_names(kind: type) -> tuple[str, ...]:
    held = {public for _, public, _ in SLOTS[kind]}
    return tuple(
        name
        for name in dir(kind)
        if name.startswith("_saved_")
        and name not in held
        and not re.search(r"_sym_|_size|scalar_type|options", name)
    )


def settings(node: Node) -> tuple[tuple[str, str], ...]:
    """Return what the node keeps beside tensors, such as a stride, by name and as text."""
    if isinstance(node, _CUSTOM):
        return ()  # it has none, and its class would be kept alive
    return tuple(
        (name.removeprefix("_saved_"), str(signed(value)))
        for name in _setting_names(type(node))
        if isinstance(value := getattr(node, name), (int, float, str, tuple))
    )


def signed(value: Any) -> Any:
    """Return a number, or several, where PyTorch shows a negative one without its sign."""
    if isinstance(value, tuple):
        return tuple(map(signed, value))
    return value - (1 << 64) if isinstance(value, int) and value >= 1 << 63 else value


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
    is_block = any(slot.state == "recompute" for slot in slots)
    given = [slot for one in _each(saved) for slot in _given_to_block(one)] if is_block else []
    return [*_with_versions_of_the_node(slots, partial(getattr, node, public)), *given]


def _unpacking(saved: Any) -> Callable[[], object]:
    return lambda: saved.unpack()  # noqa: PLW0108 - it has no unpack before 2.12


def _slot(name: str, saved: Any, unpack: Callable[[], object]) -> Slot | None:
    """Return one slot, None where it holds no tensor.

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

    That is what it was called with, and what it has in the cache of selective checkpointing. A
    block within another one may be given what that one will compute again.
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
        for place, (kept, version) in enumerate(cached_of_block(hook, saved.data)):
            now = plain(kept, "_version")
            wanted = now if version is None else version
            slots.append(Slot(f"checkpoint.cache[{place}]", "live", kept, wanted, now))
    return [slot for slot in slots if slot is not None]


@contextmanager
def caches_kept(nodes: Iterable[Node]) -> Iterator[None]:
    """Put back what a backward has used up of the caches of selective checkpointing.

    PyTorch lets them be used once, also by a backward that retains the graph.
    """
    hooked = _recomputed(nodes)
    caches = [cache for _, hook, holder in hooked for cache in caches_of_block(hook, holder)]
    kept = [copy(cache) for cache in caches]
    try:
        yield
    finally:
        for cache, before in zip(caches, kept, strict=True):
            cache.clear()
            (cache.update if isinstance(cache, dict) else cache.extend)(before)


def checkpointed_blocks(nodes: Iterable[Node]) -> list[list[Node]]:
    """Return the blocks of non-reentrant checkpoints that a backward will run again."""
    frames: dict[int, tuple[Any, list[Node]]] = {}
    for node, hook, _ in _recomputed(nodes):
        frame = taken_along(hook, "frame")
        if frame is not None:
            frames.setdefault(id(frame), (frame, []))[1].append(node)
    return [nodes for _, nodes in frames.values()]


def _recomputed(nodes: Iterable[Node]) -> Iterator[tuple[Node, Any, Any]]:
    """Yield the slots that a checkpoint fills again: node, unpack hook and what stands there."""
    for node in nodes:
        for raw, _, _ in SLOTS[type(node)]:
            for saved in _each(_held(node, raw)):
                hook = saved.unpack_hook
                if hook is not None and _hooked_state(hook) == "recompute":
                    yield node, hook, saved.data


def _each(held: Any) -> tuple[Any, ...]:
    """Return the slots behind one attribute, which holds one, a tuple, or None where freed."""
    if isinstance(held, tuple):
        return held
    return () if held is None else (held,)


def _complaint(unpack: Callable[..., object], *what: object) -> str | None:
    """Return what PyTorch, or Python, has against unpacking, None where it has nothing."""
    try:
        unpack(*what)
    except (RuntimeError, AttributeError) as error:
        return str(error)
    return None


def _hooked_state(unpack_hook: object) -> State:
    """Return the state of a slot with hooks, PyTorch's own told by where they are defined."""
    module = getattr(unpack_hook, "__module__", None)
    name = getattr(unpack_hook, "__qualname__", "")
    if module == "torch.utils.checkpoint":
        return "recompute"
    if module == "torch.autograd.graph" and name.startswith("save_on_cpu."):
        return "offloaded"
    return "packed"


def _packed_tensor(packed: object) -> torch.Tensor | None:
    """Return the one tensor that a pack hook made, alone or with notes beside it, as in a tuple."""
    parts = packed if isinstance(packed, list | tuple) else [packed]
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    return tensors[0] if len(tensors) == 1 else None


_EXPECTED = re.compile(r"is at version \d+; expected version (\d+)")


def _expected_version(complaint: str | None, current: int | None) -> int | None:
    """Return which version of a tensor backward expects, None where the complaint is another."""
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
    if len(sure) == len(slots) or disagreeing or any(slot.state != "live" for slot in slots):
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
    """Return whether something that the node saved has lost its graph by ``detach_()`` since.

    Backward refuses that, except where a hook packed it, or a custom function saved it. PyTorch
    shows it from 2.12 on.
    """
    return any(
        _is_detached(slot, partial(getattr, node, public))
        for raw, public, _ in SLOTS[type(node)]
        if isinstance(slot := _held(node, raw), _SAVED) and slot.unpack_hook is None
    )


def _is_detached(saved: Any, unpack: Callable[[], Any]) -> bool:
    """Return whether a tensor has lost its graph; of the node's own output the slot says alike."""
    if "detached in-place" not in (_complaint(_unpacking(saved)) or ""):
        return False
    return _complaint(unpack) is None and not plain(unpack(), "requires_grad")


def slots_on_ctx(node: Node) -> Iterator[Slot]:
    """Yield the tensors that a custom function keeps as attributes of its ctx, never freed."""
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
                (f"{place}[{key_text(key)}]", item)
                for key, item in items
                if not isinstance(item, int | float | str)  # of which there may be a million
            )


def key_text(key: object) -> str:
    """Spell a key; of what would read data or run code of the user's for that, tell the type."""
    return repr(key) if type(key) in {str, int} else type(key).__name__
