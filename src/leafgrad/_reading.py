"""What was read off a live graph, in columns of plain values, and the nodes that they make up."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from leafgrad._autograd import ForwardOutput, Wiring
from leafgrad._traced import CustomFunction, SavedTensor, Source, TracedEdge, TracedNode


Nodes = tuple[TracedNode, ...]


class Kind(NamedTuple):
    """What all nodes of one kind have in common."""

    name: str
    is_leaf: bool
    custom_function: CustomFunction | None


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
        saved: What a node keeps, by its place, as fields of `SavedTensor`.
        named: What is known from tensors, by the place of the node.
        origins: Where a node was made, by its place.
        complete: What is to be added to the nodes, all of them together.
    """

    wiring: Wiring
    roots: list[int]
    kinds: list[Kind]
    outputs: list[tuple[ForwardOutput, ...]]
    numbers: list[int | None]
    saved: dict[int, list[dict[str, Any]]]
    named: dict[int, Named]
    origins: dict[int, Origin]
    complete: Callable[[Nodes], Nodes]

    def nodes(self) -> Nodes:
        """Make the nodes."""
        columns = zip(
            self.kinds, self.outputs, self._created(), self.wiring.edges(), strict=True
        )
        nodes = tuple([self._node(index, *facts) for index, facts in enumerate(columns)])
        return self.complete(nodes)

    def _created(self) -> Iterator[int | None]:
        """Give the place of each node among all, in the order in which they were made."""
        ordered = sorted(number for number in self.numbers if number is not None)
        places: dict[int | None, int] = {number: place for place, number in enumerate(ordered)}
        return map(places.get, self.numbers)

    def _node(
        self,
        index: int,
        kind: Kind,
        outputs: Sequence[ForwardOutput],
        created: int | None,
        edges: list[tuple[int | None, int]],
    ) -> TracedNode:
        named = self.named.get(index, _UNNAMED)
        origin = self.origins.get(index, _UNKNOWN)
        return TracedNode(
            index=index,
            name=kind.name,
            shapes=tuple([output.shape for output in outputs]),
            dtype=outputs[0].dtype,
            device=outputs[0].device,
            edges=tuple(
                [
                    TracedEdge(source=index, target=target, input_nr=input_nr, output_nr=output_nr)
                    for output_nr, (target, input_nr) in enumerate(edges)
                ]
            ),
            saved=tuple([SavedTensor(node=index, **facts) for facts in self.saved.get(index, ())]),
            tensor_names=named.names,
            is_leaf=kind.is_leaf,
            retains_grad=named.retains_grad,
            custom_function=kind.custom_function,
            created=created,
            module=origin.module,
            source=origin.source,
        )


_UNNAMED, _UNKNOWN = Named(), Origin()
