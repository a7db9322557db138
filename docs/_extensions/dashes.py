"""Replace the ` -- ` that Sphinx puts between a parameter and its description by ` – `.

Sphinx's smart quotes would do that too, but take as long as highlighting all code of the site.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

TYPED, WRITTEN = " -- ", " – "
AS_IT_IS = (nodes.literal, nodes.FixedTextElement, nodes.raw, nodes.math)


def write_dashes(_app: Sphinx, doctree: nodes.document) -> None:
    """Replace ` -- ` by ` – ` in the text of a page, except in code and math."""
    for text in [*doctree.findall(nodes.Text)]:
        if TYPED in text and not isinstance(text.parent, AS_IT_IS):
            text.parent.replace(text, nodes.Text(text.replace(TYPED, WRITTEN)))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect `write_dashes` to the reading of pages."""
    app.connect("doctree-read", write_dashes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
