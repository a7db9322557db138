"""Write the dash between a parameter and what it means, where Sphinx counts on smart quotes.

These take apart each sentence of the site for it, as long as its code takes to be coloured.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

TYPED, WRITTEN = " -- ", " – "
AS_IT_IS = (nodes.literal, nodes.FixedTextElement, nodes.raw, nodes.math)


def write_dashes(_app: Sphinx, doctree: nodes.document) -> None:
    """Write each dash of a page that was read."""
    for text in [*doctree.findall(nodes.Text)]:
        if TYPED in text and not isinstance(text.parent, AS_IT_IS):
            text.parent.replace(text, nodes.Text(text.replace(TYPED, WRITTEN)))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Process each page when it is read."""
    app.connect("doctree-read", write_dashes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
