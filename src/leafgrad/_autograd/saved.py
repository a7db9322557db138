"""Read the tensors that a node saved for backward, without unpacking or recomputing any."""

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
    block_inputs,
    cached_results,
    captured_variable,
    result_caches,
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
    """One tensor that a node saved for backward, or a placeholder for it.

    Attributes:
        name: The name under which the node saved it.
        state: As in `SavedTensor.state`.
        tensor: The saved tensor of a live slot, the copy of an offloaded one, or the tensor that a
            hook packed. None if there is no single tensor.
        saved_version: The version that backward expects, None if it is unknown.
        current_version: The version now.
    """

    name: str
    state: State
    tensor: torch.Tensor | None = None
    saved_version: int | None = None
    current_version: int | None = None


def saved_slots(node: Node) -> tuple[Slot, ...]:
    """Return the tensors that a node saved, without calling hooks or recomputing anything.

    Each is a slot, which contains the tensor or stands for it. Slots that never held a tensor are
    left out. The slots of a custom function are freed as one slot. Do not keep the result for long:
    a slot keeps its tensor alive.
    """
    custom = forward_class(node) is not None
    slots: list[Slot] = []
    for raw, public, name in SLOTS[type(node)]:
        slots += _slots(node, _held(node, raw), public, name)
    return (*_as_compiled(node, slots), *slots_on_ctx(node)) if custom else tuple(slots)


class SavedFacts(NamedTuple):
    """The facts about one saved tensor, as values that keep no tensor alive; see `SavedTensor`.

    Attributes:
        node: The position of its node among the nodes that were read.
        storage: The identity of its storage, None if it has no single one.
        written: The identity under which writes into it are recorded. A tensor that wraps others
            has no storage but can be written to.
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
    """Return the facts about every tensor that the nodes saved, node by node.

    Tensors inside a tensor of a subclass follow it, with facts of their own.

    Args:
        nodes: The nodes.
        parameters: The identities of storages that belong to parameters.
    """
    return [
        SavedFacts(place, *row)
        for place, node in enumerate(nodes)
        for slot in saved_slots(node)
        for row in _rows(slot, parameters)
    ]


def _held(node: Node, raw: str) -> Any:
    """Return a node's saved tensor, or tuple of them, in the attribute `raw`; None if freed."""
    try:
        return getattr(node, raw)
    except RuntimeError:
        return None


def _rows(slot: Slot, parameters: Container[int | None]) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of `SavedFacts` after `node`, for a slot and for tensors inside its tensor.

    The shape and dtype of a packed slot are left out: they describe the packed tensor. A tensor
    that wraps others has 0 bytes, or None if the others cannot be found.
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
    """Yield the saved tensors of a compiled function under their names in the compiled code."""
    known = enumerate(names_in_compiled_code(node))
    names = {f"saved_tensors[{number}]": name for number, name in known}
    for slot in slots:
        yield slot._replace(name=names.get(slot.name, slot.name))


class _Slots(dict[type, tuple[tuple[str, str, str], ...]]):
    """A cache of the slots of each node type: raw attribute, unpacking attribute, short name.

    A slot is a place in which a node saves a tensor. Only PyTorch's own types are cached, because
    they exist forever. Custom functions share an entry.
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
    """Return the names of the attributes of node type `kind` that hold arguments, not tensors."""
    held = {public for _, public, _ in SLOTS[kind]}
    return tuple(
        name
        for name in dir(kind)
        if name.startswith("_saved_")
        and name not in held
        and not re.search(r"_sym_|_size|scalar_type|options", name)
    )


def settings(node: Node) -> tuple[tuple[str, str], ...]:
    """Return the name and text of each argument that the node saved, such as a stride."""
    if isinstance(node, _CUSTOM):
        # A custom function saves no arguments, and the cache would keep its class alive.
        return ()
    return tuple(
        (name.removeprefix("_saved_"), str(signed(value)))
        for name in _setting_names(type(node))
        if isinstance(value := getattr(node, name), (int, float, str, tuple))
    )


def signed(value: Any) -> Any:
    """Return a saved integer, or a tuple of them, with its sign.

    PyTorch shows a negative one as an unsigned 64-bit number. Other values are returned unchanged.
    """
    if isinstance(value, tuple):
        return tuple(map(signed, value))
    return value - (1 << 64) if isinstance(value, int) and value >= 1 << 63 else value


def _slots(node: Node, saved: Any, public: str, name: str) -> list[Slot]:
    """Return the saved tensors in one attribute of a node, as slots.

    Args:
        node: The node.
        saved: The value of the attribute: a saved tensor, a tuple of them, or None if freed.
        public: The attribute of the node that unpacks the same tensors.
        name: The name for the slots.
    """
    if saved is None:
        return [Slot(name, "freed")]
    if isinstance(saved, tuple):
        found = [_slot(f"{name}[{n}]", one, _unpacking(one)) for n, one in enumerate(saved)]
        slots = [slot for slot in found if slot is not None]
    else:
        slot = _slot(name, saved, partial(getattr, node, public))
        slots = [] if slot is None else [slot]
    if not slots:  # nothing is saved here, so reading the attribute calls no hook
        return [Slot(name, "freed")] if _complaint(getattr, node, public) else []
    if all(slot.saved_version is not None for slot in slots):
        return slots  # This is so for most nodes.
    given = [slot for one in _each(saved) for slot in _given_to_block(one)]
    return [*_with_versions_of_the_node(slots, partial(getattr, node, public)), *given]


def _unpacking(saved: Any) -> Callable[[], object]:
    """Return a function that unpacks a saved tensor."""
    return lambda: saved.unpack()  # noqa: PLW0108 - `unpack` exists since PyTorch 2.12


def _slot(name: str, saved: Any, unpack: Callable[[], object]) -> Slot | None:
    """Return the slot for one saved tensor, None if it is empty.

    A slot contains the tensor or stands for it. Calling `unpack` checks the version of the tensor.
    This fails if the tensor is the node's own output, which only the node can unpack. The expected
    version is then unknown.
    """
    kept, hook = saved.data, saved.unpack_hook
    if hook is not None:
        return Slot(name, _hooked_state(hook), _packed_tensor(kept))
    if kept is None:
        return None
    current = plain(kept, "_version")
    if current == 0:  # The tensor was never changed.
        return Slot(name, "live", kept, 0, 0)
    return Slot(name, "live", kept, _expected_version(_complaint(unpack), current), current)


def _given_to_block(saved: Any) -> list[Slot]:
    """Return the inputs and cached results of a saved tensor's checkpointed block, as slots.

    A slot contains a saved tensor or stands for it. An input may belong to an outer block, whose
    inputs are then included.
    """
    slots, ahead = [], [saved]
    while ahead:
        saved = ahead.pop()
        hook = saved.unpack_hook
        if hook is None or _hooked_state(hook) != "recompute":
            continue
        for place, kept in block_inputs(hook, saved.data):
            slots.append(_slot(f"checkpoint.inputs[{place}]", kept, _unpacking(kept)))
            ahead.append(kept)
        for place, (kept, version) in enumerate(cached_results(hook, saved.data)):
            now = plain(kept, "_version")
            wanted = now if version is None else version
            slots.append(Slot(f"checkpoint.cache[{place}]", "live", kept, wanted, now))
    return [slot for slot in slots if slot is not None]


@contextmanager
def preserve_checkpoint_caches(nodes: Iterable[Node]) -> Iterator[None]:
    """Restore the caches of selective checkpointing after a backward pass.

    Backward removes the entries that it uses, even if it retains the graph.
    """
    hooked = _recomputed(nodes)
    caches = [cache for _, hook, holder in hooked for cache in result_caches(hook, holder)]
    kept = [copy(cache) for cache in caches]
    try:
        yield
    finally:
        for cache, before in zip(caches, kept, strict=True):
            cache.clear()
            (cache.update if isinstance(cache, dict) else cache.extend)(before)


def checkpointed_blocks(nodes: Iterable[Node]) -> list[list[Node]]:
    """Return, for each non-reentrant checkpoint, the nodes whose tensors it will recompute."""
    frames: dict[int, tuple[Any, list[Node]]] = {}
    for node, hook, _ in _recomputed(nodes):
        frame = captured_variable(hook, "frame")
        if frame is not None:
            frames.setdefault(id(frame), (frame, []))[1].append(node)
    return [nodes for _, nodes in frames.values()]


def _recomputed(nodes: Iterable[Node]) -> Iterator[tuple[Node, Any, Any]]:
    """Yield each tensor that a checkpoint will recompute: node, unpack hook and placeholder."""
    for node in nodes:
        for raw, _, _ in SLOTS[type(node)]:
            for saved in _each(_held(node, raw)):
                hook = saved.unpack_hook
                if hook is not None and _hooked_state(hook) == "recompute":
                    yield node, hook, saved.data


def _each(held: Any) -> tuple[Any, ...]:
    """Return the saved tensors in an attribute's value (one, a tuple or None) as a tuple."""
    if isinstance(held, tuple):
        return held
    return () if held is None else (held,)


def _complaint(unpack: Callable[..., object], *what: object) -> str | None:
    """Call `unpack(*what)` and return the message of its error; None if it raises none."""
    try:
        unpack(*what)
    except (RuntimeError, AttributeError) as error:
        return str(error)
    return None


def _hooked_state(unpack_hook: object) -> State:
    """Return the state of a saved tensor with hooks, such as "packed" or "offloaded".

    It is recognized by the module that defines the hook.
    """
    module = getattr(unpack_hook, "__module__", None)
    name = getattr(unpack_hook, "__qualname__", "")
    if module == "torch.utils.checkpoint":
        return "recompute"
    if module == "torch.autograd.graph" and name.startswith("save_on_cpu."):
        return "offloaded"
    return "packed"


def _packed_tensor(packed: object) -> torch.Tensor | None:
    """Return the tensor that a pack hook returned, also inside a list or tuple; else None."""
    parts = packed if isinstance(packed, list | tuple) else [packed]
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    return tensors[0] if len(tensors) == 1 else None


_EXPECTED = re.compile(r"is at version \d+; expected version (\d+)")


def _expected_version(complaint: str | None, current: int | None) -> int | None:
    """Return the version that backward expects, read from the error message in `complaint`.

    Without an error, this is the current version. If the error is about something else, it is None.
    """
    if complaint is None:
        return current
    expected = _EXPECTED.search(complaint)
    return int(expected[1]) if expected else None


def _with_versions_of_the_node(slots: list[Slot], unpack_all: Callable[[], object]) -> list[Slot]:
    """Return the slots, with the expected versions that only the node itself can check filled in.

    These are the versions of its own outputs, and before PyTorch 2.12 all versions in a tuple.
    `unpack_all` reads the node's attribute. This checks all slots and would call their hooks, so
    slots with hooks are returned unchanged. An error does not name the slot, so it only helps if a
    single version is unknown.
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


def saved_a_detached_tensor(node: Node) -> bool:
    """Return whether ``detach_()`` was called on a tensor after the node had saved it.

    Backward then raises an error, except if a hook packed the tensor or a custom function saved it.
    PyTorch 2.12 and later show this; earlier versions return False.
    """
    return any(
        _is_detached(slot, partial(getattr, node, public))
        for raw, public, _ in SLOTS[type(node)]
        if isinstance(slot := _held(node, raw), _SAVED) and slot.unpack_hook is None
    )


def _is_detached(saved: Any, unpack: Callable[[], Any]) -> bool:
    """Return whether ``detach_()`` was called on a saved tensor.

    The saved tensor raises the same error if it is the node's own output. Therefore `unpack`, which
    reads it through the node, must succeed as well.
    """
    if "detached in-place" not in (_complaint(_unpacking(saved)) or ""):
        return False
    return _complaint(unpack) is None and not plain(unpack(), "requires_grad")


def slots_on_ctx(node: Node) -> Iterator[Slot]:
    """Yield a `Slot` for each tensor that a custom function stores on ``ctx``.

    A backward pass never frees these.
    """
    for place, kept in on_ctx(node):
        if isinstance(kept, torch.Tensor):
            yield Slot(f"ctx.{place}", "live", kept)


def on_ctx(node: Node) -> Iterator[tuple[str, object]]:
    """Yield the name and value of everything that a custom function stores on its ``ctx``.

    Lists, tuples and dicts are searched, each once because they may contain themselves. Numbers and
    strings inside them are skipped.
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
                if not isinstance(item, int | float | str)  # a list may hold a million
            )


def key_text(key: object) -> str:
    """Return the text of a dict key; for other types than `str` and `int`, the name of the type.

    ``repr()`` of other objects might read data or run the user's code.
    """
    return repr(key) if type(key) in {str, int} else type(key).__name__
