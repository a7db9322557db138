"""A traced graph as a page of its own, to move about in."""

import base64
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING

from leafgrad._render._picture import Picture, picture
from leafgrad._render._svg import MOST_PARTS, drawing_of, links_of, too_large
from leafgrad._render._words import title
from leafgrad._render._xml import Markup, element, text

if TYPE_CHECKING:
    from leafgrad._trace import GraphTrace

HINT = (
    "Point at a box or select it: arrow keys go along the graph, Shift and a click show the paths "
    "between two, Escape lets go. + − 0 zoom, / searches, f folds."
)


def page(trace: "GraphTrace") -> str:
    """Write the page: the graph folded and in full, or whichever of them is not too large."""
    views = _views(trace)
    start = picture(trace, fold=None)
    links = [[(link.source, link.target) for link in links_of(shown)] for shown in views]
    code = Markup(_file("page.js"))
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_policy(code)}">'),
        element("title", text(title(trace))),
        element("style", Markup(_file("page.css"))),
    )
    body = element(
        "body",
        _header(trace, folds=len(views) > 1, is_folded=start == views[0]),
        element("main", *(_view(trace, shown, start) for shown in views), tabindex="0"),
        element("footer", element("output", text(HINT))),
        element("script", Markup(json.dumps(links)), type="application/json", id="links"),
        element("script", code),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _views(trace: "GraphTrace") -> list[Picture]:
    """Draw it folded and in full, but for what is too large and what a fold does not change."""
    folded, full = (picture(trace, fold=fold) for fold in (True, False))
    if len(folded.parts) > MOST_PARTS:
        raise ValueError(too_large(trace, len(folded.parts)))
    return [folded] if folded == full or len(full.parts) > MOST_PARTS else [folded, full]


def _view(trace: "GraphTrace", shown: Picture, start: Picture) -> Markup:
    hidden = {} if shown == start else {"hidden": ""}
    return element("div", drawing_of(trace, shown), class_="view", **hidden)


def _header(trace: "GraphTrace", *, folds: bool, is_folded: bool) -> Markup:
    pressed = "true" if is_folded else "false"
    return element(
        "header",
        element("h1", text(title(trace))),
        Markup('<input type="search" placeholder="Search" aria-label="Search the boxes">'),
        _button("out", "−", aria_label="Zoom out"),
        _button("in", "+", aria_label="Zoom in"),
        _button("fit", "Fit"),
        *[_button("fold", "Fold", aria_pressed=pressed)] * folds,
    )


def _button(does: str, face: str, **attributes: str) -> Markup:
    return element("button", text(face), type="button", data_do=does, **attributes)


def _policy(code: str) -> str:
    """Allow this page's own code and style, and nothing from anywhere."""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _file(name: str) -> str:
    return files("leafgrad._render").joinpath(name).read_text("utf-8")
