"""Let keyboards and screen readers reach what the theme and MyST-NB leave out."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

BETTER = {
    # Code and tables may be wider than the screen, and then only what has focus scrolls by key.
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    # The caption of a table of contents is a heading, of which level nobody says.
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    # The corner of a table heads nothing.
    '<th class="head"><p></p></th>': '<td class="head"></td>',
    # A label hides what the summary says itself.
    '<summary aria-label="Toggle hidden content">': "<summary>",
    # What is folded away, in the reader's words: whole cells are answers to questions.
    "code cell content": "the answer",
    "code cell source": "the code",
}


def reach(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Write better what every page has."""
    for tag, better in BETTER.items():
        context["body"] = context.get("body", "").replace(tag, better)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Touch each page as it is written."""
    app.connect("html-page-context", reach)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
