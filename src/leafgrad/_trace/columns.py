"""What was read off a live graph, in columns of plain values, and the nodes that they make up."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise, repeat
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from leafgrad import _autograd
from leafgrad._graph.nodes import (
    CustomFunction,
    SavedTensor,
    Shape,
    Source,
    TracedEdge,
    TracedNode,
    Write,
)
from leafgrad._record.differentiable_passes import DifferentiablePasses
from leafgrad._trace.bulk import in_bulk

Nodes = tuple[TracedNode, ...]
Shapes = tuple[Shape | None, ...]


class Kind(NamedTuple):
    """What all nodes of one kind have in common."""

    name: str
    is_leaf: bool
    custom_function: CustomFunction | None
    hides_saved: bool


class Saved(NamedTuple):
    """The saved tensors of all nodes: whose they are, and what they tell.

    Attributes:
        numbers: The numbers of their nodes, in order.
        storages: The identities of their storages.
        facts: What else they tell by themselves, for `facts_of`.
        writes: What wrote into some of them since, by their own place among all.
    """

    numbers: Sequence[int] = ()
    storages: Sequence[int | None] = ()
    facts: Sequence[_autograd.Told] = ()
    writes: Mapping[int, tuple[Write, ...]] = MappingProxyType({})

    def by_node(self, places: Mapping[int | None, int]) -> list[tuple[SavedTensor, ...]]:
        """Make the saved tensors, and give those of each node together; nodes have `places`."""
        nodes = [*map(places.__getitem__, self.numbers)]
        rows = sorted(range(len(nodes)), key=nodes.__getitem__)
        facts = _autograd.facts_of(map(self.facts.__getitem__, rows))
        names = _autograd.SavedFacts.__annotations__
        saved = in_bulk(
            SavedTensor,
            len(rows),
            node=map(nodes.__getitem__, rows),
            storage=_numbered([*map(self.storages.__getitem__, rows)]),
            writes=map(self.writes.get, rows, repeat(())),
            **{name: map(itemgetter(n), facts) for n, name in enumerate(names)},
        )
        tensors = iter(saved)
        counts = Counter(nodes)
        return [tuple(islice(tensors, counts.get(place, 0))) for place in range(len(places))]


def _numbered(storages: Sequence[int | None]) -> Iterator[int | None]:
    """Number storages as they come."""
    distinct = [one for one in dict.fromkeys(storages) if one is not None]
    numbers: dict[int | None, int] = {one: number for number, one in enumerate(distinct)}
    return map(numbers.get, storages)


class Named(NamedTuple):
    """What the tensors at hand tell about a node."""

    names: tuple[str, ...] = ()
    retains_grad: bool | None = None


class Origin(NamedTuple):
    """Where a recording says that a node was made."""

    module: str | None = None
    source: Source | None = None


class Reading(NamedTuple):
    """A graph in columns, from which its nodes are made when somebody asks for them.

    Columns go by the numbers of the nodes, which is the order in which these were found. Most of
    what a node has to say is said by many nodes, so a column holds it once. A big graph is read in
    a fraction of the time that it takes to make its nodes.

    Attributes:
        wiring: Who leads to whom.
        kinds: The kind of each node.
        outputs: Tells what its operation made.
        saved: What the nodes keep.
        named: What is known from tensors, by the number of the node. A leaf without an entry has
            no name and retains no gradient.
        origins: Where a node was made, by its number.
        passes: The backward passes that made nodes, None where nothing was recorded.
        complete: What is to be added to the nodes, all of them together.
    """

    wiring: _autograd.Wiring
    kinds: list[Kind]
    outputs: Callable[[], list[tuple[_autograd.ForwardOutput, ...]]]
    saved: Saved
    named: dict[int, Named]
    origins: dict[int, Origin]
    passes: DifferentiablePasses | None
    complete: Callable[[Nodes], Nodes]

    def nodes_and_roots(self) -> tuple[Nodes, Nodes]:
        """Make the nodes, each one before its successors, and tell the roots among them."""
        order = self.wiring.order()
        places: dict[int | None, int] = {number: place for place, number in enumerate(order)}
        nodes = self.complete(tuple(self._nodes(order, places)))
        return nodes, tuple([nodes[places[root]] for root in range(self.wiring.roots)])

    def _nodes(self, order: list[int], places: Mapping[int | None, int]) -> list[TracedNode]:
        """Make the nodes in an order, in which they have these places."""
        kinds = [*map(self.kinds.__getitem__, order)]
        outputs = [*map(self.outputs().__getitem__, order)]
        edges = _edges(self.wiring, order, places)
        sequence_nrs = map(self.wiring.sequence_nrs.__getitem__, order)
        numbers = _autograd.sequence_nrs(sequence_nrs)
        named = [
            self.named.get(number) or (_UNNAMED_LEAF if kind.is_leaf else _UNNAMED)
            for number, kind in zip(order, kinds, strict=True)
        ]
        origins = [self.origins.get(number, _UNKNOWN) for number in order]
        return in_bulk(
            TracedNode,
            len(order),
            index=range(len(order)),
            name=[kind.name for kind in kinds],
            shapes=_shapes(outputs),
            dtype=[output[0].dtype for output in outputs],
            device=[output[0].device for output in outputs],
            edges=edges,
            saved=self.saved.by_node(places),
            tensor_names=[one.names for one in named],
            is_leaf=[kind.is_leaf for kind in kinds],
            retains_grad=[one.retains_grad for one in named],
            custom_function=[kind.custom_function for kind in kinds],
            hides_saved=[kind.hides_saved for kind in kinds],
            created=_created(numbers),
            module=[origin.module for origin in origins],
            source=[origin.source for origin in origins],
            derivative_order=self._orders(numbers, edges),
        )

    def _orders(
        self, numbers: Sequence[int | None], edges: Iterable[tuple[TracedEdge, ...]]
    ) -> Sequence[int | None]:
        """Give the order of derivative of each node, where it is known."""
        if self.passes is None:
            return [None] * len(numbers)
        return self.passes.orders(numbers, [[edge.target for edge in each] for each in edges])


_UNNAMED, _UNNAMED_LEAF, _UNKNOWN = Named(), Named(retains_grad=False), Origin()


def _shapes(outputs: Iterable[tuple[_autograd.ForwardOutput, ...]]) -> list[Shapes]:
    """List the shapes that each operation made; what was read as one value stays one."""
    distinct = {id(made): made for made in outputs}
    shapes = {key: tuple([output.shape for output in made]) for key, made in distinct.items()}
    return [shapes[id(made)] for made in outputs]


def _created(numbers: Sequence[int | None]) -> Iterator[int | None]:
    """Give the place of each node among all, in the order in which they were made."""
    ordered = sorted(number for number in numbers if number is not None)
    places: dict[int | None, int] = {number: place for place, number in enumerate(ordered)}
    return map(places.get, numbers)


def _edges(
    wiring: _autograd.Wiring, order: Iterable[int], places: Mapping[int | None, int]
) -> list[tuple[TracedEdge, ...]]:
    """Make the edges of all nodes as they were found, and give those of each node together."""
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
    return [tuple(edges[starts[number] : starts[number + 1]]) for number in order]
