"""The calls of modules in a picture: what a page folds and unfolds while someone looks."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from leafgrad._graph.nodes import TracedNode
from leafgrad._picture.modules import age, newest_first, outwards
from leafgrad._picture.view import NUMBER, FoldedLeaf, Part, Picture, common


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
    paths = {place: [*_paths(shown.parts[place])] for place in order}
    arriving = Counter(target for part in shown.parts for target, _ in part.ways)
    operations = [place for place in order if not shown.parts[place].node.is_leaf]
    sizes = Counter(
        path
        for place in operations
        for twin in shown.parts[place].twins
        for path in outwards(twin.module)
    )
    for depth in range(max(map(len, paths.values()), default=0)):
        inner = {place: path[depth] for place, path in paths.items() if len(path) > depth}
        for module, stretch in groupby(operations, inner.get):
            places = [*stretch]
            if module is not None and len(places) > 1 and _are_alike(shown, places, depth):
                places += _own_leaves(shown, places, arriving)
                part = _part(shown, module, places, depth, sizes)
                yield ModuleCall(places=tuple(places), part=part, depth=depth)


def _paths(part: Part) -> Iterator[str]:
    """Yield the modules that a part stands in, with a star where its copies stand in several."""
    for level in zip(*(outwards(twin.module) for twin in part.twins), strict=False):
        paths = [*dict.fromkeys(level)]
        if len({NUMBER.sub("*", path) for path in paths}) > 1:
            return
        yield common(paths) or ""


def _by_module(shown: Picture, places: list[int], depth: int) -> dict[str, list[TracedNode]]:
    """Tell which nodes the parts stand for in each of the modules of some depth."""
    nodes: dict[str, list[TracedNode]] = {}
    for place in places:
        for twin in shown.parts[place].twins:
            if not twin.is_leaf:
                path = [*outwards(twin.module)][depth]
                nodes.setdefault(path, []).append(twin)
    return nodes


def _are_alike(shown: Picture, places: list[int], depth: int) -> bool:
    """Say whether the modules that the parts stand for can be told as one and the number of all."""
    return len({*map(len, _by_module(shown, places, depth).values())}) == 1


def _own_leaves(shown: Picture, places: list[int], arriving: Mapping[int, int]) -> list[int]:
    """Find the leaves that nothing else leads to."""
    ways = (target for place in places for target, _ in shown.parts[place].ways)
    own = Counter(target for target in ways if shown.parts[target].node.is_leaf)
    return [leaf for leaf, times in own.items() if times == arriving[leaf]]


def _part(
    shown: Picture, module: str, places: list[int], depth: int, sizes: Mapping[str, int]
) -> Part:
    """Put all parts of a call into one, which leads wherever one of them leads out.

    It has all that the module holds, of several modules all that the first of them does.
    """
    parts = [shown.parts[place] for place in places]
    modules = _by_module(shown, places, depth)
    path, pile = next(iter(modules.items()))
    ways = {way: None for part in parts for way in part.ways if way[0] not in {*places}}
    return Part(
        node=pile[0],
        pile=tuple(pile),
        module=module,
        copies=len(modules),
        twins=tuple(nodes[0] for nodes in modules.values()),
        size=sizes[path],
        ways=tuple(ways),
        leaves=(*_leaves(parts, path, is_one=len(modules) == 1), *_leaves_apart(parts)),
        outputs=(),
        is_root=any(part.is_root for part in parts),
    )


def _leaves(parts: list[Part], module: str, *, is_one: bool) -> Iterator[FoldedLeaf]:
    """Yield the leaves that are shown within the nodes of a module."""
    for part in parts:
        for leaf in part.leaves:
            for twin, one in zip(part.twins, leaf.twins, strict=True):
                if module in outwards(twin.module):
                    name = one.leaf_name if is_one else leaf.name
                    yield replace(leaf, node=one, name=name, twins=(one,))


def _leaves_apart(parts: list[Part]) -> Iterator[FoldedLeaf]:
    """Yield the leaves that have a box of their own."""
    for part in parts:
        if part.node.is_leaf:
            name = part.node.leaf_name
            yield FoldedLeaf(node=part.node, name=name, uses=1, twins=(part.node,))
