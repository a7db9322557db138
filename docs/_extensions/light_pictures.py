"""Write Matplotlib's pictures with a half of their letters, and what all pictures look like once.

A hundredth of a point is as fine as anyone sees, and what nothing refers to needs no name: several
pictures of a page had the same. The notebooks have these pictures as well. The style that each
graph of ours brings along is a file of the site, for the pages that have such a picture.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

import torch
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from leafgrad import trace_graph

SHARED = "pictures.css"
PLOT = re.compile(r"<svg\b[^>]*>\s*<metadata>.*?</svg>", re.DOTALL)
STYLE = re.compile(r"<style\b[^>]*>.*?</style>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
WITHIN = re.compile(rf"srcdoc=(?:'[^']*'|\"[^\"]*\")|{STYLE.pattern}", re.DOTALL)
"""A page within a page has nothing of the styles around it."""
LEFT_OUT = re.compile(
    r"<metadata>.*?</metadata>|<style .*?</style>| xmlns:xlink=\"[^\"]*\"| version=\"1.1\""
    r"| transform=\"rotate\(-0 [^\"]*\"|<path [^>]*style=\"fill: none\"/>",
    re.DOTALL,
)
IDENTIFIER = re.compile(r' id="([^"]*)"')
FONTS = re.compile(r"font-family: 'DejaVu Sans',[^;\"]*;? ?")
FEWER_FONTS = "font-family: 'DejaVu Sans', Verdana, sans-serif; stroke-linejoin: round; "
FINE = re.compile(r"(\d\.\d\d)\d+")
PLACES = re.compile(r'(?<= )(?:d|x|y)="[^"]*"')
LINES = re.compile(r"([ML] [^A-Z]*)((?:L [^A-Z]*)+)")
"""After a point another needs no letter to be drawn to."""
GROUP = re.compile(r"<g>\s*((?:<(?:path|use|text)\b[^>]*(?:/>|>[^<]*</text>)\s*)*)</g>")
EMPTY = re.compile(r"<(g|defs)>\s*</\1>")
BETWEEN = re.compile(r">\s+<")
LOOKS = re.compile(r'style="[^"]*"')


def lighter(html: str) -> str:
    """Write the pictures in `html` with fewer letters."""
    return PLOT.sub(lambda found: _plot(found[0]), html)


def _plot(svg: str) -> str:
    svg = LEFT_OUT.sub("", svg).replace("xlink:href", "href")
    used = {*re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', svg)}
    names = {name for pair in used for name in pair}
    svg = IDENTIFIER.sub(lambda found: found[0] if found[1] in names else "", svg)
    svg = FONTS.sub("", svg).replace('style="', f'style="{FEWER_FONTS}', 1)
    svg = PLACES.sub(lambda found: _coarse(found[0]), svg)
    svg = LOOKS.sub(lambda found: found[0].replace(": ", ":").replace("; ", ";"), svg)
    before = ""
    while svg != before:
        before, svg = svg, GROUP.sub(r"\1", EMPTY.sub("", svg))
    return BETWEEN.sub("><", svg)


def _coarse(places: str) -> str:
    fewer = FINE.sub(r"\1", " ".join(places.split()))
    return LINES.sub(lambda found: found[1] + found[2].replace("L ", ""), fewer)


@cache
def styles() -> frozenset[str]:
    """Return the styles of a graph as a notebook shows it."""
    drawn = trace_graph(torch.ones(1, requires_grad=True).sin())._repr_html_()
    return frozenset(STYLE.findall(drawn))


def write_styles(app: Sphinx) -> None:
    """Write them as a file: before the pages, whose links to it tell its version."""
    if app.builder.format == "html":
        file = Path(app.outdir, "_static", SHARED)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(sorted(TAG.sub("", style) for style in styles())), "utf-8")


def lighten(
    app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Write the pictures of a page as it is written."""
    seen = set[str]()

    def once(found: re.Match[str]) -> str:
        if found[0].startswith("srcdoc"):
            return found[0]
        if found[0] in seen:
            return ""
        seen.add(found[0])
        return "" if found[0] in styles() else found[0]

    context["body"] = WITHIN.sub(once, lighter(context.get("body", "")))
    if seen & styles():
        app.add_css_file(SHARED)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Touch each page as it is written."""
    app.connect("builder-inited", write_styles)
    app.connect("html-page-context", lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
