"""Views with a box for each kind of node, or for each module, wherever its nodes stand."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedNode
from leafgrad._picture.view import NUMBER, Box, View, common

OUTERMOST = "the outermost"
OUTSIDE = "outside"


def by_kind(graph: Graph) -> View:
    """Put all nodes of one name in one box, in the order of the first of each."""
    return _grouped(graph.nodes, lambda node: node.name, lambda nodes: nodes[0].name)


def by_module(graph: Graph, depth: int) -> View:
    """Put all nodes of a module in one box, by so many levels; outside of all each has its own."""

    def path(node: TracedNode) -> str | None:
        return None if node.module is None else ".".join(node.module.split(".")[:depth])

    def key(node: TracedNode) -> Hashable:
        return node.index if node.module is None else path(node)

    def name(nodes: Sequence[TracedNode]) -> str:
        return path(nodes[0]) or OUTERMOST

    return _grouped(graph.nodes, key, name)


def by_alike_modules(graph: Graph) -> View:
    """Put modules that differ in numbers only in one box, in the order of their first use."""

    def key(node: TracedNode) -> Hashable:
        return None if node.module is None else NUMBER.sub("*", node.module)

    def name(nodes: Sequence[TracedNode]) -> str:
        paths = {node.module for node in nodes if node.module is not None}
        return (common([*paths]) or OUTERMOST) if paths else OUTSIDE

    leaves_last = sorted(graph.nodes, key=lambda node: (node.created is None, node.created or 0))
    return _grouped(leaves_last, key, name)


def _grouped(
    nodes: Sequence[TracedNode],
    key: Callable[[TracedNode], Hashable],
    name: Callable[[Sequence[TracedNode]], str],
) -> View:
    """Put nodes with one key in one box, and lead once from a box to each other one."""
    groups = defaultdict[Hashable, list[TracedNode]](list)
    for node in nodes:
        groups[key(node)].append(node)
    places: dict[int | None, int] = {
        node.index: place for place, members in enumerate(groups.values()) for node in members
    }
    boxes = []
    for place, members in enumerate(groups.values()):
        targets = (places.get(edge.target, place) for node in members for edge in node.edges)
        boxes.append(
            Box(
                members=tuple(members),
                name=name(members),
                copies=len({node.module for node in members}),
                edges=tuple((target, 0) for target in dict.fromkeys(targets) if target != place),
            )
        )
    return View(boxes=tuple(boxes))
