"""The calls of modules in a picture: what a page folds and unfolds while someone looks."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from leafgrad._render._picture import NUMBER, FoldedLeaf, Part, Picture
from leafgrad._render._piles import age, newest_first, outwards


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleCall:
    """What one call of a module made, as far as a picture shows it.

    Attributes:
        places: The places of its parts in the picture.
        part: The one box in which all of it can be shown.
        depth: How many modules it stands in.
    """

    places: tuple[int, ...]
    part: Part
    depth: int


def order_of(shown: Picture) -> list[int]:
    """Put the parts in the order of their creation, newest first, each before what it leads to.

    A call of a module is a stretch of it, if one does not look at leaves; so calls that are folded
    have no cycle between them.
    """
    ways = [[target for target, _ in part.ways] for part in shown.parts]
    return [*newest_first([age(part.node) for part in shown.parts], ways)]


def module_calls(shown: Picture, order: list[int]) -> Iterator[ModuleCall]:
    """Yield the calls that made more than one node, each after those that it stands in."""
    paths = {place: [*outwards(shown.parts[place].node.module)] for place in order}
    arriving = Counter(target for part in shown.parts for target, _ in part.ways)
    operations = [place for place in order if not shown.parts[place].node.is_leaf]
    for depth in range(max(map(len, paths.values()), default=0)):
        inner = {place: path[depth] for place, path in paths.items() if len(path) > depth}
        for module, stretch in groupby(operations, inner.get):
            places = [*stretch]
            if module is not None and len(places) > 1:
                places += _own_leaves(shown, places, arriving)
                yield ModuleCall(
                    places=tuple(places), part=_part(shown, module, places), depth=depth
                )


def _own_leaves(shown: Picture, places: list[int], arriving: Mapping[int, int]) -> list[int]:
    """Find the leaves that nothing else leads to."""
    ways = (target for place in places for target, _ in shown.parts[place].ways)
    own = Counter(target for target in ways if shown.parts[target].node.is_leaf)
    return [leaf for leaf, times in own.items() if times == arriving[leaf]]


def _part(shown: Picture, module: str, places: list[int]) -> Part:
    """Put all parts of a call into one, which leads wherever one of them leads out."""
    parts = [shown.parts[place] for place in places]
    copies = min(part.copies for part in parts)
    ways = {way: None for part in parts for way in part.ways if way[0] not in {*places}}
    apart = [
        FoldedLeaf(node=part.node, name=part.node.leaf_name, uses=1)
        for part in parts
        if part.node.is_leaf
    ]
    return Part(
        node=parts[0].node,
        pile=tuple(node for part in parts if not part.node.is_leaf for node in part.pile),
        module=NUMBER.sub("*", module) if copies > 1 else module,
        copies=copies,
        ways=tuple(ways),
        leaves=(*(leaf for part in parts for leaf in part.leaves), *apart),
        outputs=(),
        is_root=any(part.is_root for part in parts),
    )
