"""Nodes grouped by kind or by module, for tables and for flowcharts too large for all nodes."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedNode
from leafgrad._messages import message
from leafgrad._picture.view import NUMBER, merge_names


class NodeGroup(NamedTuple):
    """Nodes with something in common.

    Attributes:
        name: What they have in common.
        nodes: The nodes.
        modules: The number of modules that they belong to.
        targets: The indices of the other groups that they lead to.
    """

    name: str
    nodes: Sequence[TracedNode]
    modules: int
    targets: Sequence[int]


def group_by_kind(graph: Graph) -> list[NodeGroup]:
    """Group the nodes by name, in the order of the first node of each group."""
    return _group(graph.nodes, lambda node: node.name, lambda nodes: nodes[0].name)


def group_by_module(graph: Graph, depth: int) -> list[NodeGroup]:
    """Group the nodes by the first `depth` parts of their modules; others stay alone."""

    def path(node: TracedNode) -> str | None:
        return None if node.module is None else ".".join(node.module.split(".")[:depth])

    return _group(
        graph.nodes,
        lambda node: node.index if node.module is None else path(node),
        lambda nodes: path(nodes[0]) or message("modules.outermost"),
    )


def group_by_alike_modules(graph: Graph) -> list[NodeGroup]:
    """Group the nodes by module, as if all numbers in paths were equal, in the order of use."""

    def name(nodes: Sequence[TracedNode]) -> str:
        paths = {node.module for node in nodes if node.module is not None}
        if not paths:
            return message("modules.outside")
        return merge_names([*paths]) or message("modules.outermost")

    leaves_last = sorted(graph.nodes, key=lambda node: (node.created is None, node.created or 0))
    return _group(leaves_last, lambda n: n.module and NUMBER.sub("*", n.module), name)


def _group(
    nodes: Sequence[TracedNode],
    key: Callable[[TracedNode], Hashable],
    name: Callable[[Sequence[TracedNode]], str],
) -> list[NodeGroup]:
    groups = defaultdict[Hashable, list[TracedNode]](list)
    for node in nodes:
        groups[key(node)].append(node)
    group_of: dict[int | None, int] = {
        node.index: number for number, group in enumerate(groups.values()) for node in group
    }
    grouped = []
    for number, group in enumerate(groups.values()):
        targets = dict.fromkeys(
            group_of.get(edge.target, number) for node in group for edge in node.edges
        )
        targets.pop(number, None)
        modules = len({node.module for node in group})
        grouped.append(NodeGroup(name(group), group, modules, [*targets]))
    return grouped
