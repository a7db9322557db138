"""A traced graph in the language of Graphviz."""

from collections.abc import Iterator

from leafgrad._graph.graph import Graph
from leafgrad._picture.labels import label
from leafgrad._picture.view import Box, in_full


def dot(graph: Graph) -> str:
    """Write every node and every edge that leads somewhere; roots are on top."""
    return "\n".join(["digraph leafgrad {", *_lines(in_full(graph).boxes), "}"])


def _lines(boxes: tuple[Box, ...]) -> Iterator[str]:
    yield '  node [shape=box, fontname="sans-serif"];'
    for place, box in enumerate(boxes):
        text = "\\n".join(map(_escaped, label(box)))
        style = "" if box.node.is_leaf else ", style=rounded"
        yield f'  {place} [label="{text}"{style}];'
    for source, box in enumerate(boxes):
        for target, output in box.edges:
            text = f' [label="output {output}"]' if output else ""
            yield f"  {source} -> {target}{text};"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
