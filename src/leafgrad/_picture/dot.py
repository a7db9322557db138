"""A traced graph in the language of Graphviz."""

from collections.abc import Iterator

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedEdge, TracedNode
from leafgrad._picture.labels import label


def dot(graph: Graph) -> str:
    """Write every node and every edge that leads somewhere; roots are on top."""
    return "\n".join(["digraph leafgrad {", *_lines(graph), "}"])


def _lines(graph: Graph) -> Iterator[str]:
    yield '  node [shape=box, fontname="sans-serif"];'
    for node in graph.nodes:
        yield f"  {node.index} [{_attributes(node)}];"
    for edge in graph.edges:
        if edge.target is not None:
            yield f"  {edge.source} -> {edge.target}{_edge_label(edge)};"


def _attributes(node: TracedNode) -> str:
    text = "\\n".join(map(_escaped, label(node)))
    return f'label="{text}"' + ", style=rounded" * (not node.is_leaf)


def _edge_label(edge: TracedEdge) -> str:
    return f' [label="output {edge.input_nr}"]' * bool(edge.input_nr)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
