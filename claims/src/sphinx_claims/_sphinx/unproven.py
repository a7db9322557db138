"""Render `{unproven}`: content that is not executed, with the reason."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from sphinx_claims._sphinx.notebook import ESCAPE, take_pending
from sphinx_claims._sphinx.words import say


def above(node: nodes.Node) -> Iterator[nodes.Element]:
    """Yield the nodes that contain `node`, from the inner to the outer."""
    while node.parent is not None:
        node = node.parent
        yield node


def line_of(node: nodes.Node) -> int:
    """Return the line of `node`, or of the innermost node around it that has one, or 1."""
    return next((part.line for part in (node, *above(node)) if part.line), 1)


_HIGHLIGHTED = frozenset("python python3 py pycon ipython ipython3 bash console".split())


class UnprovenDirective(SphinxDirective):
    """The directive `{unproven}`: code in the language of its argument, or Markdown without one."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = {"because": str}  # noqa: RUF012 - docutils requires it

    def run(self) -> list[nodes.Node]:
        """Return nodes for the content and the reason why it is not executed."""
        because = " ".join(self.options.get("because", "").split())
        take_pending(self.env, ESCAPE, because)
        box = nodes.container(classes=["unproven"])
        if self.arguments:
            text = "\n".join(self.content)
            language = self.arguments[0] if self.arguments[0] in _HIGHLIGHTED else "text"
            box += nodes.literal_block(text, text, language=language, force=True)
            self.set_source_info(box[0])
        else:
            self.state.nested_parse(self.content, self.content_offset, box)
        box += nodes.paragraph(
            "", say("not proven: {because}", because=because), classes=["unproven-because"]
        )
        return [box]


def escapes_list(escapes: Sequence[Mapping[str, Any]]) -> Iterator[nodes.Node]:
    """Yield nodes that list the code that pages show but do not execute, with the reasons."""
    if escapes:
        places = (f"{escape['page']}:{escape['line']}: {escape['because']}" for escape in escapes)
        items = (nodes.list_item("", nodes.paragraph("", place)) for place in places)
        yield nodes.rubric("", say("Shown and not proven: {n}", n=len(escapes)))
        yield nodes.bullet_list("", *items, classes=["claims-escapes"])
