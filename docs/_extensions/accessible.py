"""Fix HTML of the theme and of MyST-NB that keyboards and screen readers cannot use."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.locale import _
from sphinx.util.typing import ExtensionMetadata

BETTER = {
    # Wide code, tables and pictures can be scrolled by keyboard only if they can have focus.
    "<pre>": '<pre tabindex="0">',
    'text_html"><svg xmlns': 'text_html" tabindex="0"><svg xmlns',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    # The caption of a table of contents is a heading, but lacks the level that ARIA requires.
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    # The corner cell of a table is empty, so it must not be a header.
    '<th class="head"><p></p></th>': '<td class="head"></td>',
    # Screen readers would read the label instead of the summary's text, so drop it.
    '<summary aria-label="Toggle hidden content">': "<summary>",
}
FOLDED = {
    "Show code cell source": "Show the code",
    "Hide code cell source": "Hide the code",
}


def reach(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Replace inaccessible HTML in the body of a page."""
    body = context.get("body", "")
    for tag, better in BETTER.items():
        body = body.replace(tag, better)
    for words, better in FOLDED.items():
        body = body.replace(words, _(better))
    context["body"] = body


def lead_from_anywhere(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Make the links of the 404 page absolute, because it is shown at any address."""
    if page == "404":
        for link in doctree.findall(nodes.reference):
            if link.get("internal") and "refuri" in link:
                link["refuri"] = app.config.notfound_urls_prefix + link["refuri"]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect both handlers to the writing of pages."""
    app.connect("doctree-resolved", lead_from_anywhere, priority=900)
    app.connect("html-page-context", reach)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
