"""What stands in a box of a picture that Graphviz or Mermaid draws."""

from leafgrad._display.units import count, shape_text
from leafgrad._picture.box_text import order_sign
from leafgrad._picture.view import Box


def label(box: Box) -> list[str]:
    """Return the lines: of several nodes what they have in common, and their number.

    Of one node they are its name, its first tensor, its first shape and its module.
    """
    node = box.node
    if len(box.members) > 1:
        return [box.name or "", count(len(box.members), "node")]
    lines = [f"{order_sign(node)}{node.name}", *node.tensor_names[:1]]
    if node.shapes and node.shapes[0] is not None:
        lines.append(shape_text(node.shapes[0]))
    if node.module:
        lines.append(node.module)
    return lines
