"""The visits of a backward pass to the boxes of a picture."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from leafgrad._graph.graph import Graph
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.nodes import TracedEdge, TracedNode, age_order
from leafgrad._graph.summary import TensorSummary
from leafgrad._messages import message
from leafgrad._picture.box import Box, View, title_with_class
from leafgrad._steps.sentences import full_name

Output = tuple[int, int]
"""An output of a node: the node's index and the number of the output."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Visit:
    """One of the copies that a box stands for: a node, or a call of a module.

    Attributes:
        box_index: The index of the box.
        box: The box.
        copy: The number of the copy.
        nodes: The nodes.
        name: The path of the module, or the name of the node.
    """

    box_index: int
    box: Box
    copy: int
    nodes: tuple[TracedNode, ...]
    name: str

    @property
    def leaves(self) -> list[TracedNode]:
        """The leaves that the box shows."""
        return [*dict.fromkeys(leaf.alike[self.copy] for leaf in self.box.leaves)]

    @property
    def short(self) -> str:
        """The name; the title if the name is only a number."""
        return self.title if self.name.isdecimal() else self.name

    @property
    def title(self) -> str:
        """The name, with the class of the module if known."""
        module = self.box.module
        if module is None or title_with_class(self.name, module) == self.name:
            return self.name
        return f"{self.name} ({module.class_name})"


class Visits:
    """The visits to all boxes, and what follows from their order."""

    def __init__(self, graph: Graph, view: View) -> None:
        """Find the visit of each node, and the order of the visits in both passes."""
        self.graph = graph
        self.roots = {root.index for root in graph.roots}
        self.all = [*_visits(view)]
        self.at = {node.index: visit for visit in self.all for node in visit.nodes}
        self.users = defaultdict[Output, list[TracedEdge]](list)
        for edge in graph.edges:
            if edge.target is not None:
                self.users[edge.target, edge.input_nr].append(edge)
        reached = [visit for visit in self.all if any(n.visited is not None for n in visit.nodes)]
        valued = [visit for visit in self.all if any(node.values for node in visit.nodes)]
        self.backward = sorted(reached, key=lambda visit: min(map(_visit_order, visit.nodes)))
        self.forward = sorted(valued, key=lambda visit: max(map(age_order, visit.nodes)))
        self.complete_leaves = self._find_complete_leaves()
        self.freed_bytes = self._find_freed_bytes()

    def results(self, visit: Visit) -> list[Output]:
        """Return the outputs that other boxes use, or that a backward pass starts at."""
        outputs = ((n.index, nr) for n in visit.nodes for nr in range(len(n.shapes)))
        return [
            output
            for output in outputs
            if output[0] in self.roots
            or any(self.at[edge.source] is not visit for edge in self.users[output])
        ]

    def arriving_gradients(self, visit: Visit) -> list[TensorSummary | None]:
        """Return the gradients of the results."""
        nodes = self.graph.nodes
        return [nodes[node].gradients[nr] for node, nr in self.results(visit)]

    def source_names(self, visit: Visit) -> list[str]:
        """Return the names of the boxes that these gradients came from."""
        edges = (edge for output in self.results(visit) for edge in self.users[output])
        return self._other_names((e.source for e in edges if e.gradient is not None), visit)

    def computed_values(self, visit: Visit) -> list[TensorSummary | None]:
        """Return the values of the results."""
        nodes = self.graph.nodes
        return [nodes[node].values[nr] for node, nr in self.results(visit)]

    def input_names(self, visit: Visit) -> list[str]:
        """Return the names of the boxes that the values were computed from, without leaves."""
        targets = (edge.target for node in visit.nodes for edge in node.edges)
        return self._other_names((target for target in targets if target in self.at), visit)

    def _other_names(self, nodes: Iterable[int | None], visit: Visit) -> list[str]:
        others = (self.at[node or 0] for node in nodes)
        return [*dict.fromkeys(other.short for other in others if other is not visit)]

    def passed_gradients(self, visit: Visit) -> Iterator[tuple[str, list[TracedEdge]]]:
        """Yield the name of each target outside, and the edges to it in the order of their use.

        The gradients of leaves that are now complete are left out.
        """
        complete = {leaf.index for leaf in self.complete_leaves[visit]}
        edges_to = defaultdict[Output, list[TracedEdge]](list)
        for node in sorted(visit.nodes, key=_visit_order):
            for edge in node.edges:
                if edge.gradient is not None and edge.target is not None:
                    edges_to[edge.target, edge.input_nr].append(edge)
        for (target, _), edges in edges_to.items():
            there = self.at.get(target)
            if there is not visit and target not in complete:
                leaf = message("steps.waits", leaf=full_name(self.graph.nodes[target]))
                yield leaf if there is None else there.short, edges

    def _find_complete_leaves(self) -> dict[Visit, list[TracedNode]]:
        """Return for each visit the leaves that get their last gradient from it."""
        leaves = defaultdict[Visit, list[TracedNode]](list)
        for leaf in self.graph.leaves:
            edges = [edge for edge in self.users[leaf.index, 0] if edge.gradient is not None]
            sources = (self.graph.nodes[edge.source] for edge in edges)
            last = max(sources, key=_visit_order, default=leaf)
            here = self.at.get(leaf.index, self.at.get(last.index))
            if here is not None and leaf.visited is not None:
                leaves[here].append(leaf)
        return leaves

    def _find_freed_bytes(self) -> dict[Visit, int]:
        """Return for each visit the bytes that no later visit needs."""
        last = {s.storage: v for v in self.backward for n in v.nodes for s in n.saved}
        return {
            visit: bytes_without_parameters(
                [s for node in visit.nodes for s in node.saved if last[s.storage] is visit]
            )
            for visit in self.backward
        }


def _visit_order(node: TracedNode) -> float:
    """Return a key that sorts nodes as the backward pass visited them, others last."""
    return inf if node.visited is None else node.visited


def _visits(view: View) -> Iterator[Visit]:
    for index, box in enumerate(view.boxes):
        for copy, nodes in enumerate(box.alike):
            name = _name(box, nodes[0])
            yield Visit(box_index=index, box=box, copy=copy, nodes=nodes, name=name)


def _name(box: Box, first: TracedNode) -> str:
    """Return the name of the copy of a box that starts with a node."""
    if box.input is not None:
        return box.input.name or message("steps.an-input")
    if box.path is None:
        return full_name(first)
    return ".".join((first.module or "").split(".")[: 1 + box.path.count(".")])
