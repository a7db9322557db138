"""A traced graph in the languages of Graphviz and Mermaid."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from leafgrad._display.units import count, shape_text
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedNode
from leafgrad._messages import message
from leafgrad._picture.box_text import order_sign
from leafgrad._picture.input_nodes import InputEdge, InputNode, with_inputs
from leafgrad._picture.node_groups import NodeGroup, group_by_kind, group_by_module

MOST_EDGES = 500
MOST_CHARACTERS = 50_000
INPUT_SHAPE = '[/"{}"/]'
DOT_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
MERMAID_ESCAPES = str.maketrans({sign: f"#{ord(sign)};" for sign in '"#<>&`;\n'})
"""The characters that Mermaid would read as markup, and the numbers that it writes for them."""


class Flowchart(NamedTuple):
    """The contents of a flowchart.

    Attributes:
        boxes: The lines of each box, and its shape.
        arrows: The arrows, as pairs of indices of boxes.
        comment: How the graph was folded, if it was.
    """

    boxes: list[tuple[list[str], str]]
    arrows: list[tuple[int, int]]
    comment: str = ""


def mermaid(graph: Graph) -> str:
    """Write the finest flowchart that stays within Mermaid's limits."""
    for chart in _from_finest(graph):
        text = _write(chart)
        if len(chart.arrows) <= MOST_EDGES and len(text) <= MOST_CHARACTERS:
            break
    return text


def _from_finest(graph: Graph) -> Iterator[Flowchart]:
    """Yield all nodes, then the modules, the innermost first, then the kinds of node."""
    total, graph = count(len(graph.nodes), "node"), with_inputs(graph)
    arrows = [(edge.source, edge.target) for edge in graph.edges if edge.target is not None]
    if len(arrows) <= MOST_EDGES:
        yield Flowchart([(label(node), _shape(node)) for node in graph.nodes], arrows)
    depths = [node.module.count(".") + 1 for node in graph.nodes if node.module is not None]
    for depth in range(max(depths, default=0), 0, -1):
        levels = count(depth, "level")
        yield _draw_groups(group_by_module(graph, depth), "by-module", nodes=total, levels=levels)
    yield _draw_groups(group_by_kind(graph), "by-kind", nodes=total)


def _shape(node: TracedNode, *others: TracedNode) -> str:
    if isinstance(node, InputNode):
        return INPUT_SHAPE
    return '["{}"]' if node.is_leaf and not others else '("{}")'


def _draw_groups(groups: Sequence[NodeGroup], how: str, **slots: str) -> Flowchart:
    return Flowchart(
        boxes=[(label(*group.nodes, name=group.name), _shape(*group.nodes)) for group in groups],
        arrows=[(index, target) for index, group in enumerate(groups) for target in group.targets],
        comment=message(f"diagram.{how}", boxes=count(len(groups), "box"), **slots),
    )


def _write(chart: Flowchart) -> str:
    lines = ["flowchart TD"]
    if chart.comment:
        lines.append(f"  %% {chart.comment}")
    for index, (texts, shape) in enumerate(chart.boxes):
        text = "<br/>".join([line.translate(MERMAID_ESCAPES) for line in texts])
        lines.append(f"  n{index}{shape.format(text)}")
    for source, target in chart.arrows:
        arrow = "-.-" if chart.boxes[target][1] == INPUT_SHAPE else "-->"
        lines.append(f"  n{source} {arrow} n{target}")
    return "\n".join(lines)


def dot(graph: Graph) -> str:
    """Write every node, and every edge that leads to a node, for Graphviz; roots are at the top."""
    lines = ['  node [shape=box, fontname="sans-serif"];']
    graph = with_inputs(graph)
    for node in graph.nodes:
        text = "\\n".join([line.translate(DOT_ESCAPES) for line in label(node)])
        style = "" if node.is_leaf else ", style=rounded"
        if isinstance(node, InputNode):
            style = ", shape=parallelogram"
        lines.append(f'  {node.index} [label="{text}"{style}];')
    for edge in graph.edges:
        if edge.target is not None:
            text = ""
            if isinstance(edge, InputEdge):
                text = " [style=dashed, arrowhead=none]"
            elif edge.input_nr:
                text = f' [label="{message("diagram.output", number=edge.input_nr)}"]'
            lines.append(f"  {edge.source} -> {edge.target}{text};")
    return "\n".join(["digraph leafgrad {", *lines, "}"])


def label(node: TracedNode, *others: TracedNode, name: str = "") -> list[str]:
    """Return the name, first tensor, first shape and module of a node; of several, their number."""
    if others:
        return [name, count(1 + len(others), "node")]
    lines = [f"{order_sign(node)}{node.name}", *node.tensor_names[:1]]
    if node.shapes and node.shapes[0] is not None:
        lines.append(shape_text(node.shapes[0]))
    if node.module:
        lines.append(node.module)
    return lines
