"""What stands in a box of a picture that Graphviz or Mermaid draws."""

from leafgrad._display.units import count, shape_text
from leafgrad._graph.nodes import TracedNode
from leafgrad._picture.box_text import order_sign
from leafgrad._picture.view import Box


def label(box: Box) -> list[str]:
    """Return the lines of a box: of several nodes what they have in common, and their number."""
    if len(box.members) > 1:
        return [box.name or "", count(len(box.members), "node")]
    return label_of_node(box.node)


def label_of_node(node: TracedNode) -> list[str]:
    """Return the lines of a node: its name, its first tensor, its first shape and its module."""
    lines = [f"{order_sign(node)}{node.name}", *node.tensor_names[:1]]
    if node.shapes and node.shapes[0] is not None:
        lines.append(shape_text(node.shapes[0]))
    if node.module:
        lines.append(node.module)
    return lines
