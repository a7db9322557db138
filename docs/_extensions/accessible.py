"""Let keyboards and screen readers reach what the theme and MyST-NB leave out."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.locale import _
from sphinx.util.typing import ExtensionMetadata

BETTER = {
    # Code, tables, pictures may be wider than the screen: only what has focus scrolls by key then.
    "<pre>": '<pre tabindex="0">',
    'text_html"><svg xmlns': 'text_html" tabindex="0"><svg xmlns',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    # The caption of a table of contents is a heading, of which level nobody says.
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    # The corner of a table heads nothing.
    '<th class="head"><p></p></th>': '<td class="head"></td>',
    # A label hides what the summary says itself.
    '<summary aria-label="Toggle hidden content">': "<summary>",
}
FOLDED = {
    "Show code cell source": "Show the code",
    "Hide code cell source": "Hide the code",
}


def reach(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Write better what every page has."""
    body = context.get("body", "")
    for tag, better in BETTER.items():
        body = body.replace(tag, better)
    for words, better in FOLDED.items():
        body = body.replace(words, _(better))
    context["body"] = body


def lead_from_anywhere(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Let the links of the page for unknown addresses begin at the root, as its menu does."""
    if page == "404":
        for link in doctree.findall(nodes.reference):
            if link.get("internal") and "refuri" in link:
                link["refuri"] = app.config.notfound_urls_prefix + link["refuri"]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Touch each page as it is written."""
    app.connect("doctree-resolved", lead_from_anywhere, priority=900)
    app.connect("html-page-context", reach)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
