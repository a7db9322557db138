"""What came and what went between two traces."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from leafgrad._display.jsonable import fields_as_json
from leafgrad._display.markup import preformatted
from leafgrad._display.table import table
from leafgrad._display.units import count, size
from leafgrad._graph.memory import GraphMemory, memory_of
from leafgrad._graph.nodes import TracedNode

MOST_KINDS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class KindChange:
    """How one kind of node changed between two traces.

    Attributes:
        name: The name of the node.
        nodes_before: How many there are in the first trace.
        nodes_after: How many there are in the second.
        bytes_before: What they keep alive in the first, without parameters.
        bytes_after: What they keep alive in the second, without parameters.
    """

    name: str
    nodes_before: int
    nodes_after: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, kw_only=True)
class GraphDiff:
    """What came and what went between two traces; `GraphTrace.diff` gives it.

    Nodes correspond if they have the same name, output shapes, tensor names and module; among
    equals the first correspond to the first.

    Attributes:
        came: The nodes of the second trace that the first one lacks.
        went: The nodes of the first trace that the second one lacks.
        before: What the first graph keeps alive.
        after: What the second graph keeps alive.
        kinds: The kinds of node of which there are more or fewer, or which keep more or less, from
            the largest change of bytes to the smallest.
    """

    came: tuple[TracedNode, ...]
    went: tuple[TracedNode, ...]
    before: GraphMemory
    after: GraphMemory
    kinds: tuple[KindChange, ...]

    @property
    def nbytes(self) -> int:
        """How many bytes more the second graph keeps alive, without parameters."""
        before, after = self.before.total, self.after.total
        return after.bytes_without_parameters - before.bytes_without_parameters

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Return every field under its name, as JSON types only.

        Returns:
            Nodes, memory and changes as dicts, and ``nbytes``.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.ones(3, requires_grad=True)
            >>> change = trace_graph(x.exp()).diff(trace_graph(2 * x)).to_dict()
            >>> [node["name"] for node in change["went"]], change["nbytes"]
            (['ExpBackward0'], -4)
        """
        return {**fields_as_json(self), "nbytes": self.nbytes}


def diff_of(before: Sequence[TracedNode], after: Sequence[TracedNode]) -> GraphDiff:
    """Compare the nodes of two graphs."""
    memory_before, memory_after = memory_of(before), memory_of(after)
    return GraphDiff(
        came=_surplus(after, before),
        went=_surplus(before, after),
        before=memory_before,
        after=memory_after,
        kinds=_kind_changes(_count_kinds(before, memory_before), _count_kinds(after, memory_after)),
    )


def _surplus(nodes: Sequence[TracedNode], others: Sequence[TracedNode]) -> tuple[TracedNode, ...]:
    """List the nodes that have no counterpart among the others."""
    unmatched = Counter(map(_key, others))
    surplus = []
    for node in nodes:
        key = _key(node)
        unmatched[key] -= 1
        if unmatched[key] < 0:
            surplus.append(node)
    return tuple(surplus)


def _key(node: TracedNode) -> Hashable:
    return node.name, node.shapes, node.tensor_names, node.module


Kinds = dict[str, tuple[int, int]]


def _count_kinds(nodes: Iterable[TracedNode], memory: GraphMemory) -> Kinds:
    """Count the nodes of each kind, and the bytes that they keep."""
    nbytes = {share.name: share.bytes_without_parameters for share in memory.kinds}
    counts = Counter(node.name for node in nodes)
    return {name: (number, nbytes.get(name, 0)) for name, number in counts.items()}


def _kind_changes(before: Kinds, after: Kinds) -> tuple[KindChange, ...]:
    changes = []
    for name in before | after:
        nodes_before, bytes_before = before.get(name, (0, 0))
        nodes_after, bytes_after = after.get(name, (0, 0))
        if (nodes_before, bytes_before) != (nodes_after, bytes_after):
            change = KindChange(
                name=name,
                nodes_before=nodes_before,
                nodes_after=nodes_after,
                bytes_before=bytes_before,
                bytes_after=bytes_after,
            )
            changes.append(change)
    return tuple(sorted(changes, key=lambda change: -abs(change.bytes_after - change.bytes_before)))


# --- In words


def _lines(diff: GraphDiff) -> Iterator[str]:
    """Sum up what came and what went, then list the kinds of node that changed."""
    nodes = f"{count(len(diff.went), 'node')} went, {len(diff.came)} came"
    before = size(diff.before.total.bytes_without_parameters)
    after = size(diff.after.total.bytes_without_parameters)
    yield f"{nodes}; {before} before, {after} after, without parameters"
    if diff.kinds:
        yield ""
        rows = [("node", "before", "after", "bytes before", "after")]
        rows += [
            (
                change.name,
                str(change.nodes_before),
                str(change.nodes_after),
                size(change.bytes_before),
                size(change.bytes_after),
            )
            for change in diff.kinds[:MOST_KINDS]
        ]
        yield from table(rows, right=(1, 2, 3, 4))
    if len(diff.kinds) > MOST_KINDS:
        yield f"and {count(len(diff.kinds) - MOST_KINDS, 'other kind')}"
