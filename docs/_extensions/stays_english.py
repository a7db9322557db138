"""What no translation touches, docstrings and the changelog: no catalogue asks for it.

On a translated page it is marked as English, as are what cells print and a sentence that has no
translation yet: who reads aloud speaks it so.
"""

from collections.abc import Iterator

from docutils import nodes
from sphinx.addnodes import desc
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

PRINTED = (nodes.literal_block, nodes.raw, nodes.image, nodes.figure)
AS_IT_IS = {"changelog"}


def untranslated(doctree: nodes.document, page: str) -> Iterator[nodes.Element]:
    """Yield what a page says in English in each language."""
    if page in AS_IT_IS:
        yield from doctree.findall(nodes.bullet_list)
        yield from doctree.findall(nodes.paragraph)
    yield from doctree.findall(desc)


def printed(doctree: nodes.document) -> Iterator[nodes.Element]:
    """Yield what cells print or draw; a table that one makes is a part of the text."""
    for box in doctree.findall(nodes.container):
        parts = box.children if "cell_output" in box["classes"] else ()
        if parts and all(isinstance(part, PRINTED) for part in parts):
            yield box


def ask_for_no_translation(app: Sphinx, doctree: nodes.document) -> None:
    """Keep English text out of the catalogues.

    Only blocks are marked: Sphinx takes an inline node with this mark for a placeholder, and moves
    what is in it to the end of its parent. It sets the mark itself on the text of a field.
    """
    for box in untranslated(doctree, app.env.current_document.docname):
        for node in box.findall(nodes.TextElement):
            if isinstance(node, nodes.Inline):
                node.attributes.pop("translatable", None)
            else:
                node["translatable"] = False


def mark(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Say on a translated page what is English: docutils makes lang="en" of the class."""
    if app.config.language != "en":
        texts = doctree.findall(nodes.TextElement)
        waiting = (text for text in texts if text.get("translated") is False)
        for node in (*untranslated(doctree, page), *printed(doctree), *waiting):
            node["classes"].append("language-en")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Look at each page when it was read, and before it is written."""
    app.connect("doctree-read", ask_for_no_translation)
    app.connect("doctree-resolved", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
