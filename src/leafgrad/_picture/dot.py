"""A traced graph in the language of Graphviz."""

from collections.abc import Iterator

from leafgrad._graph.graph import Graph
from leafgrad._picture.input_nodes import InputEdge, InputNode, with_inputs
from leafgrad._picture.labels import label_of_node


def dot(graph: Graph) -> str:
    """Write every node and every edge that leads somewhere; roots are on top."""
    return "\n".join(["digraph leafgrad {", *_lines(graph), "}"])


def _lines(graph: Graph) -> Iterator[str]:
    yield '  node [shape=box, fontname="sans-serif"];'
    graph = with_inputs(graph)
    for node in graph.nodes:
        text = "\\n".join(map(_escaped, label_of_node(node)))
        style = "" if node.is_leaf else ", style=rounded"
        if isinstance(node, InputNode):
            style = ", shape=parallelogram"
        yield f'  {node.index} [label="{text}"{style}];'
    for edge in graph.edges:
        if edge.target is not None:
            text = f' [label="output {edge.input_nr}"]' if edge.input_nr else ""
            if isinstance(edge, InputEdge):
                text = " [style=dashed, arrowhead=none]"
            yield f"  {edge.source} -> {edge.target}{text};"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
