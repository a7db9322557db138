"""Let the names in code lead to what documents them: PyTorch's to its site, ours to the reference.

Written out from their module they are known for what they are; no code is parsed to find more.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.intersphinx import InventoryAdapter
from sphinx.util.typing import ExtensionMetadata

import leafgrad

NAME = r'<span class="n">(\w+)</span>'
DOTTED = re.compile(rf'<span class="n">(torch|nn)</span>(?:<span class="o">\.</span>{NAME})+')
OURS = re.compile(rf'(?<!<span class="o">\.</span>){NAME}(?! ?<span class="o">=</span>)')
IMPORTED = '<span class="nn">leafgrad</span>'


def link(
    app: Sphinx,
    page: str,
    _template: str,
    context: dict[str, Any],
    _tree: nodes.document | None,
) -> None:
    """Link the names in the code of a page as it is written."""
    torch = {
        name: place
        for kind, places in InventoryAdapter(app.env).named_inventory["torch"].items()
        for name, place in places.items()
        if kind.startswith("py:")
    }
    ours = app.env.domains.python_domain.objects

    def to_torch(found: re.Match[str]) -> str:
        name = re.sub("<[^>]*>", "", found[0])
        name = f"torch.{name}" if found[1] == "nn" else name  # from torch import nn
        return _linked(found[0], torch[name].uri, name) if name in torch else found[0]

    def to_reference(found: re.Match[str]) -> str:
        name = f"leafgrad.{found[1]}"
        if found[1] not in leafgrad.__all__ or name not in ours:
            return found[0]
        uri = f"{app.builder.get_relative_uri(page, ours[name].docname)}#{name}"
        return _linked(found[0], uri, name)

    body = DOTTED.sub(to_torch, context.get("body", ""))
    context["body"] = OURS.sub(to_reference, body) if IMPORTED in body else body


def _linked(code: str, uri: str, name: str) -> str:
    return f'<a class="code-link" href="{uri}" title="{name}">{code}</a>'


def setup(app: Sphinx) -> ExtensionMetadata:
    """Touch each page as it is written."""
    app.connect("html-page-context", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
