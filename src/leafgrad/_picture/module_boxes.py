"""Modules as boxes of a picture: a box for each stretch of nodes that a call of one made."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from math import inf

from leafgrad._graph.nodes import TracedNode
from leafgrad._graph.order import topological_order

MOST_MODULES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleBox:
    """What stands in one box: a node, or all that a call of a module made.

    Attributes:
        nodes: The nodes, each before those that it leads to.
        module: The path of the module; None for a node that stands for itself.
    """

    nodes: tuple[TracedNode, ...]
    module: str | None = None


def module_boxes(nodes: Sequence[TracedNode], modules: Collection[str]) -> list[ModuleBox]:
    """Put what belongs to modules whose paths match in boxes, each before those it leads to.

    A call of a module is a stretch of the order in which the nodes were made. Whatever is cut into
    stretches along an order has no cycle, so that a module that is called twice, with something
    in between, is two boxes.
    """
    if not modules:
        return [ModuleBox(nodes=(node,)) for node in nodes]
    paths = {node.module for node in nodes}
    of = {path: next((p for p in _outwards(path) if _matches(p, *modules)), None) for path in paths}
    places: dict[int | None, int] = {node.index: place for place, node in enumerate(nodes)}
    edges = [[places[e.target] for e in node.edges if e.target in places] for node in nodes]
    youngest_first = [inf if node.created is None else -node.created for node in nodes]
    ordered = (nodes[place] for place in topological_order(edges, youngest_first))
    return [*_stretches(ordered, of)]


def check_modules(nodes: Sequence[TracedNode], modules: Collection[str]) -> None:
    """Raise where a path matches none of the modules that are known."""
    known = dict.fromkeys(path for node in nodes for path in _outwards(node.module))
    for module in modules:
        if not any(_matches(path, module) for path in known):
            there = "no module is known: trace with names=model or with a recording"
            if known:
                few = [*map(repr, known)][:MOST_MODULES]
                more = ", ..." if len(known) > MOST_MODULES else ""
                there = f"there are {', '.join(few)}{more}"
            raise ValueError(
                f"fold must name modules of the graph, such as 'layers.0' or '*', not {module!r}; "
                f"{there}"
            )


def _stretches(
    nodes: Iterator[TracedNode], modules: Mapping[str | None, str | None]
) -> Iterator[ModuleBox]:
    for module, stretch in groupby(nodes, lambda node: modules[node.module]):
        together = tuple(stretch)
        if module is None or len(together) == 1:
            yield from (ModuleBox(nodes=(node,)) for node in together)
        else:
            yield ModuleBox(nodes=together, module=module)


def _outwards(module: str | None) -> Iterator[str]:
    """Yield the paths of the modules that one stands in, the outermost first, then its own."""
    parts = module.split(".") if module else []
    yield from (".".join(parts[: depth + 1]) for depth in range(len(parts)))


def _matches(path: str, *patterns: str) -> bool:
    """Compare a path part by part with patterns, so that a star is one part and not several."""
    parts = path.split(".")
    wanted = (pattern.split(".") for pattern in patterns)
    return any(len(parts) == len(one) and all(map(fnmatchcase, parts, one)) for one in wanted)
