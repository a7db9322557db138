"""What stands in the box of a node, in pictures that others draw."""

from leafgrad._display.units import shape_text
from leafgrad._graph.nodes import TracedNode
from leafgrad._picture.box_text import order_sign


def label(node: TracedNode) -> list[str]:
    """Name the node, its tensors, its first shape and its module, a line each."""
    first = node.shapes[0] if node.shapes else None
    sizes = [] if first is None else [shape_text(first)]
    module = [node.module] if node.module else []
    return [f"{order_sign(node)}{node.name}", *node.tensor_names[:1], *sizes, *module]
