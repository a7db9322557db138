"""Changes that autograd does not notice: `backward()` runs but computes wrong gradients."""

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._diagnosis.checks.backward.in_place import grouped
from leafgrad._diagnosis.checks.backward.out_of_place import do_out_of_place, subject_or_tensor
from leafgrad._diagnosis.diagnosis import Diagnosis, Severity, diagnosis, spans
from leafgrad._diagnosis.situation import Situation, check, number_of
from leafgrad._graph.nodes import Source


class Change(NamedTuple):
    """A change of a tensor after a node used it.

    Attributes:
        storage: The id of the tensor's storage.
        at: The line that changed it.
        node: A node that used it.
    """

    storage: int
    at: Source | None
    node: Node


@check("silent-write")
def find_silent_writes(situation: Situation) -> Iterator[Diagnosis]:
    """Find writes to saved tensors that autograd does not count."""
    changes = [*_writes_through_data(situation), *_unseen_changes(situation)]
    for group in grouped((one.at, one) for one in changes):
        variant = "" if group[0].at else "unseen"
        yield _finding(situation, "silent-write", group, variant=variant)
    unwatched = [] if changes else [*filter(None, map(_unwatched, situation.live))]
    if unwatched and not situation.log.contents:
        at = situation.source_of(unwatched[0])
        yield diagnosis("silent-write", Severity.NOTE, at=at, variant="unwatched")


def _writes_through_data(situation: Situation) -> Iterator[Change]:
    """Yield writes through ``.data`` to tensors that a node saved before."""
    for row in _autograd.read_saved(situation.live, ()):
        node, storage = situation.live[row.node], row.written or 0
        number, write = situation.log.last_write(storage, is_hidden=True)
        if write is not None and number > number_of(node):
            yield Change(storage, write.source, node)


def _unseen_changes(situation: Situation) -> Iterator[Change]:
    """Yield saved tensors that changed without a recorded call.

    These are leaves with new ``.data`` and memory of NumPy arrays. Running statistics do not count:
    the backward pass does not read them.
    """
    log = situation.log
    replaced = {id(leaf): number for leaf, number in log.replaced_leaves()}
    for node in situation.live if replaced or log.contents else ():
        for name, _, tensor, saved, current in _autograd.saved_slots(node):
            if tensor is not None and not name.startswith("running_"):
                number = number_of(node)
                is_replaced = replaced.get(id(tensor), 0) > number
                if is_replaced or (saved == current and log.has_changed(number, tensor)):
                    yield Change(_autograd.storage_identity(tensor) or 0, None, node)


def _unwatched(node: Node) -> Node | None:
    """Return a node if it saved a constant that shares memory with a NumPy array; else None."""
    saved = (slot.tensor for slot in _autograd.saved_slots(node) if slot.tensor is not None)
    constants = (one for one in saved if not _autograd.plain(one, "requires_grad"))
    is_shared = any(_autograd.may_belong_to_array(one, becomes_array=False) for one in constants)
    return node if is_shared else None


@check("recomputed-differently")
def find_different_recomputations(situation: Situation) -> Iterator[Diagnosis]:
    """Find checkpointed blocks whose second run computes different values."""
    blocks = _autograd.checkpointed_blocks(situation.live)
    changes = [one for block in blocks for one in _writes_since(situation, block)]
    for group in grouped((one.at, one) for one in changes):
        yield _finding(situation, "recomputed-differently", group, variant="write")


def _writes_since(situation: Situation, block: list[Node]) -> Iterator[Change]:
    """Yield the writes to leaves of a checkpointed block after it ran."""
    newest = max(block, key=number_of)
    storages = map(_autograd.storage_identity, _leaves_of(block))
    for storage in dict.fromkeys(one or 0 for one in storages):
        number, write = situation.log.last_write(storage)
        if write is not None and number > number_of(newest):
            yield Change(storage, write.source, newest)


def _leaves_of(block: list[Node]) -> Iterator[Tensor]:
    """Yield the leaves that the nodes of a block use directly or through ``t()``."""
    for node in block:
        for after, _ in _autograd.next_functions(node):
            behind = () if after is None else _autograd.next_functions(after)
            ahead = [after, *(one for one, _ in behind if len(behind) == 1)]
            found = (_autograd.leaf_variable(one) for one in ahead if one is not None)
            yield from (leaf for leaf in found if leaf is not None)


def _finding(
    situation: Situation,
    code: str,
    group: list[Change],
    *,
    variant: str = "",
) -> Diagnosis:
    """Return the finding about all changes that one line made.

    `group` contains these changes, each of a tensor that a node had used before. `code` and
    `variant` are those of the finding.
    """
    at, known = group[0].at, situation.storage_names
    names = list(dict.fromkeys(known[one.storage] for one in group if one.storage in known))
    return diagnosis(
        code,
        Severity.ERROR,
        at=at,
        variant=variant,
        secondary=spans(f"{code}.used", situation.source_of(group[-1].node), but=at),
        edits=() if names else do_out_of_place(at, ""),
        **subject_or_tensor(names, at),
    )
