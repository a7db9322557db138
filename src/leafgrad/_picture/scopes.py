"""A view for each module: what is inside it, and the boxes just outside."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedNode
from leafgrad._picture.box import View, title_with_class
from leafgrad._picture.input_nodes import InputEdge
from leafgrad._picture.module_boxes import Beyond, ModuleBox, module_boxes
from leafgrad._picture.view import Viewer


class Scope(NamedTuple):
    """A module that the explorer can open.

    Attributes:
        path: The path of the module.
        title: The path, with the class if known.
        outer: The path of the nearest enclosing module that has a view; None if there is none.
        view: The boxes to draw.
    """

    path: str
    title: str
    outer: str | None
    view: View


def scopes(graph: Graph, *, most_boxes: int, most_in_all: int) -> Iterator[Scope]:
    """Yield a view for each module with several nodes, outer modules first.

    A module is left out if it has more than `most_boxes` boxes, or if the views so far and this one
    would have more than `most_in_all` boxes together.
    """
    insides = _Insides(graph)
    known: set[str] = set()
    left = most_in_all
    several = [path for path, nodes in insides.nodes.items() if len(nodes) > 1][::-1]
    for path in sorted(several, key=lambda path: len(insides.viewer.levels.chain(path))):
        view = insides.view(path)
        if len(view) <= min(left, most_boxes):
            left -= len(view)
            outer = [one for one in insides.viewer.levels.chain(path) if one in known]
            known.add(path)
            yield Scope(
                path=path,
                title=title_with_class(path, insides.viewer.modules.get(path)),
                outer=outer[-1] if outer else None,
                view=view,
            )


class _Insides:
    """The nodes inside each module of a graph, and the nodes just outside."""

    def __init__(self, graph: Graph) -> None:
        """Group the nodes by module."""
        self.viewer = Viewer(graph)
        self.nodes = defaultdict[str, list[TracedNode]](list)
        self.users = defaultdict[int, list[TracedNode]](list)
        paths = {node.module for node in self.viewer.graph.nodes}
        self.chains = {path: self.viewer.levels.chain(path) for path in paths}
        for node in self.viewer.own_nodes:
            for path in self.chains[node.module]:
                self.nodes[path].append(node)
            for target in {edge.target for edge in node.edges} - {None}:
                self.users[target or 0].append(node)

    def view(self, path: str) -> View:
        """Return the boxes of a module: inner modules, its own nodes, and its neighbours.

        `path` is the path of the module.
        """
        nodes = self.nodes[path]
        depth = len(self.viewer.levels.chain(path))
        chains = {node.module: self.chains[node.module] for node in nodes}
        inner = {module: next(iter(chain[depth:]), None) for module, chain in chains.items()}
        inside = {node.index for node in nodes}
        users = [user for node in nodes for user in self.users[node.index]]
        edges = (edge for node in nodes for edge in node.edges)
        targets = [edge.target for edge in edges if not isinstance(edge, InputEdge)]
        graph, leaves = self.viewer.graph, self.viewer.leaves
        inputs = [graph.nodes[one] for one in targets if one is not None and one not in leaves]
        return self.viewer.view(
            [
                *self._beyond(path, users, inside, "user"),
                *module_boxes(nodes, inner),
                *self._beyond(path, inputs, inside, "input"),
            ]
        )

    def _beyond(
        self, path: str, nodes: Sequence[TracedNode], inside: set[int], where: Beyond
    ) -> Iterator[ModuleBox]:
        """Yield a box for each neighbour on one side: an outermost other module or a node.

        Args:
            path: The path of the module whose neighbours these are.
            nodes: The nodes that use its results, or those whose results it uses.
            inside: The indices of the nodes in the module, which are left out.
            where: The side: ``"user"`` or ``"input"``.
        """
        groups = defaultdict[str | int, dict[int, TracedNode]](dict)
        here = {"", *self.viewer.levels.chain(path)}
        for node in nodes:
            if node.index not in inside:
                outside = (one for one in self.chains[node.module] if one not in here)
                groups[next(outside, node.index)][node.index] = node
        for key, members in groups.items():
            module = key if isinstance(key, str) else None
            yield ModuleBox(nodes=tuple(members.values()), module=module, beyond=where)
