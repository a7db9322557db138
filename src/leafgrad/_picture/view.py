"""The decision what a picture shows: which nodes share a box, and which boxes are drawn once.

A *fold* is a smaller picture of a graph. It draws leaves inside the boxes of other nodes, and parts
that repeat only once. It can also draw each module as one box.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

from leafgrad._graph.graph import Graph
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.modules import ModuleLevels
from leafgrad._graph.nodes import Shape, TracedEdge, TracedNode
from leafgrad._messages import message
from leafgrad._picture.box import Box, FoldedLeaf, View
from leafgrad._picture.derivatives import with_derivatives
from leafgrad._picture.input_nodes import InputEdge, with_inputs
from leafgrad._picture.module_boxes import (
    MOST_IN_FULL,
    ModuleBox,
    check_modules,
    first_level,
    match_modules,
    module_boxes,
)
from leafgrad._picture.repeats import Vertex, fold_repeats

NUMBER = re.compile(r"(\d+)")

Fold = bool | str | Collection[str] | None

Output = tuple[int | None, int]
"""The index of a node, and the number of one of its outputs."""

Link = tuple[int, TracedEdge]
"""An edge to another box, with the index of that box."""


def view_of(graph: Graph, *, fold: Fold) -> View:
    """Return the boxes of the picture of a graph.

    Args:
        graph: The graph.
        fold: False shows every node. True draws leaves inside other boxes and repeated parts once.
            Paths of modules also draw these modules as one box each. None chooses: all nodes of a
            small graph, else the fold by module or by repeats.
    """
    modules = read_paths(fold)
    check_modules(with_derivatives(graph).nodes, modules)
    if is_in_full(graph, fold):
        return Viewer(graph).in_full()
    return overview_of(graph) if fold is None else Viewer(graph).by_paths(modules)


def is_in_full(graph: Graph, fold: Fold) -> bool:
    """Return whether the picture shows every node, given the graph and the user's `fold`."""
    return fold is False or (fold is None and len(graph.nodes) <= MOST_IN_FULL)


def overview_of(graph: Graph) -> View:
    """Return the boxes by module, or by repeated parts if these are fewer."""
    viewer = Viewer(graph)
    by_module = viewer.by_module()
    if by_module is not None and len(by_module) <= MOST_IN_FULL:
        return by_module
    return min(filter(None, (viewer.by_paths(()), by_module)), key=len)


def read_paths(fold: Any) -> Collection[str]:
    """Return the module paths in the user's `fold`; empty for a bool or None.

    Raise a TypeError if `fold` has any other type.
    """
    if fold is None or isinstance(fold, bool):
        return ()
    paths = (fold,) if isinstance(fold, str) else fold
    if isinstance(paths, Collection) and paths and all(isinstance(path, str) for path in paths):
        return paths
    raise TypeError(message("errors.picture.fold", came=fold))


class Viewer:
    """Makes views of one graph: the boxes of its pictures. Data that views share is cached.

    Attributes:
        graph: The graph, with a node for each input.
        roots: The indices of its roots.
        levels: The nesting of its modules.
        modules: Its modules by path.
    """

    def __init__(self, graph: Graph) -> None:
        """Prepare a graph; raise a ValueError if it has no nodes."""
        if not graph.nodes:
            raise ValueError(message("errors.picture.empty"))
        self.graph = with_inputs(with_derivatives(graph))
        self.roots = {node.index for node in graph.roots}
        self.levels = ModuleLevels(self.graph.modules)
        self.modules = {module.path: module for module in self.graph.modules}

    @cached_property
    def leaves(self) -> Mapping[int | None, TracedNode]:
        """The leaves that a folded picture draws inside other boxes, by index."""
        return {leaf.index: leaf for leaf in self.graph.leaves if leaf.index not in self.roots}

    @cached_property
    def own_nodes(self) -> list[TracedNode]:
        """The nodes that a fold does not draw inside the boxes of other nodes.

        A fold is a picture with leaves inside other boxes. The nodes of the graph's inputs are not
        included: `view` adds those that a box uses.
        """
        nodes = self.graph.nodes[: len(self.graph.nodes) - len(self.graph.inputs)]
        return [node for node in nodes if node.index not in self.leaves]

    @cached_property
    def _users(self) -> Mapping[int | None, Sequence[int]]:
        """For the index of a node, the indices of the nodes with an edge to it."""
        users = defaultdict[int | None, list[int]](list)
        for edge in self.graph.edges:
            users[edge.target].append(edge.source)
        return users

    def in_full(self) -> View:
        """Return a view in which each node has its own box."""
        return self.view([ModuleBox(nodes=(node,)) for node in self.graph.nodes], is_folded=False)

    def by_module(self) -> View | None:
        """Return a view by module, at the outermost level with several; None without modules."""
        boxes = first_level(self.own_nodes, self.levels)
        return None if boxes is None else self.view(module_boxes(self.own_nodes, boxes))

    def by_paths(self, patterns: Collection[str]) -> View:
        """Return a view with one box for each module whose path matches, and the other nodes."""
        return self.view(module_boxes(self.own_nodes, match_modules(self.own_nodes, patterns)))

    def view(self, parts: Sequence[ModuleBox], *, is_folded: bool = True) -> View:
        """Return the boxes of a picture, given the nodes of each box.

        A fold draws leaves inside boxes, adds inputs, and draws repeated parts once.
        """
        if is_folded:
            parts = [*self._with_inputs(parts)]
        links = _links(parts)
        outputs = _used_outputs(parts, links)
        labels = [
            self._label(*pair) if is_folded else None for pair in zip(parts, outputs, strict=True)
        ]
        vertices = [*_vertices(parts, labels, links, outputs)]
        vertices = fold_repeats(vertices) if is_folded else vertices
        return tuple(self._boxes(parts, vertices, outputs, is_folded=is_folded))

    def _with_inputs(self, parts: Sequence[ModuleBox]) -> Iterator[ModuleBox]:
        """Yield the given parts, then a part for each input of the graph that they use."""
        yield from parts
        nodes = chain.from_iterable(part.nodes for part in parts if part.beyond is None)
        edges = (edge for node in nodes for edge in node.edges if isinstance(edge, InputEdge))
        for target in dict.fromkeys(edge.target for edge in edges):
            yield ModuleBox(nodes=(self.graph.nodes[target],))

    def _label(self, part: ModuleBox, outputs: Sequence[Output]) -> Hashable:
        """Return a value that is equal for parts that may be drawn as one box.

        The label of a module leaves out the shapes inside it, because they may depend on the data.
        It contains the bytes that its nodes save.
        """
        if part.beyond is not None:
            return part.beyond, part.module, part.nodes[0].index
        targets = (edge.target for node in part.nodes for edge in node.edges)
        return (
            any(node.index in self.roots for node in part.nodes),
            self._module_kind(part.module),
            *map(_node_kind if part.module is None else _kind_within, part.nodes),
            *map(self._shape, outputs),
            bytes_without_parameters([saved for node in part.nodes for saved in node.saved]),
            *(_node_kind(self.leaves[t]) if t in self.leaves else t is None for t in targets),
        )

    def _module_kind(self, path: str | None) -> Hashable:
        """Return a value that is equal for modules that a picture shows alike.

        `path` is the path of the module; None for a node outside all modules.
        """
        module = self.modules.get(path or "") if path is not None else None
        facts = module and replace(module, path="")
        return path and NUMBER.sub("*", path), facts

    def _boxes(
        self,
        parts: Sequence[ModuleBox],
        vertices: Sequence[Vertex],
        outputs: Sequence[Sequence[Output]],
        *,
        is_folded: bool,
    ) -> Iterator[Box]:
        """Yield a box for each vertex that is left after the fold.

        The fold replaces equal parts by one. `parts` contains the parts before it.
        """
        for vertex in vertices:
            alike = [parts[member] for member in vertex.members]
            first, path = alike[0], alike[0].module
            targets = [target for target, _ in vertex.edges]
            yield Box(
                alike=tuple(part.nodes for part in alike),
                edges=tuple(targets if path is None else dict.fromkeys(targets)),
                name=None if path is None else merge_names([part.module or "" for part in alike]),
                path=path,
                module=None if path is None else self.modules.get(path),
                leaves=tuple(self._folded_leaves(alike)) if is_folded and not first.beyond else (),
                results=tuple(map(self._shape, outputs[vertex.members[0]])),
                is_root=any(node.index in self.roots for node in first.nodes),
                beyond=first.beyond,
                block=vertex.block,
            )

    def _shape(self, output: Output) -> Shape | None:
        """Return the shape of an output; None for a strided nested tensor."""
        node, number = output
        return self.graph.nodes[node or 0].shapes[number]

    def _folded_leaves(self, alike: Sequence[ModuleBox]) -> Iterator[FoldedLeaf]:
        """Yield the leaves to draw inside a box; corresponding leaves of all copies become one."""
        edges_of = ([edge for node in part.nodes for edge in node.edges] for part in alike)
        for edges in zip(*edges_of, strict=True):
            leaves = [self.leaves[edge.target] for edge in edges if edge.target in self.leaves]
            if leaves:
                names = [leaf.leaf_name for leaf in leaves if leaf.leaf_name is not None]
                uses = len(self._users[leaves[0].index])
                yield FoldedLeaf(name=merge_names(names) or None, uses=uses, alike=tuple(leaves))


def _links(parts: Sequence[ModuleBox]) -> list[list[Link]]:
    """Return for each part (the nodes of one box) its edges to other parts.

    Of a part outside the shown module, only the edges into the module count.
    """
    part_of: dict[int | None, int] = {
        node.index: index
        for index, part in enumerate(parts)
        if part.beyond != "user"
        for node in part.nodes
    }
    links: list[list[Link]] = []
    for index, part in enumerate(parts):
        own = [
            (target, edge)
            for node in (part.nodes if part.beyond != "input" else ())
            for edge in node.edges
            if (target := part_of.get(edge.target, index)) != index
        ]
        links.append([link for link in own if None in (part.beyond, parts[link[0]].beyond)])
    return links


def _used_outputs(
    parts: Sequence[ModuleBox], links: Sequence[Sequence[Link]]
) -> Sequence[Sequence[Output]]:
    """Return for each module box the outputs of its nodes that other parts use."""
    used: list[set[Output]] = [set() for _ in parts]
    for target, edge in chain.from_iterable(links):
        if parts[target].module is not None:
            used[target].add((edge.target, edge.input_nr))
    nodes = chain.from_iterable(part.nodes for part in parts)
    order = {node.index: number for number, node in enumerate(nodes)}
    return [sorted(each, key=lambda output: (order[output[0] or 0], output[1])) for each in used]


def _vertices(
    parts: Sequence[ModuleBox],
    labels: Sequence[Hashable],
    links: Sequence[Sequence[Link]],
    outputs: Sequence[Sequence[Output]],
) -> Iterator[Vertex]:
    """Yield a vertex for each part; several edges of a module to one output become one.

    Args:
        parts: The boxes of the picture.
        labels: A value for each part; equal for parts that look alike.
        links: The edges of each part, with the numbers of the parts they lead to.
        outputs: The outputs of each part that other parts use.
    """
    numbers = [{output: number for number, output in enumerate(each)} for each in outputs]
    for index, (part, label) in enumerate(zip(parts, labels, strict=True)):
        edges = (
            (target, numbers[target].get((edge.target, edge.input_nr), edge.input_nr))
            for target, edge in links[index]
        )
        distinct = tuple(edges if part.module is None else dict.fromkeys(edges))
        yield Vertex(label=label, edges=distinct, members=(index,))


def _node_kind(node: TracedNode) -> Hashable:
    """Return a value that is equal for nodes that a picture shows alike."""
    names = tuple(NUMBER.sub("*", name) for name in node.tensor_names)
    return node.shapes, names, node.retains_grad, _kind_within(node)


def _kind_within(node: TracedNode) -> Hashable:
    """Return a value that is equal for nodes that look alike inside the box of a module."""
    kind = node.name, node.dtype, node.device, node.is_leaf, node.derivative_order
    saved = [
        (one.name, one.state, one.is_modified and (one.saved_version, one.current_version))
        for one in node.saved
    ]
    return *kind, node.value_turns, node.gradient_turns, *saved


def merge_names(names: Sequence[str]) -> str:
    """Return several names as one, with a star for each number that differs."""
    fields = zip(*(NUMBER.split(name) for name in names), strict=True)
    return "".join(field[0] if len({*field}) == 1 else "*" for field in fields)
