"""What a picture of a graph shows: its nodes, some of them folded into others."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import SavedTensor, TracedEdge, TracedNode
from leafgrad._picture.modules import Pile, check_modules, piles
from leafgrad._picture.repeats import Knot, Repeat, folded

MOST_IN_FULL = 40
Fold = bool | str | Collection[str] | None
Within = Mapping[int | None, TracedNode]
_NUMBER = re.compile(r"(\d+)")


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
class Part:
    """A node as a picture shows it, or all the nodes of a module in one box.

    Attributes:
        node: The node, or the first of those that it stands for.
        pile: All nodes in the box, the one that is led to first.
        module: The path of the module that it shows, with a star for each number that differs
            between those that it stands for; None for a node that is shown as itself.
        copies: How many it stands for.
        ways: The places of the parts that it leads to, each with the output that it means.
        leaves: The leaves that are shown within it.
        outputs: Which of its outputs lead to it, where it has several; `SEVERAL` for a way that
            stands for ways to more than one.
        is_root: Whether a backward starts there.
    """

    node: TracedNode
    pile: tuple[TracedNode, ...]
    module: str | None
    copies: int
    ways: tuple[tuple[int, int], ...]
    leaves: tuple[FoldedLeaf, ...]
    outputs: tuple[int, ...]
    is_root: bool

    @property
    def saved(self) -> list[SavedTensor]:
        """Everything that is saved in it."""
        return [saved for node in self.pile for saved in node.saved]


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """All parts of a picture.

    Attributes:
        parts: The parts, each before those that it leads to.
        repeats: The stretches that stand for several, by the indices of their nodes.
    """

    parts: tuple[Part, ...]
    repeats: tuple[Repeat, ...]


def picture(graph: Graph, *, fold: Fold) -> Picture:
    """Choose what is shown: every node, or if `fold` leaves within others and repeats once.

    None folds what has more than `MOST_IN_FULL` nodes. The paths of modules fold these as well.
    """
    if not graph.nodes:
        raise ValueError(
            "a picture must have a node to show, not none; trace a tensor with a graph"
        )
    modules = modules_of(fold)
    check_modules(graph.nodes, modules)
    folds = len(graph.nodes) > MOST_IN_FULL if fold is None else bool(fold)
    roots = {node.index for node in graph.roots}
    within: dict[int | None, TracedNode] = {
        leaf.index: leaf for leaf in graph.leaves if folds and leaf.index not in roots
    }
    apart = piles([node for node in graph.nodes if node.index not in within], modules)
    knots = [*_knots(apart, within, roots)]
    knots, repeats = folded(knots) if folds else (knots, [])
    heads = {pile.nodes[0].index: pile for pile in apart}
    return Picture(parts=tuple(_parts(graph, knots, heads, within)), repeats=tuple(repeats))


def modules_of(fold: object) -> tuple[str, ...]:
    """Read what was given as `fold`, and give the modules that it names."""
    if fold is None or isinstance(fold, bool):
        return ()
    named = (fold,) if isinstance(fold, str) else fold
    if isinstance(named, Collection) and named and all(isinstance(name, str) for name in named):
        return tuple(named)
    raise TypeError(
        f"fold must be True, False, None, the path of a module or several, not {fold!r}; "
        "name modules as in fold='layers.*'"
    )


def _knots(apart: Sequence[Pile], within: Within, roots: Container[int]) -> Iterator[Knot]:
    places: dict[int | None, int] = {
        node.index: place for place, pile in enumerate(apart) for node in pile.nodes
    }
    for place, pile in enumerate(apart):
        edges = [edge for node in pile.nodes for edge in node.edges]
        ways = [
            (places[edge.target], edge.input_nr * (apart[places[edge.target]].module is None))
            for edge in edges
            if places.get(edge.target, place) != place
        ]
        label = (
            any(node.index in roots for node in pile.nodes),
            *map(_kind, pile.nodes),
            *(_end(edge, within) for edge in edges),
        )
        distinct = ways if pile.module is None else dict.fromkeys(ways)
        yield Knot(label=label, ways=tuple(distinct), twins=(pile.nodes[0].index,))


def _kind(node: TracedNode) -> Hashable:
    """Tell a node from those that a picture shows otherwise."""
    names = tuple(_NUMBER.sub("*", name) for name in node.tensor_names)
    kind = node.name, node.shapes, node.dtype, node.device, node.is_leaf, names, node.retains_grad
    turns = node.value_turns, node.gradient_turns
    return *kind, node.derivative_order, *turns, *map(_state, node.saved)


def _state(saved: SavedTensor) -> Hashable:
    versions = (saved.saved_version, saved.current_version) if saved.is_modified else None
    return saved.name, saved.state, versions


def _end(edge: TracedEdge, within: Within) -> Hashable:
    return _kind(within[edge.target]) if edge.target in within else edge.target is None


def _parts(
    graph: Graph, knots: Sequence[Knot], heads: Mapping[int, Pile], within: Within
) -> Iterator[Part]:
    outputs = defaultdict[int, set[int]](set)
    for place, output in chain.from_iterable(knot.ways for knot in knots):
        outputs[place].add(output)
    uses = Counter(edge.target for edge in graph.edges)
    roots = {node.index for node in graph.roots}
    for place, knot in enumerate(knots):
        twins = [heads[index] for index in knot.twins]
        first = twins[0]
        has_ports = first.module is None and len(first.nodes[0].shapes) > 1
        yield Part(
            node=first.nodes[0],
            pile=first.nodes,
            module=_common([twin.module for twin in twins if twin.module is not None]),
            copies=len(twins),
            ways=knot.ways,
            leaves=tuple(_leaves(twins, within, uses)),
            outputs=tuple(sorted(outputs[place])) if has_ports else (),
            is_root=any(node.index in roots for node in first.nodes),
        )


def _leaves(
    twins: Sequence[Pile], within: Within, uses: Mapping[int | None, int]
) -> Iterator[FoldedLeaf]:
    edges_of = ([edge for node in pile.nodes for edge in node.edges] for pile in twins)
    for edges in zip(*edges_of, strict=True):
        leaves = [within[edge.target] for edge in edges if edge.target in within]
        if leaves:
            names = [leaf.leaf_name for leaf in leaves if leaf.leaf_name is not None]
            yield FoldedLeaf(
                node=leaves[0],
                name=_common(names),
                uses=uses[leaves[0].index],
            )


def _common(names: Sequence[str]) -> str | None:
    """Put a star for each number in which names differ that are otherwise equal."""
    fields = zip(*(_NUMBER.split(name) for name in names), strict=True)
    return "".join(field[0] if len({*field}) == 1 else "*" for field in fields) or None
