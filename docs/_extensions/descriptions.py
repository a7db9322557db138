"""Add a description to each page: the one in its front matter, or its first sentences.

Link previews and search results show the description. Search results read it from
`_static/summaries.js`.
"""

import json
import re
from html import escape, unescape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import desc_content
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

BEFORE_OPENGRAPH = 450
LONGEST = 160
SENTENCE = re.compile(r".+?(?:[.!?](?=\s|$)|[\u3002\uff01\uff1f]|$)\s*")
DESCRIPTION = re.compile(r'<meta name="description" content="([^"]*)">')
TEX = re.compile(r"\\([a-z]+)|[\\{}]")


def first_sentences(doctree: nodes.document) -> str:
    """Return the first sentences of a page, up to `LONGEST` characters, but at least one."""
    said = ""
    for paragraph in doctree.findall(nodes.paragraph):
        box = paragraph.parent
        if isinstance(box, nodes.section | desc_content) or "lede" in box["classes"]:
            text = " ".join(TEX.sub(r"\1", paragraph.astext()).split())
            for sentence in SENTENCE.findall(text):
                if said and len(said + sentence) > LONGEST:
                    return said.rstrip(" :\uff1a")
                said += sentence
            said += "" if said[-1:] > "\u2e80" else " "  # Chinese has no space after a sentence.
    return said.rstrip(" :\uff1a")


def describe(
    app: Sphinx, _page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Add the description to a page's metadata, before opengraph uses it."""
    if doctree is not None:
        given = context["meta"] or {}
        said = given.get("description") if app.config.language == "en" else None
        said = escape(said or first_sentences(doctree))
        context["meta"] = {**given, "og:description": said}
        context["metatags"] += f'<meta name="description" content="{said}">\n'


def write_summaries(app: Sphinx, error: Exception | None) -> None:
    """Write the descriptions of all pages to `_static/summaries.js`."""
    if error is None and app.builder.format == "html":
        pages = {page: Path(app.outdir, f"{page}.html") for page in app.env.found_docs}
        said = {
            page: unescape(found[1])
            for page, file in sorted(pages.items())
            if (found := DESCRIPTION.search(file.read_text("utf-8")))
        }
        code = f"const summaries = {json.dumps(said, ensure_ascii=False)};\n"
        Path(app.outdir, "_static", "summaries.js").write_text(code, "utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the handlers to the writing of pages and to the end of the build."""
    app.connect("html-page-context", describe, priority=BEFORE_OPENGRAPH)
    app.connect("build-finished", write_summaries)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
