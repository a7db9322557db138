"""Grouping of nodes into boxes, one box for each call of a module."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf
from typing import Literal

from leafgrad._display.units import first_few
from leafgrad._graph.modules import ModuleLevels, outwards
from leafgrad._graph.nodes import TracedNode
from leafgrad._graph.order import topological_order
from leafgrad._messages import message

MOST_MODULES = 4
LEAST_MODULES = 3
MOST_IN_FULL = 40

Beyond = Literal["user", "input"]
"""The side of a box outside the module that a picture shows: it uses that module's output ("user"),
or computes its input ("input").
"""

Boxes = Mapping[str | None, str | None]
"""For the path of each node's module, the module whose box holds the node.

None if the node has its own box.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleBox:
    """The nodes of one box: a single node, or the nodes of one call of a module.

    Attributes:
        nodes: The nodes, each before the nodes that its edges lead to.
        module: The path of the module; None for a single node.
        beyond: For a box outside the module that the picture shows, whether it uses or feeds that
            module; None for all other boxes.
    """

    nodes: tuple[TracedNode, ...]
    module: str | None = None
    beyond: Beyond | None = None


def match_modules(nodes: Sequence[TracedNode], patterns: Collection[str]) -> Boxes:
    """Return which module box each module belongs to, given the path patterns of modules to fold.

    If both a module and one inside it match, the outer one gets the box.
    """
    paths = {node.module for node in nodes}
    return {
        path: next((p for p in outwards(path) if _matches(p, *patterns)), None) for path in paths
    }


def at_level(nodes: Sequence[TracedNode], levels: ModuleLevels, level: int) -> Boxes:
    """Return which module box each module belongs to if modules at one nesting level get boxes.

    If the modules within a module have boxes, each node of the module itself gets its own box.
    """
    chains = {path: levels.chain(path)[:level] for path in {node.module for node in nodes}}
    opened = {one for chain in chains.values() for one in chain[:-1]}
    ends = {path: chain[-1] if chain else None for path, chain in chains.items()}
    return {path: None if end in opened else end for path, end in ends.items()}


def first_level(nodes: Sequence[TracedNode], levels: ModuleLevels) -> Boxes | None:
    """Return the boxes of the outermost nesting level with at least three modules of similar size.

    No box may hold more than half of the nodes. Without such a level, use the deepest; without any
    module, return None.
    """
    deepest = max(len(levels.chain(path)) for path in {node.module for node in nodes})
    for level in range(1, deepest):
        boxes = at_level(nodes, levels, level)
        counts = Counter(boxes[node.module] for node in nodes)
        del counts[None]
        if len(counts) >= LEAST_MODULES and max(counts.values()) <= len(nodes) / 2:
            return boxes
    return at_level(nodes, levels, deepest) if deepest else None


def module_boxes(nodes: Sequence[TracedNode], boxes: Boxes) -> list[ModuleBox]:
    """Return the boxes of a picture in topological order, given which module box holds each node.

    A box is a run of nodes that were created one after the other, as in one call of a module.
    So boxes form no cycle, and a module that is called twice has two boxes.
    """
    if not any(boxes.values()):
        return [ModuleBox(nodes=(node,)) for node in nodes]
    places: dict[int | None, int] = {node.index: place for place, node in enumerate(nodes)}
    edges = [[places[e.target] for e in node.edges if e.target in places] for node in nodes]
    youngest_first = [inf if node.created is None else -node.created for node in nodes]
    ordered = (nodes[place] for place in topological_order(edges, youngest_first))
    return [*_stretches(ordered, boxes)]


def check_modules(nodes: Sequence[TracedNode], modules: Collection[str]) -> None:
    """Raise a ValueError if a path pattern matches no module of the graph."""
    paths = dict.fromkeys(path for node in nodes for path in outwards(node.module))
    for module in modules:
        if not any(_matches(path, module) for path in paths):
            few = first_few([*map(repr, paths)], MOST_MODULES)
            raise ValueError(message("errors.picture.module", module=module, names=few))


def _stretches(nodes: Iterator[TracedNode], boxes: Boxes) -> Iterator[ModuleBox]:
    """Yield a box for each run of nodes of one module; a node of another module ends a run."""
    run: list[TracedNode] = []
    for node in nodes:
        if run and not _continues(run[-1], node, boxes):
            yield ModuleBox(nodes=tuple(run), module=boxes[run[-1].module])
            run = []
        run.append(node)
    yield ModuleBox(nodes=tuple(run), module=boxes[run[-1].module])


def _continues(before: TracedNode, node: TracedNode, boxes: Boxes) -> bool:
    """Return whether a node belongs to the same box as the node before it."""
    module = boxes[node.module]
    if module is None or boxes[before.module] != module:
        return False
    return before.created is None or node.created is None or before.created - node.created <= 1


def _matches(path: str, *patterns: str) -> bool:
    """Return whether a module path matches a pattern; a star matches one part of the path."""
    parts = path.split(".")
    wanted = (pattern.split(".") for pattern in patterns)
    return any(len(parts) == len(one) and all(map(fnmatchcase, parts, one)) for one in wanted)
