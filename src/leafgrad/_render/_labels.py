"""What stands in the box of a node, in every picture."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leafgrad._traced import TracedNode


def label(node: "TracedNode") -> list[str]:
    """Name the node, its tensors, its first shape and its module, a line each."""
    shape = node.shapes[0] if node.shapes else None
    sizes = [] if shape is None else [_sizes(shape)]
    module = [node.module] if node.module else []
    return [node.name, *node.tensor_names[:1], *sizes, *module]


def _sizes(shape: tuple[int | str, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
