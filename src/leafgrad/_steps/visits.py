"""The visits of a backward to the boxes of a picture: what comes, what goes, what is done with."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from leafgrad._graph.graph import Graph
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.nodes import SavedTensor, TracedEdge, TracedNode, age_order
from leafgrad._graph.summary import TensorSummary
from leafgrad._messages import message
from leafgrad._picture.box import Box, View, title_with_class
from leafgrad._steps.sentences import full_name

Place = tuple[int, int]
"""An output of a node: the node's index and the number of the output."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Visit:
    """What a box of a picture stands for, once: a node, or a call of a module.

    Attributes:
        place: The place of the box.
        box: The box.
        copy: Which of those that it stands for.
        nodes: The nodes.
        name: The path of the module, or what the node is called.
    """

    place: int
    box: Box
    copy: int
    nodes: tuple[TracedNode, ...]
    name: str

    @property
    def leaves(self) -> list[TracedNode]:
        """The leaves that are shown within it."""
        return [*dict.fromkeys(leaf.alike[self.copy] for leaf in self.box.leaves)]

    @property
    def short(self) -> str:
        """The name, or the title where that is but a number."""
        return self.title if self.name.isdecimal() else self.name

    @property
    def title(self) -> str:
        """The name, and the class of the module where that is known."""
        module = self.box.module
        if module is None or title_with_class(self.name, module) == self.name:
            return self.name
        return f"{self.name} ({module.class_name})"


class Visits:
    """The visits to all boxes, and what follows from the order in which they are made."""

    def __init__(self, graph: Graph, view: View) -> None:
        """Find where each node stands, and when what is done with."""
        self.graph = graph
        self.roots = {root.index for root in graph.roots}
        self.all = [*_visits(view)]
        self.at = {node.index: visit for visit in self.all for node in visit.nodes}
        self.users = defaultdict[Place, list[TracedEdge]](list)
        for edge in graph.edges:
            if edge.target is not None:
                self.users[edge.target, edge.input_nr].append(edge)
        came = [visit for visit in self.all if any(n.visited is not None for n in visit.nodes)]
        made = [visit for visit in self.all if any(node.values for node in visit.nodes)]
        self.backward = sorted(came, key=lambda visit: min(map(_turn, visit.nodes)))
        self.forward = sorted(made, key=lambda visit: max(map(age_order, visit.nodes)))
        self.complete = self._complete()
        self.let_go = self._let_go()

    def results(self, visit: Visit) -> list[Place]:
        """Return the outputs that others use, or that a backward starts at."""
        places = ((n.index, nr) for n in visit.nodes for nr in range(len(n.shapes)))
        return [
            place
            for place in places
            if place[0] in self.roots
            or any(self.at[edge.source] is not visit for edge in self.users[place])
        ]

    def arrived(self, visit: Visit) -> list[TensorSummary | None]:
        """Return the gradients of the results."""
        nodes = self.graph.nodes
        return [nodes[node].gradients[nr] for node, nr in self.results(visit)]

    def sources(self, visit: Visit) -> list[str]:
        """Name what these came from."""
        edges = (edge for place in self.results(visit) for edge in self.users[place])
        return self._names((edge.source for edge in edges if edge.gradient is not None), visit)

    def made(self, visit: Visit) -> list[TensorSummary | None]:
        """Return the values of the results."""
        nodes = self.graph.nodes
        return [nodes[node].values[nr] for node, nr in self.results(visit)]

    def givers(self, visit: Visit) -> list[str]:
        """Name what the values were made from, without leaves."""
        targets = (edge.target for node in visit.nodes for edge in node.edges)
        return self._names((target for target in targets if target in self.at), visit)

    def _names(self, nodes: Iterable[int | None], visit: Visit) -> list[str]:
        others = (self.at[node or 0] for node in nodes)
        return [*dict.fromkeys(other.short for other in others if other is not visit)]

    def passed(self, visit: Visit) -> Iterator[tuple[str, list[TracedEdge]]]:
        """Yield what each place outside is called, and the edges to it as they were used.

        What completes the gradient of a leaf goes there, and is not among these.
        """
        complete = {leaf.index for leaf in self.complete[visit]}
        places = defaultdict[Place, list[TracedEdge]](list)
        for node in sorted(visit.nodes, key=_turn):
            for edge in node.edges:
                if edge.gradient is not None and edge.target is not None:
                    places[edge.target, edge.input_nr].append(edge)
        for (target, _), edges in places.items():
            there = self.at.get(target)
            if there is not visit and target not in complete:
                leaf = message("steps.waits", leaf=full_name(self.graph.nodes[target]))
                yield leaf if there is None else there.short, edges

    def _complete(self) -> dict[Visit, list[TracedNode]]:
        """Find for each visit the leaves whose gradients it is the last to add to."""
        found = defaultdict[Visit, list[TracedNode]](list)
        for leaf in self.graph.leaves:
            edges = [edge for edge in self.users[leaf.index, 0] if edge.gradient is not None]
            last = max((self.graph.nodes[edge.source] for edge in edges), key=_turn, default=leaf)
            here = self.at.get(leaf.index, self.at.get(last.index))
            if here is not None and leaf.visited is not None:
                found[here].append(leaf)
        return found

    def _let_go(self) -> dict[Visit, int]:
        """Find for each visit the bytes of which it is the last to know."""
        saved = defaultdict[Visit, list[SavedTensor]](list)
        last = {s.storage: v for v in self.backward for n in v.nodes for s in n.saved}
        for visit in self.backward:
            for one in (slot for node in visit.nodes for slot in node.saved):
                if last[one.storage] is visit:
                    saved[visit].append(one)
        return {visit: bytes_without_parameters(slots) for visit, slots in saved.items()}


def _turn(node: TracedNode) -> float:
    """Return when the backward took a node, after all others if it did not."""
    return inf if node.visited is None else node.visited


def _visits(view: View) -> Iterator[Visit]:
    for place, box in enumerate(view.boxes):
        for copy, nodes in enumerate(box.alike):
            name = _name(box, nodes[0])
            yield Visit(place=place, box=box, copy=copy, nodes=nodes, name=name)


def _name(box: Box, first: TracedNode) -> str:
    """Return what a box is called: of those that it stands for, the one with this node first."""
    if box.input is not None:
        return box.input.name or message("steps.an-input")
    if box.path is None:
        return full_name(first)
    return ".".join((first.module or "").split(".")[: 1 + box.path.count(".")])
