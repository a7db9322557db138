"""Halve the tags of highlighted code: remove tags that no style of the site colours.

Punctuation and plain names look like the surrounding text in both styles, light and dark. A dot
becomes part of its name, and adjacent tokens of the same colour share a tag. All other tokens get
the shortest HTML tag, `<i>`, which leafgrad.css sets upright. Words of inline code lose their
tags, because the theme does not style them.
"""

import re
from functools import cache
from typing import Any

from docutils import nodes
from pygments.styles import get_style_by_name
from pygments.token import STANDARD_TYPES, Text, Whitespace
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

AFTER_LINKS = 600
BLOCK = re.compile(r"(<pre\b[^>]*>)(?:<span></span>(?!\n))?(.*?</pre>)", re.DOTALL)
WORD = re.compile('<span class="pre">([^<]*)</span>')
UNKNOWN = re.compile(r'(?<=[" ])docutils (?=(?:literal|container)[ \w-]*")')
DOT = '<span class="o">.</span>'
NEIGHBOURS = re.compile(r'(<span class="(\w+)">[^<]*)</span>( *)<span class="\2">')
COLOURED = re.compile(r'<span class="(\w+)">([^<]*)</span>')


@cache
def plain(*styles: str) -> re.Pattern[str]:
    """Return a pattern for the HTML of tokens that look like plain text in all of these styles."""
    looks = [get_style_by_name(name).style_for_token for name in styles]
    kinds = (
        name
        for token, name in STANDARD_TYPES.items()
        if name
        if token is Whitespace or all(look(token)["color"] == look(Text)["color"] for look in looks)
        if not any(look(token)[face] for look in looks for face in ("bold", "italic", "bgcolor"))
    )
    return re.compile(rf'<span class="(?:{"|".join(kinds)})">([^<]*)</span>')


def lighter(code: str, known: re.Pattern[str]) -> str:
    """Return highlighted code with fewer tags; tokens that match `known` lose theirs."""
    code = known.sub(r"\1", code).replace(DOT, ".")
    before = ""
    while code != before:
        before, code = code, NEIGHBOURS.sub(r"\1\3", code)
    return COLOURED.sub(r"<i class=\1>\2</i>", code)


def lighten(
    app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Remove tags from the code of a page."""
    config = app.config
    known = plain(config.pygments_style, config.pygments_dark_style)
    for part in {"body", "toc"}.intersection(context):
        shown = WORD.sub(r"\1", UNKNOWN.sub("", context[part]))
        context[part] = BLOCK.sub(lambda found: found[1] + lighter(found[2], known), shown)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect `lighten`; it runs after `code_links`, which needs the tags."""
    app.connect("html-page-context", lighten, priority=AFTER_LINKS)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
