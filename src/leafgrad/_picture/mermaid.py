"""A traced graph as a Mermaid flowchart, folded until Mermaid draws it."""

from collections.abc import Iterator
from typing import NamedTuple

from leafgrad._display.units import count
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedNode
from leafgrad._picture.grouped_views import by_kind, by_module
from leafgrad._picture.input_nodes import InputNode, with_inputs
from leafgrad._picture.labels import label, label_of_node
from leafgrad._picture.view import View

MOST_EDGES = 500
MOST_CHARACTERS = 50_000
OF_INPUT = '[/"{}"/]'
_ESCAPES = str.maketrans({sign: f"#{ord(sign)};" for sign in '"#<>&`;\n'})
"""What Mermaid would read as markup, by its number."""


class Flowchart(NamedTuple):
    """What a flowchart shows.

    Attributes:
        boxes: The lines of each box, and its outline.
        arrows: Which box leads to which, by their places.
        comment: How it was folded, if it was.
    """

    boxes: list[tuple[list[str], str]]
    arrows: list[tuple[int, int]]
    comment: str = ""


def mermaid(graph: Graph) -> str:
    """Write the finest flowchart that stays within the limits, and say what was folded."""
    for chart in _from_finest(graph):
        text = _written(chart)
        if len(chart.arrows) <= MOST_EDGES and len(text) <= MOST_CHARACTERS:
            break
    return text


def _from_finest(graph: Graph) -> Iterator[Flowchart]:
    """Yield the whole if there is a chance, then by module, the innermost first, then by kind."""
    total, graph = count(len(graph.nodes), "node"), with_inputs(graph)
    arrows = [(edge.source, edge.target) for edge in graph.edges if edge.target is not None]
    if len(arrows) <= MOST_EDGES:
        yield Flowchart([(label_of_node(node), _outline(node)) for node in graph.nodes], arrows)
    depths = [node.module.count(".") + 1 for node in graph.nodes if node.module is not None]
    for depth in range(max(depths, default=0), 0, -1):
        yield _folded(by_module(graph, depth), total, f"module, {count(depth, 'level')} deep")
    yield _folded(by_kind(graph), total, "kind of node")


def _outline(node: TracedNode, *others: TracedNode) -> str:
    """Return how a box is written: a rectangle for a leaf, what leans for an input, else round."""
    if isinstance(node, InputNode):
        return OF_INPUT
    return '["{}"]' if node.is_leaf and not others else '("{}")'


def _folded(view: View, total: str, how: str) -> Flowchart:
    return Flowchart(
        boxes=[(label(box), _outline(*box.members)) for box in view.boxes],
        arrows=[(place, target) for place, box in enumerate(view.boxes) for target, _ in box.edges],
        comment=f"folded by {how}: {total} into {count(len(view.boxes), 'box')}",
    )


def _written(chart: Flowchart) -> str:
    lines = ["flowchart TD"]
    if chart.comment:
        lines.append(f"  %% {chart.comment}")
    for place, (texts, outline) in enumerate(chart.boxes):
        text = "<br/>".join([line.translate(_ESCAPES) for line in texts])
        lines.append(f"  n{place}{outline.format(text)}")
    inputs = {place for place, (_, outline) in enumerate(chart.boxes) if outline == OF_INPUT}
    lines += [
        f"  n{source} {'-.-' if target in inputs else '-->'} n{target}"
        for source, target in chart.arrows
    ]
    return "\n".join(lines)
