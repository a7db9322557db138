"""Describe a page where links to it are shown: by its front matter, else its first sentences."""

import re
from html import escape
from typing import Any

from docutils import nodes
from sphinx.addnodes import desc_content
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

BEFORE_OPENGRAPH = 450
LONGEST = 160
SENTENCE = re.compile(r".+?(?:[.!?](?=\s|$)|[\u3002\uff01\uff1f]|$)\s*")
TEX = re.compile(r"\\([a-z]+)|[\\{}]")


def first_sentences(doctree: nodes.document) -> str:
    """Return as many whole sentences as there is room for, but at least one."""
    said = ""
    for paragraph in doctree.findall(nodes.paragraph):
        box = paragraph.parent
        if isinstance(box, nodes.section | desc_content) or "hero" in box["classes"]:
            text = " ".join(TEX.sub(r"\1", paragraph.astext()).split())
            for sentence in SENTENCE.findall(text):
                if said and len(said + sentence) > LONGEST:
                    return said.rstrip(" :\uff1a")
                said += sentence
            said += "" if said[-1:] > "\u2e80" else " "  # Chinese has none
    return said.rstrip(" :\uff1a")


def describe(
    app: Sphinx, _page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give a page its description; opengraph then repeats it."""
    if doctree is not None:
        given = context["meta"] or {}
        said = given.get("description") if app.config.language == "en" else None
        said = escape(said or first_sentences(doctree))
        context["meta"] = {**given, "og:description": said}
        context["metatags"] += f'<meta name="description" content="{said}">\n'


def setup(app: Sphinx) -> ExtensionMetadata:
    """Touch each page as it is written."""
    app.connect("html-page-context", describe, priority=BEFORE_OPENGRAPH)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
