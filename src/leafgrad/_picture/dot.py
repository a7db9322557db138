"""A traced graph in the language of Graphviz."""

from leafgrad._display.units import shape_text
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedNode
from leafgrad._messages import message
from leafgrad._picture.box_text import order_sign
from leafgrad._picture.input_nodes import InputEdge, InputNode, with_inputs

ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def dot(graph: Graph) -> str:
    """Write every node, and every edge that leads to a node, for Graphviz; roots are at the top."""
    lines = ['  node [shape=box, fontname="sans-serif"];']
    graph = with_inputs(graph)
    for node in graph.nodes:
        text = "\\n".join([line.translate(ESCAPES) for line in label(node)])
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


def label(node: TracedNode) -> list[str]:
    """Return the name, first tensor, first shape and module of a node."""
    lines = [f"{order_sign(node)}{node.name}", *node.tensor_names[:1]]
    if node.shapes and node.shapes[0] is not None:
        lines.append(shape_text(node.shapes[0]))
    if node.module:
        lines.append(node.module)
    return lines
