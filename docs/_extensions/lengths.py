"""A chapter is short: what is seen of it before anything is unfolded has a limit."""

from docutils import nodes
from routes import parts
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata

logger = logging.getLogger(__name__)

FIRST, LATER = 600, 900
"""How many words a chapter of the first part may have, and one of the others."""
SKIPPED = {"claim-id", "fold", "cell", "math"}
"""What is no text of a page, or is folded away, by a class of it."""
NO_TEXT = (nodes.literal_block, nodes.math_block, nodes.table, nodes.comment, nodes.raw)


def words(node: nodes.Element) -> int:
    """Count the words that a reader sees before unfolding anything, but for code and tables."""
    if isinstance(node, NO_TEXT) or SKIPPED.intersection(node.get("classes", ())):
        return 0
    if isinstance(node, nodes.TextElement):
        return len(node.astext().split())
    return sum(words(child) for child in node.children if isinstance(child, nodes.Element))


def check(_app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of each chapter that is too long."""
    for place, chapters in enumerate(parts(env).values()):
        limit = LATER if place else FIRST
        for chapter in chapters:
            count = words(env.get_doctree(chapter))
            if count > limit:
                message = "a chapter here must have at most %s words in sight, not %s"
                logger.warning(message, limit, count, location=chapter)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Count when all pages are read."""
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
