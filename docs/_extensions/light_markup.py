"""Leave out of a page what neither a style nor a script of this site asks for.

These are names of links and of the words in them, of the tags of cells and of the punctuation in
signatures, and the blanks by which the theme's templates are indented.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

AFTER_THEME = 900
FEWER = {
    re.compile(r'(<a) class="reference (?:internal|external)"'): r"\1",
    re.compile(r'(<a [^>]*>)<span class="(?:xref )?std std-\w+">([^<]*)</span>(?=</a>)'): r"\1\2",
    re.compile(r'(<div class="cell)(?: tag_[\w-]+)+(?= )'): r"\1",
    re.compile(r'<span class="[pw]">([^<]*)</span>'): r"\1",
}
INDENTED = re.compile(r"\n\s+")


def lighter(html: str) -> str:
    """Write what `html` says with fewer names."""
    for names, fewer in FEWER.items():
        html = names.sub(fewer, html)
    return html


def tight(page: str) -> str:
    """Write a page without indentation around its article, which may have some on purpose."""
    before, opening, rest = page.partition("<article")
    article, closing, after = rest.rpartition("</article>")
    around = (INDENTED.sub("\n", part) for part in (before, after))
    return f"{opening}{article}{closing}".join(around)


def lighten(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Write a page with fewer names, once all others have found theirs."""
    context["body"] = lighter(context.get("body", ""))
    context["tight"] = tight  # which the template of a page calls


def setup(app: Sphinx) -> ExtensionMetadata:
    """Touch each page as it is written."""
    app.connect("html-page-context", lighten, priority=AFTER_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
