"""What is shown of a graph: boxes with nodes in them, some of which stand for several alike."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import SavedTensor, TracedNode
from leafgrad._picture.module_boxes import ModuleBox, check_modules, module_boxes
from leafgrad._picture.repeats import Repeat, Vertex, folded

MOST_IN_FULL = 40
NUMBER = re.compile(r"(\d+)")

Fold = bool | str | Collection[str] | None
Leaves = Mapping[int | None, TracedNode]
"""The leaves that are shown within other boxes, by their indices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoldedLeaf:
    """A leaf that is shown within the box of a node that leads to it.

    Attributes:
        node: The leaf.
        name: Its name, with a star for each number that differs between those that it stands for.
        uses: How many edges lead to it.
    """

    node: TracedNode
    name: str | None
    uses: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A node, or several nodes in one box.

    Attributes:
        members: The nodes in it, of several boxes that are alike those of the first.
        name: What the nodes have in common: the path of their module, with a star for each number
            that differs between the boxes that it stands for, or their kind; None for a node that
            is shown as itself.
        copies: How many it stands for.
        edges: The places of the boxes that it leads to, each with the output that it means.
        leaves: The leaves that are shown within it.
        outputs: Which of its outputs lead to it, where it has several; `SEVERAL` for an edge that
            stands for edges to more than one.
        is_root: Whether a backward starts there.
    """

    members: tuple[TracedNode, ...]
    name: str | None
    copies: int
    edges: tuple[tuple[int, int], ...]
    leaves: tuple[FoldedLeaf, ...] = ()
    outputs: tuple[int, ...] = ()
    is_root: bool = False

    @property
    def node(self) -> TracedNode:
        """The node, or the first of those in it."""
        return self.members[0]

    @property
    def saved(self) -> list[SavedTensor]:
        """Everything that is saved in it."""
        return [saved for node in self.members for saved in node.saved]


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """All boxes of a picture.

    Attributes:
        boxes: The boxes.
        repeats: The stretches that stand for several, by the indices of their nodes.
    """

    boxes: tuple[Box, ...]
    repeats: tuple[Repeat, ...] = ()


def view_of(graph: Graph, *, fold: Fold) -> View:
    """Choose what is shown: every node, or if `fold` leaves within others and repeats once.

    None folds what has more than `MOST_IN_FULL` nodes. The paths of modules fold these as well.
    Each box stands before those that it leads to.
    """
    if not graph.nodes:
        raise ValueError(
            "a picture must have a node to show, not none; trace a tensor with a graph"
        )
    modules = modules_of(fold)
    check_modules(graph.nodes, modules)
    folds = len(graph.nodes) > MOST_IN_FULL if fold is None else bool(fold)
    return _view(graph, modules, folds=folds)


def modules_of(fold: object) -> tuple[str, ...]:
    """Read what was given as `fold`, and return the modules that it names."""
    if fold is None or isinstance(fold, bool):
        return ()
    named = (fold,) if isinstance(fold, str) else fold
    if isinstance(named, Collection) and named and all(isinstance(name, str) for name in named):
        return tuple(named)
    raise TypeError(
        f"fold must be True, False, None, the path of a module or several, not {fold!r}; "
        "name modules as in fold='layers.*'"
    )


def _view(graph: Graph, modules: Sequence[str], *, folds: bool) -> View:
    roots = {node.index for node in graph.roots}
    within: Leaves = {}
    if folds:
        within = {leaf.index: leaf for leaf in graph.leaves if leaf.index not in roots}
    apart = module_boxes([node for node in graph.nodes if node.index not in within], modules)
    labels = [_label(one, within, roots) if folds else None for one in apart]
    vertices = [*_vertices(apart, labels)]
    vertices, repeats = folded(vertices) if folds else (vertices, [])
    boxes = _boxes(graph, apart, vertices, within, roots)
    return View(boxes=tuple(boxes), repeats=tuple(repeats))


def _vertices(apart: Sequence[ModuleBox], labels: Sequence[Hashable]) -> Iterator[Vertex]:
    """Yield what leads where, from a module to another once for each output."""
    places: dict[int | None, int] = {
        node.index: place for place, one in enumerate(apart) for node in one.nodes
    }
    for place, (one, label) in enumerate(zip(apart, labels, strict=True)):
        edges = [
            (target, edge.input_nr if apart[target].module is None else 0)
            for node in one.nodes
            for edge in node.edges
            if (target := places.get(edge.target, place)) != place
        ]
        if one.module is not None:
            edges = [*dict.fromkeys(edges)]
        yield Vertex(label=label, edges=tuple(edges), members=(one.nodes[0].index,))


def _label(one: ModuleBox, within: Leaves, roots: Container[int]) -> Hashable:
    """Return what must be equal where one box is to stand for several."""
    ends = (edge.target for node in one.nodes for edge in node.edges)
    return (
        any(node.index in roots for node in one.nodes),
        *map(_kind, one.nodes),
        *(_kind(within[end]) if end in within else end is None for end in ends),
    )


def _kind(node: TracedNode) -> Hashable:
    """Return what tells a node from those that a picture shows otherwise."""
    names = tuple(NUMBER.sub("*", name) for name in node.tensor_names)
    kind = node.name, node.shapes, node.dtype, node.device, node.is_leaf, names, node.retains_grad
    turns = node.value_turns, node.gradient_turns
    return *kind, node.derivative_order, *turns, *map(_state, node.saved)


def _state(saved: SavedTensor) -> Hashable:
    versions = (saved.saved_version, saved.current_version) if saved.is_modified else None
    return saved.name, saved.state, versions


def _boxes(
    graph: Graph,
    apart: Sequence[ModuleBox],
    vertices: Sequence[Vertex],
    within: Leaves,
    roots: Container[int],
) -> Iterator[Box]:
    outputs = defaultdict[int, set[int]](set)
    for place, output in chain.from_iterable(vertex.edges for vertex in vertices):
        outputs[place].add(output)
    uses = Counter(edge.target for edge in graph.edges)
    starts = {one.nodes[0].index: one for one in apart}
    for place, vertex in enumerate(vertices):
        alike = [starts[index] for index in vertex.members]
        members, module = alike[0].nodes, alike[0].module
        has_ports = module is None and len(members[0].shapes) > 1
        yield Box(
            members=members,
            name=None if module is None else common([one.module or "" for one in alike]),
            copies=len(alike),
            edges=vertex.edges,
            leaves=tuple(_leaves(alike, within, uses)) if within else (),
            outputs=tuple(sorted(outputs[place])) if has_ports else (),
            is_root=any(node.index in roots for node in members),
        )


def _leaves(
    alike: Sequence[ModuleBox], within: Leaves, uses: Mapping[int | None, int]
) -> Iterator[FoldedLeaf]:
    """Yield the leaves that edges lead to, one for those of all boxes that are alike."""
    edges_of = ([edge for node in one.nodes for edge in node.edges] for one in alike)
    for edges in zip(*edges_of, strict=True):
        leaves = [within[edge.target] for edge in edges if edge.target in within]
        if leaves:
            names = [leaf.leaf_name for leaf in leaves if leaf.leaf_name is not None]
            yield FoldedLeaf(node=leaves[0], name=common(names) or None, uses=uses[leaves[0].index])


def common(names: Sequence[str]) -> str:
    """Put a star for each number in which names differ that are otherwise equal."""
    fields = zip(*(NUMBER.split(name) for name in names), strict=True)
    return "".join(field[0] if len({*field}) == 1 else "*" for field in fields)
