"""Allow line breaks inside long names in tables, so that they fit on a phone."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

TABLE = re.compile(r'<table class="[^"]*\bdocutils\b.*?</table>', re.DOTALL)
TEXT = re.compile(r">([^<>]+)<")
LONG = re.compile(r"[^\s&;]{9,}")
AFTER = re.compile(r"(?<=\w)(_|\(|,|=)(?=[\w(\[.*])")
BEFORE = re.compile(r"(?<=[\w)\]])(?=\.[A-Za-z])")


def breakable(text: str) -> str:
    """Return a text with `<wbr>`, a possible line break, at the joints of its long names."""
    return LONG.sub(lambda name: BEFORE.sub("<wbr>", AFTER.sub(r"\1<wbr>", name[0])), text)


def mark(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Allow line breaks inside long names in the tables of a page."""

    def in_table(table: re.Match[str]) -> str:
        return TEXT.sub(lambda text: f">{breakable(text[1])}<", table[0])

    context["body"] = TABLE.sub(in_table, context.get("body", ""))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect `mark` to the writing of pages."""
    app.connect("html-page-context", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
