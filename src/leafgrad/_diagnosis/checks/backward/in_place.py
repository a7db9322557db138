"""Tensors that changed since the graph saved them, which makes `backward()` fail."""

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import Node
from torch.optim import Optimizer

from leafgrad import _autograd
from leafgrad._diagnosis.build import diagnosis
from leafgrad._diagnosis.checks.backward.nodes import (
    Names,
    grouped,
    is_custom,
    line_of_call,
    names_of_memory,
    number_of,
    source_of,
    spans,
)
from leafgrad._diagnosis.checks.backward.out_of_place import (
    changed_name,
    do_out_of_place,
    step_after_backward,
    subject_or_tensor,
)
from leafgrad._diagnosis.diagnosis import Diagnosis, Severity
from leafgrad._diagnosis.living import living
from leafgrad._diagnosis.registry import check
from leafgrad._diagnosis.situation import Situation
from leafgrad._graph.nodes import Source, Write
from leafgrad._messages import message


class Conflict(NamedTuple):
    """A saved tensor that was written to after it was saved.

    Attributes:
        node: The node that saved it.
        saved: What PyTorch tells about it.
        writes: The writes since then, the first one first; empty without a recording.
        name: The name of a tensor in the same memory.
        is_buffer: Whether that is a buffer.
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
        """What conflicts that become one finding have in common."""
        writes = frozenset((write.within or write.operation, write.source) for write in self.writes)
        kind = self.saved.is_parameter, self.is_buffer, is_custom(self.node)
        return (writes or (None if any(kind[:2]) else self.saved.written)), kind


@check("step-before-backward", "in-place")
def find_writes(situation: Situation) -> Iterator[Diagnosis]:
    """Find saved tensors that were written to, and what wrote to them."""
    with _autograd.unobserved():
        conflicts = [*_conflicts(situation)]
        sure = [one.node for one in conflicts if not is_custom(one.node)]
        situation.failing.update(map(number_of, sure))
        for group in grouped((one.key, one) for one in conflicts):
            yield _finding(situation, group)


def _conflicts(situation: Situation) -> Iterator[Conflict]:
    live, names = situation.live, names_of_memory(situation)
    parameters = _autograd.storages_of_parameters(situation.named.values())
    rows = _autograd.read_saved(live, parameters)
    fresh = {row.storage for row in rows if row.saved_version == row.current_version is not None}
    for row in rows:
        writes = _writes_since(situation, live[row.node], row)
        is_modified = row.saved_version not in {None, row.current_version}
        if is_modified or (row.saved_version is None and writes):
            yield _conflict(live[row.node], row, writes, names, fresh)


def _writes_since(situation: Situation, node: Node, row: _autograd.SavedFacts) -> tuple[Write, ...]:
    """Return the writes after a tensor was saved; of one without a version, only the last one."""
    log = situation.log
    if row.saved_version is not None or not row.current_version:
        return log.writes_between(row.written, row.saved_version, row.current_version)
    number, write = log.last_write(row.written)
    return () if write is None or number <= number_of(node) else (write,)


def _conflict(
    node: Node,
    row: _autograd.SavedFacts,
    writes: tuple[Write, ...],
    names: Names,
    fresh: set[int | None],
) -> Conflict:
    written = row.written or 0
    return Conflict(
        node=node,
        saved=row,
        writes=writes,
        name=names.first.get(written),
        is_buffer=written in names.first and written in names.buffers,
        is_used_since=row.storage is not None and row.storage in fresh,
    )


def _finding(situation: Situation, group: Sequence[Conflict]) -> Diagnosis:
    group = sorted(group, key=lambda one: number_of(one.node))
    first = group[0]
    writes = max((one.writes for one in group), key=len)
    at = writes[0].source if writes else None
    names = list(dict.fromkeys(one.name for one in group if one.name is not None))
    is_step = bool(writes and writes[0].within and writes[0].within != "load_state_dict")
    variant = _variant(group, writes)
    is_sure = not is_custom(first.node)
    # Behind the pass of another optimizer's loss, a step would use its gradients as well.
    is_alone = variant == "step" and len(living(Optimizer)) <= 1
    edits = step_after_backward(at) if is_alone else do_out_of_place(at, variant)
    return diagnosis(
        "step-before-backward" if is_step else "in-place",
        Severity.ERROR if is_sure else Severity.WARNING,
        at=at,
        variant=variant,
        secondary=spans("in-place.saved", source_of(situation, first.node), but=at),
        notes=_notes(first, is_sure=is_sure),
        edits=edits,
        **subject_or_tensor(names, at),
        name=changed_name(at) or "x",
    )


def _notes(first: Conflict, *, is_sure: bool) -> list[str]:
    saver, name = _autograd.node_name(first.node), first.saved.name
    writers = [one.within or one.operation for one in first.writes]
    notes = [
        message("in-place.writer", node=saver, name=name, operation=writers[0])
        if writers
        else message("in-place.saver", node=saver, name=name)
    ]
    return notes if is_sure else [*notes, message("in-place.custom")]


def _variant(group: Sequence[Conflict], writes: Sequence[Write]) -> str:
    """Return which advice fits: by what wrote, or by what was written to."""
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
    if write.operation == "__setitem__":
        return "entries" if is_repeated else "entry"
    if _takes_inplace(write.operation.removesuffix("_")):
        return "argument"
    return "view" if write.through_view else ""


def _takes_inplace(name: str) -> bool:
    function: Any = getattr(torch.nn.functional, name, None)
    try:
        return "inplace" in signature(function).parameters
    except (TypeError, ValueError):
        return False


@check("detached-in-place", "leaf-in-place")
def find_changed_histories(situation: Situation) -> Iterator[Diagnosis]:
    """Find tensors that `detach_()` cut off, and leaves that became results, since their use."""
    with _autograd.unobserved():
        detached = [node for node in situation.live if _autograd.keeps_detached(node)]
        moved = [node for node in situation.live if _autograd.is_leaf_with_history(node)]
        situation.failing.update(map(number_of, [*detached, *moved]))
        if detached:
            at = line_of_call(situation, "detach_")
            yield _changed("detached-in-place", at, source_of(situation, detached[0]))
        for node in moved:
            leaf = _autograd.leaf_variable(node)
            storage = None if leaf is None else _autograd.storage_identity(leaf)
            situation.explained.add(id(leaf))
            _, write = situation.log.last_write(storage)
            yield _changed("leaf-in-place", None if write is None else write.source, None)


def _changed(code: str, at: Source | None, saver: Source | None) -> Diagnosis:
    return diagnosis(
        code,
        Severity.ERROR,
        at=at,
        secondary=spans("in-place.saved", saver, but=at),
        edits=do_out_of_place(at, ""),
        name=changed_name(at) or "x",
        **subject_or_tensor([], at),
    )
