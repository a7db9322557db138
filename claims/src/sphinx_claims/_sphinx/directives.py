"""Render the directives and roles of a page, with the results of their execution."""

import re
from typing import Any

from docutils import nodes
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from sphinx.addnodes import index
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

from sphinx_claims._executing.cell import remove_pins
from sphinx_claims._judging.anchors import claim_anchor
from sphinx_claims._reading.cell_fence import OPTIONS as CELL_OPTIONS
from sphinx_claims._reading.claim_box import OPTIONS
from sphinx_claims._sphinx.badges import badge, claim_box, note_sentence
from sphinx_claims._sphinx.build import current
from sphinx_claims._sphinx.fold import add_fold
from sphinx_claims._sphinx.ledger_page import LedgerDirective, TotalDirective
from sphinx_claims._sphinx.notebook import CLAIM, ESCAPE, said_again, take_pending
from sphinx_claims._sphinx.unproven import UnprovenDirective

UNEXECUTED = "unexecuted"
"""The class of code that looks executed on a page but was not executed."""

_TRANSLATED = re.compile(r":(\d+):<translated>$")
"""The source that Sphinx gives to a translated text: the line of the original."""


def add_directives(app: Sphinx) -> None:
    """Register the directives and roles of a page, and `{code-cell}` inside containers."""
    app.add_directive("claim", ClaimDirective)
    app.add_directive("code-cell", NestedCell, override=True)
    app.add_directive("claims-ledger", LedgerDirective)
    app.add_directive("claims-total", TotalDirective)
    app.add_directive(ESCAPE, UnprovenDirective)
    add_fold(app)
    app.add_role("claim", InlineRole())
    app.add_role("value", InlineRole())


class ClaimDirective(SphinxDirective):
    """The directive `{claim}`: a named sentence that the ledger links to."""

    required_arguments = 1
    has_content = True
    option_spec = dict.fromkeys(OPTIONS, str)

    def run(self) -> list[nodes.Node]:
        """Return nodes for the sentence, with its verdict and id below it."""
        identifier = self.arguments[0]
        claim = take_pending(self.env, CLAIM, identifier)
        judged = identifier if claim is not None else ""
        label = claim_anchor(identifier)
        box = claim_box(judged, is_key="key" in self.options)
        box["ids"].append(label)
        self.set_source_info(box)
        self.state.nested_parse(self.content, self.content_offset, box)
        note_sentence(box)
        mark = badge(current.get().paths[self.env.docname], judged)
        link = nodes.reference("", identifier, refid=label)
        box += nodes.paragraph("", "", mark, nodes.Text(" "), link, classes=["claim-id"])
        self.env.domains.standard_domain.anonlabels[label] = self.env.docname, label
        # With this, a search for the id lists the claim before pages that contain its words.
        found_by_id = index(entries=[("single", identifier, label, "main", None)])
        return [found_by_id, box]


class NestedCell(SphinxDirective):
    """The directive `{code-cell}` inside a list, a tab or a dropdown.

    It looks like a cell at the top level, which MyST-NB renders.
    """

    optional_arguments = 1
    has_content = True
    option_spec = dict.fromkeys(CELL_OPTIONS, str)

    def run(self) -> list[nodes.Node]:
        """Return nodes for the executed cell, or a marked block if the cell was not executed."""
        source = remove_pins("\n".join(self.content))
        index = take_pending(self.env, self.name, source)
        if index is None:
            block = nodes.literal_block(source, source, language="python", classes=[UNEXECUTED])
            self.set_source_info(block)
            return [block]
        renderer = self.state.document["nb_renderer"].renderer
        metadata = renderer.nb_client.notebook.cells[index].metadata
        token = Token("nb_cell_code", "code", 0, content=source, map=[self.lineno, self.lineno])
        token.meta = {"index": index, "metadata": metadata}
        holder = nodes.container()
        with renderer.current_node_context(holder):
            renderer.render_nb_cell_code(SyntaxTreeNode([token]).children[0])
        return list(holder.children)


class InlineRole(SphinxRole):
    """The roles `{claim}` and `{value}`: a checked expression, shown as code, or its value."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return nodes for the expression or its value.

        Mark an expression that was not executed.
        """
        pending = self._pending()
        value, is_red = pending or (None, True)
        if value is not None:
            return [nodes.inline(self.rawtext, value, classes=["value"])], []
        classes = [self.name, "executed" if pending else UNEXECUTED]
        if is_red:
            classes.append("claim-false")
        return [nodes.literal(self.rawtext, self.text, classes=classes)], []

    def _pending(self) -> Any:
        """Return the value to show, or None, and whether the check failed; None if not executed.

        Sphinx reads translated texts after the whole page, so their results are looked up by line.
        """
        translated = _TRANSLATED.search(str(self.inliner.document["source"]))
        if translated:
            return said_again(self.env, self.name, self.text, int(translated[1]))
        return take_pending(self.env, self.name, self.text)
