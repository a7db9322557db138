"""The difference between two traces."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from leafgrad._display.markup import preformatted
from leafgrad._display.table import table
from leafgrad._display.units import count, size
from leafgrad._graph.memory import GraphMemory, memory_of
from leafgrad._graph.nodes import TracedNode
from leafgrad._messages import message

MOST_KINDS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class KindChange:
    """The change of one kind of node between two traces.

    Attributes:
        name: The name of the node.
        nodes_before: The number of such nodes in the first trace.
        nodes_after: The number in the second trace.
        bytes_before: The bytes that they keep alive in the first trace, without parameters.
        bytes_after: The bytes in the second trace, without parameters.
    """

    name: str
    nodes_before: int
    nodes_after: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, kw_only=True)
class GraphDiff:
    """The difference between two traces; `GraphTrace.diff` returns it.

    Two nodes correspond if they have the same name, output shapes, tensor names and module. If
    several are equal, they correspond in order.

    Attributes:
        came: The nodes of the second trace without a counterpart in the first.
        went: The nodes of the first trace without a counterpart in the second.
        before: The memory that the first graph keeps alive.
        after: The memory that the second graph keeps alive.
        kinds: The kinds of node whose number or bytes changed, the largest change of bytes first.
    """

    came: tuple[TracedNode, ...]
    went: tuple[TracedNode, ...]
    before: GraphMemory
    after: GraphMemory
    kinds: tuple[KindChange, ...]

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def diff_of(before: Sequence[TracedNode], after: Sequence[TracedNode]) -> GraphDiff:
    """Compare the nodes of two graphs."""
    memories = memory_of(before), memory_of(after)
    return GraphDiff(
        came=_surplus(after, before),
        went=_surplus(before, after),
        before=memories[0],
        after=memories[1],
        kinds=_kind_changes(_count_kinds(before, memories[0]), _count_kinds(after, memories[1])),
    )


def _surplus(nodes: Sequence[TracedNode], others: Sequence[TracedNode]) -> tuple[TracedNode, ...]:
    """Return the nodes that have no counterpart among the others."""
    unmatched = Counter(map(_key, others))
    surplus = []
    for node in nodes:
        unmatched[_key(node)] -= 1
        if unmatched[_key(node)] < 0:
            surplus.append(node)
    return tuple(surplus)


def _key(node: TracedNode) -> Hashable:
    return node.name, node.shapes, node.tensor_names, node.module


Kinds = dict[str, tuple[int, int]]


def _count_kinds(nodes: Iterable[TracedNode], memory: GraphMemory) -> Kinds:
    """Return the number of nodes of each kind, and the bytes that they keep alive."""
    nbytes = {share.name: share.bytes_without_parameters for share in memory.kinds}
    counts = Counter(node.name for node in nodes)
    return {name: (number, nbytes.get(name, 0)) for name, number in counts.items()}


def _kind_changes(before: Kinds, after: Kinds) -> tuple[KindChange, ...]:
    """Return the kinds whose numbers differ, the largest change of bytes first."""
    changes = []
    for name in before | after:
        old, new = before.get(name, (0, 0)), after.get(name, (0, 0))
        if old != new:
            nodes = {"nodes_before": old[0], "nodes_after": new[0]}
            changes.append(KindChange(name=name, bytes_before=old[1], bytes_after=new[1], **nodes))
    return tuple(sorted(changes, key=lambda change: -abs(change.bytes_after - change.bytes_before)))


def _lines(diff: GraphDiff) -> Iterator[str]:
    """Sum up what came and what went, then list the kinds of node that changed."""
    yield message(
        "diff.summary",
        went=count(len(diff.went), "node"),
        came=len(diff.came),
        before=size(diff.before.total.bytes_without_parameters),
        after=size(diff.after.total.bytes_without_parameters),
    )
    if diff.kinds:
        yield ""
        rows = [tuple(message("diff.heading").split(", "))]
        for change in diff.kinds[:MOST_KINDS]:
            counts = str(change.nodes_before), str(change.nodes_after)
            rows.append((change.name, *counts, size(change.bytes_before), size(change.bytes_after)))
        yield from table(rows, right=(1, 2, 3, 4))
    if len(diff.kinds) > MOST_KINDS:
        yield message("text.folded.more", what=count(len(diff.kinds) - MOST_KINDS, "other kind"))
