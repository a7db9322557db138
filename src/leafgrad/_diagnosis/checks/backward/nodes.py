"""What the checks of this package ask about live nodes and about memory."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._arguments.names import buffers_in
from leafgrad._diagnosis.diagnosis import Span
from leafgrad._diagnosis.situation import Situation
from leafgrad._graph.nodes import Source
from leafgrad._messages import message

Item = TypeVar("Item")

LEAF = -1
"""The number of a leaf's node: leaves have none, and are older than all operations."""


def number_of(node: Node) -> int:
    """Return the number of a node, by which later operations have higher ones."""
    number = _autograd.sequence_nr(node)
    return LEAF if number is None else number


def source_of(situation: Situation, node: Node) -> Source | None:
    """Return the line that made a node."""
    number = _autograd.sequence_nr(node)
    if number is not None:
        return situation.log.source_of(number)
    place = situation.log.refusals.get(_autograd.numbers_after(node))
    return situation.log.source_at(place)


def line_of_call(situation: Situation, operation: str) -> Source | None:
    """Return the line of the last recorded call of a function that cuts a tensor off its graph."""
    calls = [call for call in situation.log.tape.calls if call.name == operation]
    return situation.log.source_at(calls[-1].place) if calls else None


def is_custom(node: Node) -> bool:
    """Return whether a node runs Python code that may not read what it saved."""
    return _autograd.forward_class(node) is not None and not _autograd.is_compiled(node)


class Names(NamedTuple):
    """The names of memory.

    Attributes:
        first: The first name of a tensor in each storage, by the identity of the storage.
        buffers: The storages of buffers.
    """

    first: dict[int, str]
    buffers: set[int | None]


def names_of_memory(situation: Situation) -> Names:
    """Return what is named, by its memory."""
    first: dict[int, str] = {}
    for name, tensor in situation.named.items():
        first.setdefault(_autograd.storage_identity(tensor) or 0, name)
    first.pop(0, None)
    roots = situation.modules.values()
    return Names(first, {_autograd.storage_identity(b) for root in roots for b in buffers_in(root)})


def spans(key: str, *sources: Source | None, but: Source | None = None) -> tuple[Span, ...]:
    """Return spans with one label for the known lines, leaving out the line of the finding."""
    known = dict.fromkeys(one for one in sources if one is not None and one != but)
    return tuple(Span(source=one, label=message(key)) for one in known)


def grouped(pairs: Iterable[tuple[object, Item]]) -> Iterator[list[Item]]:
    """Yield the items with equal keys together, in the order in which the keys come first."""
    groups: dict[object, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    yield from groups.values()
