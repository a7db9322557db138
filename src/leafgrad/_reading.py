"""What was read off a live graph, in columns of plain values, and the nodes that they make up."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, repeat
from operator import itemgetter
from typing import NamedTuple

from leafgrad import _autograd
from leafgrad._bulk import in_bulk
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


class Kind(NamedTuple):
    """What all nodes of one kind have in common."""

    name: str
    is_leaf: bool
    custom_function: CustomFunction | None
    hides_saved: bool


@dataclass(frozen=True, slots=True)
class Saved:
    """The saved tensors of all nodes: whose they are, and what they tell.

    Attributes:
        places: The places of their nodes, in order.
        storages: The identities of their storages.
        facts: What else they tell by themselves.
        writes: What wrote into some of them since, by their own place among all.
    """

    places: list[int] = field(default_factory=list)
    storages: list[int | None] = field(default_factory=list)
    facts: list[_autograd.SavedFacts] = field(default_factory=list)
    writes: dict[int, tuple[Write, ...]] = field(default_factory=dict)

    def by_node(self, nodes: int) -> list[tuple[SavedTensor, ...]]:
        """Make the saved tensors, and give those of each node together."""
        names = _autograd.SavedFacts.__annotations__
        facts = {name: map(itemgetter(n), self.facts) for n, name in enumerate(names)}
        count = len(self.places)
        saved = in_bulk(
            SavedTensor,
            count,
            node=self.places,
            storage=self._numbers(),
            writes=map(self.writes.get, range(count), repeat(())),
            **facts,
        )
        tensors = iter(saved)
        counts = Counter(self.places)
        return [tuple(islice(tensors, counts.get(place, 0))) for place in range(nodes)]

    def _numbers(self) -> Iterator[int | None]:
        """Number the storages as they come."""
        distinct = [one for one in dict.fromkeys(self.storages) if one is not None]
        numbers: dict[int | None, int] = {one: number for number, one in enumerate(distinct)}
        return map(numbers.get, self.storages)


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
        named: What is known from tensors, by the place of the node. A leaf without an entry has no
            name and retains no gradient.
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
        places = range(len(self.kinds))
        named = [
            self.named.get(place) or (_UNNAMED_LEAF if kind.is_leaf else _UNNAMED)
            for place, kind in enumerate(self.kinds)
        ]
        origins = [self.origins.get(place, _UNKNOWN) for place in places]
        nodes = in_bulk(
            TracedNode,
            len(places),
            index=places,
            name=[kind.name for kind in self.kinds],
            shapes=self._shapes(),
            dtype=[outputs[0].dtype for outputs in self.outputs],
            device=[outputs[0].device for outputs in self.outputs],
            edges=_edges(self.wiring),
            saved=self.saved.by_node(len(places)),
            tensor_names=[one.names for one in named],
            is_leaf=[kind.is_leaf for kind in self.kinds],
            retains_grad=[one.retains_grad for one in named],
            custom_function=[kind.custom_function for kind in self.kinds],
            hides_saved=[kind.hides_saved for kind in self.kinds],
            created=self._created(),
            module=[origin.module for origin in origins],
            source=[origin.source for origin in origins],
            derivative_order=self._orders(),
        )
        return self.complete(tuple(nodes))

    def _shapes(self) -> list[tuple[Shape | None, ...]]:
        """List the shapes that each operation made; what was read as one value stays one."""
        distinct = {id(outputs): outputs for outputs in self.outputs}
        shapes = {key: tuple([o.shape for o in outputs]) for key, outputs in distinct.items()}
        return [shapes[id(outputs)] for outputs in self.outputs]

    def _created(self) -> Iterator[int | None]:
        """Give the place of each node among all, in the order in which they were made."""
        ordered = sorted(number for number in self.numbers if number is not None)
        places: dict[int | None, int] = {number: place for place, number in enumerate(ordered)}
        return map(places.get, self.numbers)

    def _orders(self) -> Sequence[int | None]:
        """Give the order of derivative of each node, where it is known."""
        if self.passes is None:
            return [None] * len(self.kinds)
        return self.passes.orders(self.numbers, [*self.wiring.edges()])


_UNNAMED, _UNNAMED_LEAF, _UNKNOWN = Named(), Named(retains_grad=False), Origin()


def _edges(wiring: _autograd.Wiring) -> list[tuple[TracedEdge, ...]]:
    """Make the edges of all nodes as they were found, and give those of each node together."""
    places: dict[int | None, int] = {number: place for place, number in enumerate(wiring.order)}
    sources: list[int] = []
    output_nrs: list[int] = []
    for number, (start, stop) in enumerate(pairwise(wiring.starts)):
        sources += repeat(places[number], stop - start)
        output_nrs += range(stop - start)
    edges = in_bulk(
        TracedEdge,
        len(sources),
        source=sources,
        target=map(places.get, wiring.targets),
        input_nr=wiring.input_nrs,
        output_nr=output_nrs,
    )
    starts = wiring.starts
    return [tuple(edges[starts[number] : starts[number + 1]]) for number in wiring.order]
