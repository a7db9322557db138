"""What a picture of a graph shows: its nodes, some of them folded into others."""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from leafgrad._render._repeats import Knot, Repeat, folded

if TYPE_CHECKING:
    from leafgrad._trace import GraphTrace
    from leafgrad._traced import SavedTensor, TracedEdge, TracedNode

MOST_IN_FULL = 40
Within = Mapping[int | None, "TracedNode"]
NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class FoldedLeaf:
    """A leaf that is shown within the box of a node that leads to it.

    Attributes:
        node: The leaf.
        name: Its name, with a star for each number that differs between those that it stands for.
        uses: How many edges lead to it.
    """

    node: "TracedNode"
    name: str | None
    uses: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A node as a picture shows it.

    Attributes:
        node: The node, or the first of those that it stands for.
        copies: How many it stands for.
        ways: The places of the parts that it leads to, each with the output that it means.
        leaves: The leaves that are shown within it.
        outputs: Which of its outputs lead to it, where it has several; `SEVERAL` for a way that
            stands for ways to more than one.
        is_root: Whether a backward starts there.
    """

    node: "TracedNode"
    copies: int
    ways: tuple[tuple[int, int], ...]
    leaves: tuple[FoldedLeaf, ...]
    outputs: tuple[int, ...]
    is_root: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """All parts of a picture.

    Attributes:
        parts: The parts, each before those that it leads to.
        repeats: The stretches that stand for several, by the indices of their nodes.
    """

    parts: tuple[Part, ...]
    repeats: tuple[Repeat, ...]


def picture(trace: "GraphTrace", *, fold: bool | None) -> Picture:
    """Choose what is shown: every node, or if `fold` leaves within others and repeats once.

    None folds what has more than `MOST_IN_FULL` nodes.
    """
    folds = len(trace.nodes) > MOST_IN_FULL if fold is None else fold
    roots = {node.index for node in trace.roots}
    within: dict[int | None, TracedNode] = {
        leaf.index: leaf for leaf in trace.leaves if folds and leaf.index not in roots
    }
    knots = [*_knots(trace, within, roots)]
    knots, repeats = folded(knots) if folds else (knots, [])
    return Picture(parts=tuple(_parts(trace, knots, within)), repeats=tuple(repeats))


def _knots(trace: "GraphTrace", within: Within, roots: Container[int]) -> Iterator[Knot]:
    apart = [node for node in trace.nodes if node.index not in within]
    places = {node.index: place for place, node in enumerate(apart)}
    for node in apart:
        ways = (
            (places[edge.target], edge.input_nr) for edge in node.edges if edge.target in places
        )
        label = node.index in roots, _kind(node), *(_end(edge, within) for edge in node.edges)
        yield Knot(label=label, ways=tuple(ways), twins=(node.index,))


def _kind(node: "TracedNode") -> Hashable:
    """Tell a node from those that a picture shows otherwise."""
    names = tuple(NUMBER.sub("*", name) for name in node.tensor_names)
    kind = node.name, node.shapes, node.dtype, node.device, node.is_leaf, names, node.retains_grad
    return *kind, *map(_state, node.saved)


def _state(saved: "SavedTensor") -> Hashable:
    versions = (saved.saved_version, saved.current_version) if saved.is_modified else None
    return saved.name, saved.state, versions


def _end(edge: "TracedEdge", within: Within) -> Hashable:
    return _kind(within[edge.target]) if edge.target in within else edge.target is None


def _parts(trace: "GraphTrace", knots: Sequence[Knot], within: Within) -> Iterator[Part]:
    outputs = defaultdict[int, set[int]](set)
    for place, output in chain.from_iterable(knot.ways for knot in knots):
        outputs[place].add(output)
    uses = Counter(edge.target for edge in trace.edges)
    roots = {node.index for node in trace.roots}
    for place, knot in enumerate(knots):
        twins = [trace.nodes[index] for index in knot.twins]
        yield Part(
            node=twins[0],
            copies=len(twins),
            ways=knot.ways,
            leaves=tuple(_leaves(twins, within, uses)),
            outputs=tuple(sorted(outputs[place])) if len(twins[0].shapes) > 1 else (),
            is_root=twins[0].index in roots,
        )


def _leaves(
    twins: Sequence["TracedNode"],
    within: Within,
    uses: Mapping[int | None, int],
) -> Iterator[FoldedLeaf]:
    for edges in zip(*(node.edges for node in twins), strict=True):
        leaves = [within[edge.target] for edge in edges if edge.target in within]
        if leaves:
            names = [leaf.leaf_name for leaf in leaves if leaf.leaf_name is not None]
            yield FoldedLeaf(node=leaves[0], name=_common(names), uses=uses[leaves[0].index])


def _common(names: Sequence[str]) -> str | None:
    """Put a star for each number in which names differ that are otherwise equal."""
    fields = zip(*(NUMBER.split(name) for name in names), strict=True)
    return "".join(field[0] if len({*field}) == 1 else "*" for field in fields) or None
