"""Let search find a page by the `keywords` in its front matter.

They are symptoms and old wordings, such as "memory increases every iteration", which the text of
the page may not have. In the index of the site they stand without a place on the page. Who reads
a translation types other words: those are in `keywords.json` beside its catalogues.
"""

import json
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import index
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def add_keywords(app: Sphinx, doctree: nodes.document) -> None:
    """Make an entry of the index of each keyword of the page that was read."""
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
    """Return the keywords of a page in one language."""
    file = folder / "keywords.json"
    return json.loads(file.read_text("utf-8")) if file.is_file() else {}


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the keywords before the index is made of what was read."""
    app.connect("doctree-read", add_keywords, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
