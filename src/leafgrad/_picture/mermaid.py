"""A traced graph as a Mermaid flowchart, folded until Mermaid draws it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from leafgrad._display.units import count
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedNode
from leafgrad._picture.labels import label

MOST_EDGES = 500
MOST_CHARACTERS = 50_000


class Folding(NamedTuple):
    """A way to put nodes into boxes: which box, what stands in it, and what to call the way."""

    box: Callable[[TracedNode], Hashable]
    name: Callable[[TracedNode], str]
    told: str


def mermaid(graph: Graph) -> str:
    """Write the finest flowchart that stays within the limits, and say what was folded."""
    edges = sum(edge.target is not None for edge in graph.edges)
    if edges <= MOST_EDGES and len(text := "\n".join(_whole(graph))) <= MOST_CHARACTERS:
        return text
    for folding in _foldings(graph):
        lines, edges = _folded(graph, folding)
        text = "\n".join(lines)
        if edges <= MOST_EDGES and len(text) <= MOST_CHARACTERS:
            break
    return text


def _whole(graph: Graph) -> Iterator[str]:
    yield "flowchart TD"
    for node in graph.nodes:
        yield f"  n{node.index}{_box(label(node), is_leaf=node.is_leaf)}"
    for edge in graph.edges:
        if edge.target is not None:
            yield f"  n{edge.source} --> n{edge.target}"


def _foldings(graph: Graph) -> Iterator[Folding]:
    """Fold by module, the innermost first, where modules are known; in the end by kind of node."""
    depths = [node.module.count(".") + 1 for node in graph.nodes if node.module is not None]
    for depth in range(max(depths, default=0), 0, -1):
        yield _by_module(depth)
    yield Folding(lambda node: node.name, lambda node: node.name, "kind of node")


def _by_module(depth: int) -> Folding:
    def path(node: TracedNode) -> str | None:
        return None if node.module is None else ".".join(node.module.split(".")[:depth])

    def box(node: TracedNode) -> Hashable:
        return node.index if node.module is None else path(node)

    def name(node: TracedNode) -> str:
        return node.name if node.module is None else path(node) or "the outermost module"

    return Folding(box, name, f"module, {count(depth, 'level')} deep")


def _folded(graph: Graph, folding: Folding) -> tuple[list[str], int]:
    """Write one box for all the nodes that belong together, and one edge from box to box."""
    boxes = defaultdict[Hashable, list[TracedNode]](list)
    for node in graph.nodes:
        boxes[folding.box(node)].append(node)
    place = {node.index: number for number, box in enumerate(boxes.values()) for node in box}
    pairs = Counter(
        (place[edge.source], place[edge.target]) for edge in graph.edges if edge.target is not None
    )
    edges = [(source, target) for source, target in pairs if source != target]
    total = count(len(graph.nodes), "node")
    lines = [
        "flowchart TD",
        f"  %% folded by {folding.told}: {total} into {count(len(boxes), 'box')}",
        *(f"  n{number}{_heap(box, folding)}" for number, box in enumerate(boxes.values())),
        *(f"  n{source} --> n{target}" for source, target in edges),
    ]
    return lines, len(edges)


def _heap(nodes: list[TracedNode], folding: Folding) -> str:
    if len(nodes) == 1:
        return _box(label(nodes[0]), is_leaf=nodes[0].is_leaf)
    return _box([folding.name(nodes[0]), count(len(nodes), "node")], is_leaf=False)


def _box(lines: list[str], *, is_leaf: bool) -> str:
    text = "<br/>".join(map(_escaped, lines))
    return f'["{text}"]' if is_leaf else f'("{text}")'


def _escaped(text: str) -> str:
    """Write what Mermaid would read as markup by its number."""
    return "".join(f"#{ord(sign)};" if sign in '"#<>&`;\n' else sign for sign in text)
