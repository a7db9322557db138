"""Let the keyboard reach what scrolls: code and tables wider than the screen."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

WIDE = ("<pre>", '<div class="table-wrapper')


def reach(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Put every block that may scroll into the tab order."""
    for tag in WIDE:
        name, rest = tag[:4], tag[4:]
        context["body"] = context.get("body", "").replace(tag, f'{name} tabindex="0"{rest}')


def setup(app: Sphinx) -> ExtensionMetadata:
    """Touch each page as it is written."""
    app.connect("html-page-context", reach)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
