"""Add the `keywords` in the front matter of a page to the site's search.

Keywords are symptoms and old phrases, such as "memory increases every iteration", that the page
itself may not contain. Each becomes an entry of the site's index that links to the page. Keywords
for a translation are in `keywords.json`, next to its catalogues.
"""

import json
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import index
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def add_keywords(app: Sphinx, doctree: nodes.document) -> None:
    """Add an index entry for each keyword of the page."""
    page = app.env.current_document.docname
    given = app.env.metadata[page].get("keywords", "[]")
    keywords = json.loads(given) if isinstance(given, str) else given
    folder = Path(app.srcdir, "locales", app.config.language)
    keywords = [*keywords, *translated(folder).get(page, [])]
    if keywords:
        entries = [("single", keyword, "", "main", None) for keyword in keywords]
        doctree.insert(0, index(entries=entries))


@cache
def translated(folder: Path) -> dict[str, list[str]]:
    """Return the translated keywords of every page, by page name.

    The result is empty if `folder` has no `keywords.json`.
    """
    file = folder / "keywords.json"
    return json.loads(file.read_text("utf-8")) if file.is_file() else {}


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect `add_keywords` to the reading of pages, before Sphinx collects index entries."""
    app.connect("doctree-read", add_keywords, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
