"""What came and what went between two traces."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from leafgrad._display.jsonable import json_types
from leafgrad._graph.diff_text import html, text
from leafgrad._graph.memory import GraphMemory, memory_of
from leafgrad._graph.nodes import TracedNode


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
        return text(self)

    def _repr_html_(self) -> str:
        return html(self)

    def to_dict(self) -> dict[str, Any]:
        """Give every field under its name, as JSON types only.

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
        fields: dict[str, Any] = json_types(self)
        return {**fields, "nbytes": self.nbytes}


def diff_of(before: Sequence[TracedNode], after: Sequence[TracedNode]) -> GraphDiff:
    """Compare the nodes of two graphs."""
    ledgers = memory_of(before), memory_of(after)
    return GraphDiff(
        came=_surplus(after, before),
        went=_surplus(before, after),
        before=ledgers[0],
        after=ledgers[1],
        kinds=tuple(_changes(_kinds(before, ledgers[0]), _kinds(after, ledgers[1]))),
    )


def _key(node: TracedNode) -> Hashable:
    return node.name, node.shapes, node.tensor_names, node.module


def _surplus(nodes: Sequence[TracedNode], others: Sequence[TracedNode]) -> tuple[TracedNode, ...]:
    """List the nodes that have no counterpart among the others."""
    unmatched = defaultdict[Hashable, int](int)
    for other in others:
        unmatched[_key(other)] += 1
    surplus = []
    for node in nodes:
        key = _key(node)
        unmatched[key] -= 1
        if unmatched[key] < 0:
            surplus.append(node)
    return tuple(surplus)


Kinds = dict[str, tuple[int, int]]


def _kinds(nodes: Iterable[TracedNode], memory: GraphMemory) -> Kinds:
    """Count the nodes of each kind, and the bytes that they keep."""
    nbytes = {share.name: share.bytes_without_parameters for share in memory.kinds}
    kinds: Kinds = {}
    for node in nodes:
        kinds[node.name] = kinds.get(node.name, (0, 0))[0] + 1, nbytes.get(node.name, 0)
    return kinds


def _changes(before: Kinds, after: Kinds) -> list[KindChange]:
    changes = [
        KindChange(
            name=name,
            nodes_before=before.get(name, (0, 0))[0],
            nodes_after=after.get(name, (0, 0))[0],
            bytes_before=before.get(name, (0, 0))[1],
            bytes_after=after.get(name, (0, 0))[1],
        )
        for name in before | after
        if before.get(name) != after.get(name)
    ]
    return sorted(changes, key=lambda change: -abs(change.bytes_after - change.bytes_before))
