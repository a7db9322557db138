"""Link names in code to their documentation: on PyTorch's site, or in our reference.

Only names such as `torch.sin`, `nn.Linear` or those imported from leafgrad are linked; no code is
parsed to find others. Within a section, only the first use of a name is a link.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.intersphinx import InventoryAdapter
from sphinx.util.typing import ExtensionMetadata

import leafgrad

NAME = r'<span class="n">(\w+)</span>'
DOTTED = re.compile(rf'<span class="n">(torch|nn)</span>(?:<span class="o">\.</span>{NAME})+')
OURS = re.compile(rf'(?<!<span class="o">\.</span>){NAME}(?! ?<span class="o">=</span>)')
IMPORTED = '<span class="nn">leafgrad</span>'
BLOCK = re.compile(r"<h[1-6]\b|<pre\b.*?</pre>", re.DOTALL)
ALONE = re.compile(r"(.*/([^/#]+)\.html)#\2$")
"""The address of an object that has its own page."""
TAG = re.compile("<[^>]*>")

Link = Callable[[re.Match[str]], str]


def link(
    app: Sphinx,
    page: str,
    _template: str,
    context: dict[str, Any],
    _tree: nodes.document | None,
) -> None:
    """Link the names in the code of a page."""
    ours = app.env.domains.python_domain.objects
    torch = _torch(app.env)

    def to_torch(found: re.Match[str]) -> str:
        name = TAG.sub("", found[0])
        name = f"torch.{name}" if found[1] == "nn" else name  # imported by `from torch import nn`
        return _linked(found[0], torch[name]) if name in torch else found[0]

    def to_reference(found: re.Match[str]) -> str:
        name = f"leafgrad.{found[1]}"
        if found[1] not in leafgrad.__all__ or name not in ours:
            return found[0]
        return _linked(found[0], f"{app.builder.get_relative_uri(page, ours[name].docname)}#{name}")

    body = context.get("body", "")
    is_imported = IMPORTED in body
    seen = set[str]()

    def in_block(block: re.Match[str]) -> str:
        if not block[0].startswith("<pre"):
            seen.clear()
            return block[0]
        code = DOTTED.sub(_once(to_torch, seen), block[0])
        return OURS.sub(_once(to_reference, seen), code) if is_imported else code

    context["body"] = BLOCK.sub(in_block, body)


@cache
def _torch(env: BuildEnvironment) -> dict[str, str]:
    """Return a map from names of PyTorch to the addresses of their documentation."""
    return {
        name: ALONE.sub(r"\1", place.uri)
        for kind, places in InventoryAdapter(env).named_inventory["torch"].items()
        for name, place in places.items()
        if kind.startswith("py:")
    }


def _once(write: Link, seen: set[str]) -> Link:
    """Return a function that applies `write` to the first match of each text.

    The text is then added to `seen`. For a text in `seen`, the function returns the text unchanged.
    """

    def written(found: re.Match[str]) -> str:
        if found[0] in seen:
            return found[0]
        seen.add(found[0])
        return write(found)

    return written


def _linked(code: str, uri: str) -> str:
    return f'<a href="{uri}">{code}</a>'


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect `link` to the writing of pages."""
    app.connect("html-page-context", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
