"""What is shown of a graph: boxes with nodes in them, some of which stand for several alike."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby

from leafgrad._graph.graph import Graph
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.modules import ModuleLevels, TracedModule
from leafgrad._graph.nodes import SavedTensor, Shape, TracedEdge, TracedNode
from leafgrad._graph.traced_inputs import TracedInput
from leafgrad._picture.input_nodes import InputEdge, InputNode, with_inputs
from leafgrad._picture.module_boxes import (
    MOST_IN_FULL,
    Beyond,
    Boxes,
    ModuleBox,
    check_modules,
    first_level,
    matching,
    module_boxes,
    with_open,
)
from leafgrad._picture.repeats import Repeat, Vertex, folded

NUMBER = re.compile(r"(\d+)")

Fold = bool | str | Collection[str] | None
Open = str | Collection[str]
Leaves = Mapping[int | None, TracedNode]
"""The leaves that are shown within other boxes, by their indices."""

Result = tuple[int | None, int]
"""An output: the index of the node that has it, and which of that one's it is."""

Results = Sequence[Result]
"""The outputs of a module that others use."""

Links = Sequence[tuple[int, TracedEdge]]
"""The edges that lead from a box to others, with the places of these."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoldedLeaf:
    """A leaf that is shown within the box of a node that leads to it.

    Attributes:
        node: The leaf.
        name: Its name, with a star for each number that differs between those that it stands for.
        uses: How many edges lead to it.
        alike: The leaves that it stands for, one for each of the boxes that are alike.
    """

    node: TracedNode
    name: str | None
    uses: int
    alike: tuple[TracedNode, ...]


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
        outputs: Which of its outputs lead to it, where it has several to tell apart; `SEVERAL` for
            an edge that stands for edges to more than one.
        is_root: Whether a backward starts there.
        path: The path of the module that it is, of several the first.
        module: What is known of that module, if anything.
        inner: The classes of the modules right within it.
        alike: The nodes of each of the boxes that it stands for.
        results: The shapes of what others use of a module, output by output.
        beyond: Where it stands, if outside of the module that the picture is of.
    """

    members: tuple[TracedNode, ...]
    name: str | None
    copies: int
    edges: tuple[tuple[int, int], ...]
    leaves: tuple[FoldedLeaf, ...] = ()
    outputs: tuple[int, ...] = ()
    is_root: bool = False
    path: str | None = None
    module: TracedModule | None = None
    inner: tuple[str, ...] = ()
    alike: tuple[tuple[TracedNode, ...], ...] = ()
    results: tuple[Shape | None, ...] = ()
    beyond: Beyond | None = None

    @property
    def node(self) -> TracedNode:
        """The node, or the first of those in it."""
        return self.members[0]

    @property
    def given(self) -> TracedInput | None:
        """The input of the graph that it is, if it is one."""
        return self.node.given if isinstance(self.node, InputNode) else None

    @property
    def title(self) -> str | None:
        """Its name, and the class of its module where that is known; None for a node."""
        return self.name if self.name is None else titled(self.name, self.module)

    @property
    def saved(self) -> list[SavedTensor]:
        """Everything that is saved in it."""
        return [saved for node in self.members for saved in node.saved]


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """A module whose nodes have boxes of their own, around which a frame is drawn.

    Attributes:
        title: The path of the module, its class and how many of its parameters are frozen, as far
            as that is known.
        places: The places of the boxes.
        is_inferred: Whether the module was not recorded but inferred.
    """

    title: str
    places: tuple[int, ...]
    is_inferred: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """All boxes of a picture.

    Attributes:
        boxes: The boxes.
        repeats: The stretches that stand for several, by the indices of their nodes.
        frames: The modules around boxes, of which no two have one in common.
    """

    boxes: tuple[Box, ...]
    repeats: tuple[Repeat, ...] = ()
    frames: tuple[Frame, ...] = ()


def view_of(graph: Graph, *, fold: Fold, open: Open = ()) -> View:  # noqa: A002 - as users say it
    """Choose what is shown: every node, or if `fold` leaves within others and repeats once.

    None folds what has more than `MOST_IN_FULL` nodes, by module where that leaves few boxes. The
    paths of modules fold these as well, and those to `open` do not. Each box stands before those
    that it leads to.
    """
    modules, opened = modules_of(fold), opened_of(open)
    check_modules(graph.nodes, modules, "fold")
    check_modules(graph.nodes, opened, "open")
    if is_in_full(graph, fold):
        return Viewer(graph).in_full()
    if fold is None:
        return overview_of(graph, opened)
    return Viewer(graph).by_paths(modules, opened)


def is_in_full(graph: Graph, fold: Fold) -> bool:
    """Return whether every node is shown."""
    return fold is False or (fold is None and len(graph.nodes) <= MOST_IN_FULL)


def overview_of(graph: Graph, opened: Collection[str] = ()) -> View:
    """Show the modules where they are known, or what repeats once if that leaves less to see."""
    viewer = Viewer(graph)
    by_module = viewer.by_module(opened)
    if by_module is not None and (opened or len(by_module.boxes) <= MOST_IN_FULL):
        return by_module
    by_repeats = viewer.by_paths(())
    if by_module is not None and len(by_module.boxes) < len(by_repeats.boxes):
        return by_module
    return by_repeats


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


def opened_of(named: object) -> tuple[str, ...]:
    """Read what was given as `open`, and return the modules that it names."""
    modules = (named,) if isinstance(named, str) else named
    if isinstance(modules, Collection) and all(isinstance(name, str) for name in modules):
        return tuple(modules)
    raise TypeError(
        f"open must be the path of a module or several, not {named!r}; name modules as in "
        "open='layers.0'"
    )


class Viewer:
    """Makes views of one graph, for all of which it finds out once what they need to know."""

    def __init__(self, graph: Graph) -> None:
        """Look at a graph."""
        if not graph.nodes:
            raise ValueError(
                "a picture must have a node to show, not none; trace a tensor with a graph"
            )
        self.graph = with_inputs(graph)
        self.roots = {node.index for node in graph.roots}
        self.modules = {module.path: module for module in graph.modules}
        self.levels = ModuleLevels(graph.modules)

    @cached_property
    def inner(self) -> Mapping[str | None, Sequence[str]]:
        """The classes of the modules right within each module."""
        found = defaultdict[str | None, list[str]](list)
        for module in self.graph.modules:
            way = self.levels.chain(module.path)
            if len(way) > 1 and way[-1] == module.path:
                found[way[-2]].append(module.class_name)
        return found

    @cached_property
    def leaves(self) -> Leaves:
        """The leaves that a fold shows within other boxes."""
        return {leaf.index: leaf for leaf in self.graph.leaves if leaf.index not in self.roots}

    @cached_property
    def uses(self) -> Mapping[int | None, int]:
        """How many edges lead to each node."""
        return Counter(edge.target for edge in self.graph.edges)

    @cached_property
    def apart(self) -> list[TracedNode]:
        """The nodes that a fold does not show within other boxes, without the inputs."""
        own = self.graph.nodes[: len(self.graph.nodes) - len(self.graph.inputs)]
        return [node for node in own if node.index not in self.leaves]

    def title_of(self, path: str) -> str:
        """Return the path of a module, and its class where that is known."""
        return titled(path, self.modules.get(path))

    def in_full(self) -> View:
        """Show every node, in few of them with frames around those of a module."""
        apart = [ModuleBox(nodes=(node,)) for node in self.graph.nodes]
        links, results = _links(apart), [()] * len(apart)
        vertices = [*_vertices(apart, [None] * len(apart), links, results)]
        own = len(apart) - len(self.graph.inputs)
        frames = tuple(self._frames()) if own <= MOST_IN_FULL else ()
        return View(boxes=tuple(self._boxes(apart, vertices, results, {})), frames=frames)

    def _frames(self) -> Iterator[Frame]:
        """Yield the modules of several nodes and frozen ones, with leaves that are theirs alone."""
        boxes = first_level(self.apart, self.levels, least=2, most_share=1.0)
        for one in module_boxes(self.apart, boxes) if boxes is not None else ():
            inside = {node.index for node in one.nodes}
            inside |= {*self._own_leaves(one.module, inside)}
            if one.module is not None and (len(inside) > 1 or self._frozen(one.module)):
                yield self._frame(one.module, sorted(inside), one.nodes)

    def _frozen(self, path: str) -> int:
        """Return how many parameters of a module are frozen, as far as that is known."""
        known = self.modules.get(path)
        return (known.frozen or 0) if known else 0

    def _frame(self, path: str, places: Sequence[int], nodes: Sequence[TracedNode]) -> Frame:
        frozen = f", {number} frozen" if (number := self._frozen(path)) else ""
        return Frame(
            title=self.title_of(path) + frozen,
            places=tuple(places),
            is_inferred=any(node.is_module_inferred for node in nodes),
        )

    def _own_leaves(self, module: str | None, inside: Container[int]) -> Iterator[int]:
        """Yield the leaves of a module that nothing outside uses; unknown ones may be of any."""
        users = defaultdict[int | None, list[int]](list)
        for edge in self.graph.edges:
            users[edge.target].append(edge.source)
        are_known = any(leaf.module is not None for leaf in self.leaves.values())
        for leaf in self.leaves.values():
            is_own = f"{leaf.module}.".startswith(f"{module}.") or not are_known
            if is_own and all(user in inside for user in users[leaf.index]):
                yield leaf.index

    def by_module(self, opened: Collection[str] = ()) -> View | None:
        """Show the modules of the first level that tells enough; None where none is known."""
        boxes = first_level(self.apart, self.levels, least=3, most_share=0.5)
        return None if boxes is None else self.folded(boxes, opened)

    def by_paths(self, patterns: Collection[str], opened: Collection[str] = ()) -> View:
        """Show the modules whose paths match."""
        return self.folded(matching(self.apart, patterns), opened)

    def folded(self, boxes: Boxes, opened: Collection[str]) -> View:
        """Show leaves within others, repeats once, and modules in boxes."""
        boxes = with_open(boxes, self.apart, self.levels, opened)
        view = self.view(module_boxes(self.apart, boxes))
        if not opened:
            return view
        return replace(view, frames=tuple(self._open_frames(view, matching(self.apart, opened))))

    def _open_frames(self, view: View, opened: Boxes) -> Iterator[Frame]:
        """Yield each call of a module that is open: boxes one after the other, but for inputs."""
        places = [place for place, box in enumerate(view.boxes) if box.given is None]

        def module(place: int) -> str | None:
            within = {opened[n.module] for nodes in view.boxes[place].alike for n in nodes}
            return next(iter(within)) if len(within) == 1 else None

        for path, inside in groupby(places, module):
            if path is not None:
                inner = [*inside]
                yield self._frame(path, inner, [view.boxes[place].node for place in inner])

    def view(self, apart: Sequence[ModuleBox]) -> View:
        """Show what stands apart, with the inputs of that, and once what repeats there."""
        apart = [*self._with_inputs(apart)]
        links = _links(apart)
        results = _results(apart, links)
        labels = [*map(self._label, apart, results)]
        vertices, repeats = folded([*_vertices(apart, labels, links, results)])
        boxes = self._boxes(apart, vertices, results, self.leaves)
        shown = [
            replace(one, members=tuple(apart[place].nodes[0].index for place in one.members))
            for one in repeats
        ]
        return View(boxes=tuple(boxes), repeats=tuple(shown))

    def _with_inputs(self, apart: Sequence[ModuleBox]) -> Iterator[ModuleBox]:
        """Yield the boxes, and behind the last one that was given an input a box for that.

        So each stands where what it is given to does, and repeats with that.
        """
        last: dict[int, int] = {}
        for place, one in enumerate(apart):
            ends = (edge for node in one.nodes for edge in node.edges if one.beyond is None)
            last |= {edge.target: place for edge in ends if isinstance(edge, InputEdge)}
        behind = defaultdict[int, list[int]](list)
        for target, place in last.items():
            behind[place].append(target)
        for place, one in enumerate(apart):
            yield one
            yield from (ModuleBox(nodes=(self.graph.nodes[target],)) for target in behind[place])

    def _label(self, one: ModuleBox, results: Results) -> Hashable:
        """Return what must be equal where one box is to stand for several.

        Within a module that are not the shapes, which may follow from the data, but their bytes.
        """
        if one.beyond is not None:
            return one.beyond, one.module, one.nodes[0].index
        ends = (edge.target for node in one.nodes for edge in node.edges)
        return (
            any(node.index in self.roots for node in one.nodes),
            self._kind_of_module(one.module),
            *(map(_kind, one.nodes) if one.module is None else map(_kind_within, one.nodes)),
            *(self._shape(result) for result in results),
            bytes_without_parameters([saved for node in one.nodes for saved in node.saved]),
            *(_kind(self.leaves[e]) if e in self.leaves else e is None for e in ends),
        )

    def _kind_of_module(self, path: str | None) -> Hashable:
        """Return what tells a module from those that a picture shows otherwise."""
        if path is None:
            return None
        known = self.modules.get(path)
        facts = known and (known.class_name, known.parameters, known.frozen, known.frozen_numbers)
        return NUMBER.sub("*", path), facts

    def _boxes(
        self,
        apart: Sequence[ModuleBox],
        vertices: Sequence[Vertex],
        results: Sequence[Results],
        within: Leaves,
    ) -> Iterator[Box]:
        outputs = defaultdict[int, set[int]](set)
        for place, output in chain.from_iterable(vertex.edges for vertex in vertices):
            outputs[place].add(output)
        for place, vertex in enumerate(vertices):
            alike = [apart[member] for member in vertex.members]
            first, module = alike[0], alike[0].module
            shapes = tuple(self._shape(result) for result in results[vertex.members[0]])
            has_ports = len({*shapes} if module is not None else first.nodes[0].shapes) > 1
            yield Box(
                members=first.nodes,
                name=None if module is None else common([one.module or "" for one in alike]),
                copies=len(alike),
                edges=vertex.edges,
                leaves=tuple(self._leaves(alike)) if within and not first.beyond else (),
                outputs=tuple(sorted(outputs[place])) if has_ports else (),
                is_root=any(node.index in self.roots for node in first.nodes),
                path=module,
                module=None if module is None else self.modules.get(module),
                inner=tuple(self.inner.get(module, ())),
                alike=tuple(one.nodes for one in alike),
                results=shapes,
                beyond=first.beyond,
            )

    def _shape(self, result: Result) -> Shape | None:
        node, output = result
        return self.graph.nodes[node or 0].shapes[output]

    def _leaves(self, alike: Sequence[ModuleBox]) -> Iterator[FoldedLeaf]:
        """Yield the leaves that edges lead to, one for those of all boxes that are alike."""
        edges_of = ([edge for node in one.nodes for edge in node.edges] for one in alike)
        for edges in zip(*edges_of, strict=True):
            leaves = [self.leaves[edge.target] for edge in edges if edge.target in self.leaves]
            if leaves:
                names = [leaf.leaf_name for leaf in leaves if leaf.leaf_name is not None]
                yield FoldedLeaf(
                    node=leaves[0],
                    name=common(names) or None,
                    uses=self.uses[leaves[0].index],
                    alike=tuple(leaves),
                )


def _links(apart: Sequence[ModuleBox]) -> list[Links]:
    """Return the edges from each box to others; what stands outside only leads in, or is led to."""
    places: dict[int | None, int] = {
        node.index: place
        for place, one in enumerate(apart)
        if one.beyond != "user"
        for node in one.nodes
    }
    links: list[Links] = []
    for place, one in enumerate(apart):
        found = [
            (target, edge)
            for node in (one.nodes if one.beyond != "input" else ())
            for edge in node.edges
            if (target := places.get(edge.target, place)) != place
        ]
        if one.beyond is not None:
            found = [link for link in found if apart[link[0]].beyond is None]
        links.append(found)
    return links


def _results(apart: Sequence[ModuleBox], links: Sequence[Links]) -> Sequence[Results]:
    """Return for each box the outputs of its nodes that other boxes lead to, if it is a module."""
    if not any(one.module for one in apart):
        return [()] * len(apart)
    found: list[set[Result]] = [set() for _ in apart]
    for target, edge in chain.from_iterable(links):
        if apart[target].module is not None:
            found[target].add((edge.target, edge.input_nr))
    order = {node.index: n for n, node in enumerate(chain.from_iterable(o.nodes for o in apart))}
    return [sorted(each, key=lambda one: (order[one[0] or 0], one[1])) for each in found]


def _vertices(
    apart: Sequence[ModuleBox],
    labels: Sequence[Hashable],
    links: Sequence[Links],
    results: Sequence[Results],
) -> Iterator[Vertex]:
    """Yield what leads where, from a module to another once for each output."""
    numbers = [{result: number for number, result in enumerate(each)} for each in results]
    for place, (one, label) in enumerate(zip(apart, labels, strict=True)):
        edges = (
            (target, numbers[target].get((edge.target, edge.input_nr), edge.input_nr))
            for target, edge in links[place]
        )
        led = tuple(edges if one.module is None else dict.fromkeys(edges))
        yield Vertex(label=label, edges=led, members=(place,))


def _kind(node: TracedNode) -> Hashable:
    """Return what tells a node from those that a picture shows otherwise."""
    names = tuple(NUMBER.sub("*", name) for name in node.tensor_names)
    return node.shapes, names, node.retains_grad, _kind_within(node)


def _kind_within(node: TracedNode) -> Hashable:
    """Return what tells a node that is not shown itself, only the module that it stands in."""
    kind = node.name, node.dtype, node.device, node.is_leaf, node.derivative_order
    return *kind, node.value_turns, node.gradient_turns, *map(_state, node.saved)


def _state(saved: SavedTensor) -> Hashable:
    versions = (saved.saved_version, saved.current_version) if saved.is_modified else None
    return saved.name, saved.state, versions


def titled(path: str, module: TracedModule | None) -> str:
    """Return a path with the class of its module, unless it is called by that."""
    if module is None or path.partition("-")[0] == module.class_name:
        return path
    return f"{path}: {module.class_name}"


def common(names: Sequence[str]) -> str:
    """Put a star for each number in which names differ that are otherwise equal."""
    fields = zip(*(NUMBER.split(name) for name in names), strict=True)
    return "".join(field[0] if len({*field}) == 1 else "*" for field in fields)
