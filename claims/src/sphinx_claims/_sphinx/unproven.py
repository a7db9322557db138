"""What a page shows unproven, as Sphinx renders it: with the reason, and counted in the ledger."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from sphinx_claims._sphinx.notebook import ESCAPE, take_pending
from sphinx_claims._sphinx.words import say


def above(node: nodes.Node) -> Iterator[nodes.Element]:
    """Yield what `node` stands in, from the inner to the outer."""
    while node.parent is not None:
        node = node.parent
        yield node


def line_of(node: nodes.Node) -> int:
    """Return the line of `node`, or of what it stands in."""
    return next((part.line for part in (node, *above(node)) if part.line), 1)


_HIGHLIGHTED = frozenset("python python3 py pycon ipython ipython3 bash console".split())


class UnprovenDirective(SphinxDirective):
    """A block of code in the language of its argument, or Markdown without one."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = {"because": str}  # noqa: RUF012 - docutils declares it so

    def run(self) -> list[nodes.Node]:
        """Render the content and the reason; what the reader has not seen is found."""
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
    """Yield how much the ledger's pages show unproven, and why."""
    if escapes:
        places = (f"{escape['page']}:{escape['line']}: {escape['because']}" for escape in escapes)
        items = (nodes.list_item("", nodes.paragraph("", place)) for place in places)
        yield nodes.rubric("", say("Shown and not proven: {n}", n=len(escapes)))
        yield nodes.bullet_list("", *items, classes=["claims-escapes"])
