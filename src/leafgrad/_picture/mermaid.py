"""A traced graph as a Mermaid flowchart, folded until Mermaid draws it."""

from collections.abc import Iterator

from leafgrad._display.units import count
from leafgrad._graph.graph import Graph
from leafgrad._picture.grouped_views import by_kind, by_module
from leafgrad._picture.labels import label
from leafgrad._picture.view import View, in_full

MOST_EDGES = 500
MOST_CHARACTERS = 50_000
_ESCAPES = str.maketrans({sign: f"#{ord(sign)};" for sign in '"#<>&`;\n'})
"""What Mermaid would read as markup, by its number."""


def mermaid(graph: Graph) -> str:
    """Write the finest flowchart that stays within the limits, and say what was folded."""
    edges = sum(edge.target is not None for edge in graph.edges)
    if edges <= MOST_EDGES and len(text := _flowchart(in_full(graph))) <= MOST_CHARACTERS:
        return text
    for view, how in _folded(graph):
        total = count(len(graph.nodes), "node")
        text = _flowchart(view, f"folded by {how}: {total} into {count(len(view.boxes), 'box')}")
        edges = sum(len(box.edges) for box in view.boxes)
        if edges <= MOST_EDGES and len(text) <= MOST_CHARACTERS:
            break
    return text


def _folded(graph: Graph) -> Iterator[tuple[View, str]]:
    """Fold by module, the innermost first, where modules are known; in the end by kind of node."""
    depths = [node.module.count(".") + 1 for node in graph.nodes if node.module is not None]
    for depth in range(max(depths, default=0), 0, -1):
        yield by_module(graph, depth), f"module, {count(depth, 'level')} deep"
    yield by_kind(graph), "kind of node"


def _flowchart(view: View, comment: str = "") -> str:
    lines = ["flowchart TD"]
    if comment:
        lines.append(f"  %% {comment}")
    for place, box in enumerate(view.boxes):
        text = "<br/>".join(line.translate(_ESCAPES) for line in label(box))
        is_leaf = len(box.members) == 1 and box.node.is_leaf
        lines.append(f'  n{place}["{text}"]' if is_leaf else f'  n{place}("{text}")')
    for source, box in enumerate(view.boxes):
        lines += [f"  n{source} --> n{target}" for target, _ in box.edges]
    return "\n".join(lines)
