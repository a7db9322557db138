"""What was read off a live graph, in columns of plain values, and the nodes that they make up."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from leafgrad import _autograd
from leafgrad._passes import Passes
from leafgrad._traced import (
    CustomFunction,
    SavedTensor,
    Shape,
    Source,
    TracedEdge,
    TracedNode,
    Write,
)

Nodes = tuple[TracedNode, ...]
Ends = list[tuple[int | None, int]]


class Kind(NamedTuple):
    """What all nodes of one kind have in common."""

    name: str
    is_leaf: bool
    custom_function: CustomFunction | None
    hides_saved: bool


class Kept(NamedTuple):
    """What a saved tensor tells, but for its node and its storage; see `SavedTensor`."""

    name: str
    state: _autograd.State
    shape: Shape | None = None
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    nbytes: int | None = None
    is_parameter: bool | None = None
    saved_version: int | None = None
    current_version: int | None = None
    writes: tuple[Write, ...] = ()


_FACTS = tuple(Kept.__annotations__)


@dataclass(frozen=True, slots=True)
class Saved:
    """The saved tensors of all nodes: whose they are, and what they tell.

    Attributes:
        places: The places of their nodes, in order.
        storages: The numbers of their storages.
        kept: The rest.
    """

    places: list[int] = field(default_factory=list)
    storages: list[int | None] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    def by_node(self) -> dict[int, tuple[SavedTensor, ...]]:
        """Make the saved tensors, those of a node together."""
        groups = defaultdict[int, list[SavedTensor]](list)
        for place, storage, kept in zip(self.places, self.storages, self.kept, strict=True):
            facts: dict[str, Any] = dict(zip(_FACTS, kept, strict=True))
            saved = SavedTensor(node=place, storage=storage, **facts)
            groups[place].append(saved)
        return {place: tuple(group) for place, group in groups.items()}


class Named(NamedTuple):
    """What the tensors at hand tell about a node."""

    names: tuple[str, ...] = ()
    retains_grad: bool | None = None


class Origin(NamedTuple):
    """Where a recording says that a node was made."""

    module: str | None = None
    source: Source | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A graph in columns, from which its nodes are made when somebody asks for them.

    Most of what a node has to say is said by many nodes, so a column holds it once. A big graph is
    read in a fraction of the time that it takes to make its nodes.

    Attributes:
        wiring: Who leads to whom.
        roots: The places of the roots.
        kinds: The kind of each node.
        outputs: What its operation made.
        numbers: The sequence number of each node, None for a leaf.
        saved: What the nodes keep.
        named: What is known from tensors, by the place of the node.
        origins: Where a node was made, by its place.
        passes: The backward passes that made nodes, None where nothing was recorded.
        complete: What is to be added to the nodes, all of them together.
    """

    wiring: _autograd.Wiring
    roots: list[int]
    kinds: list[Kind]
    outputs: list[tuple[_autograd.ForwardOutput, ...]]
    numbers: list[int | None]
    saved: Saved
    named: dict[int, Named]
    origins: dict[int, Origin]
    passes: Passes | None
    complete: Callable[[Nodes], Nodes]

    def nodes(self) -> Nodes:
        """Make the nodes."""
        saved = self.saved.by_node()
        edges = [*self.wiring.edges()]
        columns = self.kinds, self.outputs, self._created(), edges, self._orders(edges)
        rows = enumerate(zip(*columns, strict=True))
        nodes = [self._node(index, saved.get(index, ()), *facts) for index, facts in rows]
        return self.complete(tuple(nodes))

    def _created(self) -> Iterator[int | None]:
        """Give the place of each node among all, in the order in which they were made."""
        ordered = sorted(number for number in self.numbers if number is not None)
        places: dict[int | None, int] = {number: place for place, number in enumerate(ordered)}
        return map(places.get, self.numbers)

    def _orders(self, edges: list[Ends]) -> Sequence[int | None]:
        """Give the order of derivative of each node, where it is known."""
        if self.passes is None:
            return [None] * len(edges)
        return self.passes.orders(self.numbers, edges)

    def _node(
        self,
        index: int,
        saved: tuple[SavedTensor, ...],
        kind: Kind,
        outputs: Sequence[_autograd.ForwardOutput],
        created: int | None,
        ends: Ends,
        order: int | None,
    ) -> TracedNode:
        """Make one node."""
        named = self.named.get(index, _UNNAMED)
        origin = self.origins.get(index, _UNKNOWN)
        return TracedNode(
            index=index,
            name=kind.name,
            shapes=tuple([output.shape for output in outputs]),
            dtype=outputs[0].dtype,
            device=outputs[0].device,
            edges=_edges(index, ends),
            saved=saved,
            tensor_names=named.names,
            is_leaf=kind.is_leaf,
            retains_grad=named.retains_grad,
            custom_function=kind.custom_function,
            hides_saved=kind.hides_saved,
            created=created,
            module=origin.module,
            source=origin.source,
            derivative_order=order,
        )


_UNNAMED, _UNKNOWN = Named(), Origin()


def _edges(source: int, ends: Ends) -> tuple[TracedEdge, ...]:
    """Make the edges of one node."""
    return tuple(
        [
            TracedEdge(source=source, target=target, input_nr=input_nr, output_nr=output_nr)
            for output_nr, (target, input_nr) in enumerate(ends)
        ]
    )
