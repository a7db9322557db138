"""Where a part of a document stands."""

from collections.abc import Iterator

from docutils import nodes


def above(node: nodes.Node) -> Iterator[nodes.Element]:
    """Yield what `node` stands in, from the inner to the outer."""
    while node.parent is not None:
        node = node.parent
        yield node


def line_of(node: nodes.Node) -> int:
    """Return the line of `node`, or of what it stands in."""
    return next((part.line for part in (node, *above(node)) if part.line), 1)
