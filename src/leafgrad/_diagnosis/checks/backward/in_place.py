"""In-place changes of tensors that the graph saved, which make `backward()` fail."""

from collections.abc import Iterable, Iterator, Sequence
from inspect import signature
from typing import Any, NamedTuple, TypeVar

import torch
from torch.autograd.graph import Node
from torch.optim import Optimizer

from leafgrad import _autograd
from leafgrad._diagnosis.checks.backward.out_of_place import (
    changed_name,
    do_out_of_place,
    step_after_backward,
    subject_or_tensor,
)
from leafgrad._diagnosis.diagnosis import Diagnosis, Severity, diagnosis, spans
from leafgrad._diagnosis.situation import Situation, check, is_custom, living, number_of
from leafgrad._graph.nodes import Source, Write
from leafgrad._messages import message

Item = TypeVar("Item")


class Conflict(NamedTuple):
    """A saved tensor that was changed in place after it was saved.

    Attributes:
        node: The node that saved the tensor.
        saved: What autograd knows about the saved tensor.
        writes: The recorded writes since then, in order; empty without a recording.
        name: The name of a tensor in the same memory.
        is_buffer: Whether the memory belongs to a buffer.
        is_used_since: Whether another node saved the same memory after the write.
    """

    node: Node
    saved: _autograd.SavedFacts
    writes: tuple[Write, ...]
    name: str | None
    is_buffer: bool
    is_used_since: bool

    @property
    def key(self) -> object:
        """A key that is equal for conflicts that one finding reports together."""
        writes = frozenset((write.within or write.operation, write.source) for write in self.writes)
        kind = self.saved.is_parameter, self.is_buffer, is_custom(self.node)
        return (writes or (None if any(kind[:2]) else self.saved.written)), kind


def grouped(pairs: Iterable[tuple[object, Item]]) -> Iterator[list[Item]]:
    """Yield lists of the items with equal keys, in the order of the first item of each.

    `pairs` contains a key and an item each.
    """
    groups: dict[object, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    yield from groups.values()


@check("step-before-backward", "in-place")
def find_in_place_writes(situation: Situation) -> Iterator[Diagnosis]:
    """Find saved tensors that were changed in place, and the lines that changed them."""
    conflicts = [*_conflicts(situation)]
    sure = [one.node for one in conflicts if not is_custom(one.node)]
    situation.failing.update(map(number_of, sure))
    for group in grouped((one.key, one) for one in conflicts):
        yield _finding(situation, group)


def _conflicts(situation: Situation) -> Iterator[Conflict]:
    """Yield the saved tensors that were changed in place after they were saved."""
    parameters = _autograd.storages_of_parameters(situation.named.values())
    buffers = {*map(_autograd.storage_identity, situation.buffers)}
    rows = _autograd.read_saved(situation.live, parameters)
    fresh = {row.storage for row in rows if row.saved_version == row.current_version is not None}
    for row in rows:
        node, name = situation.live[row.node], situation.storage_names.get(row.written or 0)
        writes = _writes_since(situation, node, row)
        is_modified = row.saved_version not in {None, row.current_version}
        if is_modified or (row.saved_version is None and writes):
            is_buffer = name is not None and row.written in buffers
            is_used_since = row.storage is not None and row.storage in fresh
            yield Conflict(node, row, writes, name, is_buffer, is_used_since)


def _writes_since(situation: Situation, node: Node, row: _autograd.SavedFacts) -> tuple[Write, ...]:
    """Return the recorded writes to a tensor after a node saved it.

    `row` describes the saved tensor. If PyTorch does not show the version that the node expects,
    return only the last write.
    """
    log = situation.log
    if row.saved_version is not None or not row.current_version:
        return log.writes_between(row.written, row.saved_version, row.current_version)
    number, write = log.last_write(row.written)
    return () if write is None or number <= number_of(node) else (write,)


def _finding(situation: Situation, group: Sequence[Conflict]) -> Diagnosis:
    """Return the finding about conflicts that one line caused.

    A conflict is a tensor that a node saved and that was changed in place afterwards. `group`
    contains all conflicts of the line.
    """
    group = sorted(group, key=lambda one: number_of(one.node))
    first = group[0]
    writes = max((one.writes for one in group), key=len)
    at = writes[0].source if writes else None
    names = list(dict.fromkeys(one.name for one in group if one.name is not None))
    is_step = bool(writes and writes[0].within and writes[0].within != "load_state_dict")
    variant = _variant(group, writes)
    is_sure = not is_custom(first.node)
    # With several optimizers (as in a GAN), moving `step()` below this backward pass would let it
    # also use gradients from the other loss. So suggest the move only if there is one optimizer.
    is_alone = variant == "step" and len(living(Optimizer)) <= 1
    edits = step_after_backward(at) if is_alone else do_out_of_place(at, variant)
    return diagnosis(
        "step-before-backward" if is_step else "in-place",
        Severity.ERROR if is_sure else Severity.WARNING,
        at=at,
        variant=variant,
        secondary=spans("in-place.saved", situation.source_of(first.node), but=at),
        notes=_notes(first, is_sure=is_sure),
        edits=edits,
        **subject_or_tensor(names, at),
        name=changed_name(at) or "x",
    )


def _notes(first: Conflict, *, is_sure: bool) -> list[str]:
    """Return notes on which node saved the tensor and what wrote to it.

    `first` is the oldest conflict of the finding. `is_sure` is false if a custom function saved the
    tensor: its backward may not read it.
    """
    saver, name = _autograd.node_name(first.node), first.saved.name
    writers = [one.within or one.operation for one in first.writes]
    notes = [
        message("in-place.writer", node=saver, name=name, operation=writers[0])
        if writers
        else message("in-place.saver", node=saver, name=name)
    ]
    return notes if is_sure else [*notes, message("in-place.custom")]


def _variant(group: Sequence[Conflict], writes: Sequence[Write]) -> str:
    """Return the variant of the messages that fits the write and the changed tensor.

    A variant is a cause of the finding that has its own message texts. `group` contains the
    conflicts of the finding, and `writes` the longest list of writes among them.
    """
    saved, first = group[0].saved, writes[0] if writes else None
    if first is not None and first.within == "load_state_dict":
        return "loaded"
    if first is not None and first.within is not None:
        is_carried = any(one.is_used_since for one in group)
        return "carried" if is_carried else "step"
    if first is not None and first.operation.startswith("embedding"):
        return "max-norm"
    if saved.is_parameter:
        return "parameter"
    if group[0].is_buffer:
        return "buffer"
    return "" if first is None else _variant_of_operation(first, is_repeated=len(writes) > 1)


def _variant_of_operation(write: Write, *, is_repeated: bool) -> str:
    """Return the variant of the messages that fits the operation that wrote.

    A variant is a cause of the finding that has its own message texts, such as ``"view"``. `write`
    is the first write, and `is_repeated` says whether there are several.
    """
    if write.operation == "__setitem__":
        return "entries" if is_repeated else "entry"
    if _takes_inplace(write.operation.removesuffix("_")):
        return "argument"
    return "view" if write.through_view else ""


def _takes_inplace(name: str) -> bool:
    """Return whether `torch.nn.functional` has a function `name` with an argument ``inplace``."""
    function: Any = getattr(torch.nn.functional, name, None)
    try:
        return "inplace" in signature(function).parameters
    except (TypeError, ValueError):
        return False


@check("detached-in-place", "leaf-in-place")
def find_changed_histories(situation: Situation) -> Iterator[Diagnosis]:
    """Find changes of a tensor's place in the graph after a node had used the tensor.

    These are tensors that `detach_()` cut off, and leaves that a write turned into results.
    """
    detached = [node for node in situation.live if _autograd.saved_a_detached_tensor(node)]
    moved = [node for node in situation.live if _autograd.is_leaf_with_history(node)]
    situation.failing.update(map(number_of, [*detached, *moved]))
    if detached:
        calls = [call for call in situation.log.tape.calls if call.name == "detach_"]
        at = situation.log.source_at(calls[-1].place) if calls else None
        yield _finding_of_change("detached-in-place", at, situation.source_of(detached[0]))
    for node in moved:
        leaf = _autograd.leaf_variable(node)
        storage = None if leaf is None else _autograd.storage_identity(leaf)
        situation.explained.add(id(leaf))
        _, write = situation.log.last_write(storage)
        yield _finding_of_change("leaf-in-place", None if write is None else write.source, None)


def _finding_of_change(code: str, at: Source | None, saver: Source | None) -> Diagnosis:
    """Return the finding about a tensor whose place in the graph changed after its use.

    `at` is the line of the change, and `saver` the line of the use; None if unknown.
    """
    return diagnosis(
        code,
        Severity.ERROR,
        at=at,
        secondary=spans("in-place.saved", saver, but=at),
        edits=do_out_of_place(at, ""),
        name=changed_name(at) or "x",
        **subject_or_tensor([], at),
    )
