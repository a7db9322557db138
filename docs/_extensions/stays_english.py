"""Keep docstrings and the changelog in English, and out of the translation catalogues.

On translated pages, this text is marked as English, so that screen readers pronounce it correctly.
The same holds for the output of cells and for sentences without a translation.
"""

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.addnodes import desc
from sphinx.application import Sphinx
from sphinx.locale import _
from sphinx.util.typing import ExtensionMetadata

PRINTED = (nodes.literal_block, nodes.raw, nodes.image, nodes.figure)
AS_IT_IS = {"changelog"}
STALE = "The English page has changed. {count} passages here are not translated again yet."


def untranslated(doctree: nodes.document, page: str) -> Iterator[nodes.Element]:
    """Yield the nodes of a page that stay English in every language."""
    if page in AS_IT_IS:
        yield from doctree.findall(nodes.bullet_list)
        yield from doctree.findall(nodes.paragraph)
    yield from doctree.findall(desc)


def printed(doctree: nodes.document) -> Iterator[nodes.Element]:
    """Yield the nodes that contain printed or drawn output of cells, except tables."""
    for box in doctree.findall(nodes.container):
        parts = box.children if "cell_output" in box["classes"] else ()
        if parts and all(isinstance(part, PRINTED) for part in parts):
            yield box


def ask_for_no_translation(app: Sphinx, doctree: nodes.document) -> None:
    """Exclude text that stays English from the translation catalogues.

    Only blocks are marked as not translatable. Sphinx treats a marked inline node as a placeholder,
    and moves its content to the end of its parent. So the mark that Sphinx itself sets on the text
    of a field is removed.
    """
    for box in untranslated(doctree, app.env.current_document.docname):
        for node in box.findall(nodes.TextElement):
            if isinstance(node, nodes.Inline):
                node.attributes.pop("translatable", None)
            else:
                node["translatable"] = False


def mark(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Mark English text on a translated page with a class; docutils turns it into `lang="en"`."""
    if app.config.language != "en":
        waiting = [
            text for text in doctree.findall(nodes.TextElement) if text.get("translated") is False
        ]
        kept = {t for box in untranslated(doctree, page) for t in box.findall(nodes.TextElement)}
        count = sum(bool(re.search("(?:[a-z]+ ){3}", t.astext())) for t in {*waiting} - kept)
        if count:
            note = nodes.paragraph("", _(STALE).format(count=count), classes=["stale"])
            next(doctree.findall(nodes.title)).parent.insert(1, note)
        for node in (*untranslated(doctree, page), *printed(doctree), *waiting):
            node["classes"].append("language-en")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the handlers to the reading and writing of pages."""
    app.connect("doctree-read", ask_for_no_translation)
    app.connect("doctree-resolved", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
