"""Shorten the SVG of Matplotlib's pictures, and write their style only once per page.

Coordinates are cut to two decimals: nobody sees a hundredth of a point.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

PLOT = re.compile(r"<svg\b[^>]*>\s*<metadata>.*?</svg>", re.DOTALL)
STYLE = re.compile(r"<style\b[^>]*>.*?</style>", re.DOTALL)
WITHIN = re.compile(rf"srcdoc=(?:'[^']*'|\"[^\"]*\")|{STYLE.pattern}", re.DOTALL)
"""A style or an embedded page. Embedded pages keep their styles: those around them do not apply."""
LEFT_OUT = re.compile(
    r"<metadata>.*?</metadata>|<style .*?</style>| xmlns:xlink=\"[^\"]*\"| version=\"1.1\""
    r"| transform=\"rotate\(-0 [^\"]*\"|<path [^>]*style=\"fill: none\"/>",
    re.DOTALL,
)
IDENTIFIER = re.compile(r' id="([^"]*)"')
FINE = re.compile(r"(\d\.\d\d)\d+")
PLACES = re.compile(r'(?<= )(?:d|x|y)="[^"]*"')
BETWEEN = re.compile(r">\s+<")


def lighter(html: str) -> str:
    """Return `html` with shorter SVG pictures."""
    return PLOT.sub(lambda found: _plot(found[0]), html)


def _plot(svg: str) -> str:
    svg = LEFT_OUT.sub("", svg).replace("xlink:href", "href")
    svg = PLACES.sub(lambda found: FINE.sub(r"\1", " ".join(found[0].split())), svg)
    used = {*re.findall(r'(?:href="#|url\(#)([^")]*)', svg)}
    svg = IDENTIFIER.sub(lambda found: found[0] if found[1] in used else "", svg)
    return BETWEEN.sub("><", svg)


def lighten(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Shorten the pictures of a page, and remove repeated styles."""
    seen = set[str]()

    def once(found: re.Match[str]) -> str:
        is_new = found[0].startswith("srcdoc") or found[0] not in seen
        seen.add(found[0])
        return found[0] if is_new else ""

    context["body"] = WITHIN.sub(once, lighter(context.get("body", "")))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect `lighten` to the writing of pages."""
    app.connect("html-page-context", lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
