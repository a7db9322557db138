"""A traced graph as a page of its own, to move about in."""

import json
from itertools import chain

from leafgrad._display.markup import Markup, element, text
from leafgrad._display.page import document, resource
from leafgrad._graph.graph import Graph
from leafgrad._picture.alt_text import title
from leafgrad._picture.svg.svg import MOST_PARTS, Drawn, drawing_of, too_large
from leafgrad._picture.view import MOST_IN_FULL, Picture, picture

HINT = (
    "Point at a box to read what it is, select it to light its paths, and another with Paths or "
    "Shift to light those between the two."
)
FOLDED_ONLY = (
    " What repeats stays folded: there are {nodes:,} nodes, and a page shows up to {most:,} boxes. "
    "Trace a part of the graph to see that in full."
)
KEYS = "Keys: arrows go along the graph, Escape lets go, + − 0 zoom, / searches"
KEY_FOR_REPEATS = ", f folds what repeats"


def page(graph: Graph) -> str:
    """Write the page: the graph folded and in full, or whichever of them is not too large."""
    shown = _shown(graph)
    views = [drawing_of(graph, one) for one in shown]
    start = 0 if len(graph.nodes) > MOST_IN_FULL else len(views) - 1
    frames = [
        element("div", view.markup, class_="view", **({} if number == start else {"hidden": ""}))
        for number, view in enumerate(views)
    ]
    hint, keys = HINT, KEYS
    if len(graph.nodes) > MOST_PARTS:
        hint += FOLDED_ONLY.format(nodes=len(graph.nodes), most=MOST_PARTS)
    if len(views) > 1:
        keys += KEY_FOR_REPEATS
    code = resource("leafgrad._picture.html", "page.js")
    data = Markup(json.dumps([_data(view) for view in views], separators=(",", ":")))
    content = (
        _header(graph, can_fold=len(views) > 1, is_folded=start == 0),
        element("main", *frames, tabindex="0"),
        element("footer", element("output", text(hint), data_keys=f"{keys}.")),
        element("script", data, type="application/json", id="data"),
        element("script", code),
    )
    return document(
        title(graph), resource("leafgrad._picture.html", "page.css"), Markup("".join(content)), code
    )


def _shown(graph: Graph) -> list[Picture]:
    """Choose it folded and in full, but for what is too large and what a fold does not change."""
    folded = picture(graph, fold=True)
    if len(folded.parts) > MOST_PARTS:
        raise ValueError(too_large(graph, len(folded.parts)))
    if len(graph.nodes) > MOST_PARTS:
        return [folded]
    full = picture(graph, fold=False)
    return [folded] if folded == full else [folded, full]


def _data(view: Drawn) -> dict[str, list[list[float]]]:
    """Return where everything is, as numbers alone: no name can end the script that holds them.

    ``boxes`` are ``[left, top, right, bottom]`` in the order of the picture, ``links`` pairs of
    their places, and ``paths`` ``[x, y, x, y, ...]`` of each link.
    """
    sizes = [one.box() for one in view.sketches]
    return {
        "boxes": [
            _rounded(at.x - size.width / 2, at.top, at.x + size.width / 2, at.top + size.height)
            for size, at in zip(sizes, view.drawing.places, strict=True)
        ],
        "links": [[link.source, link.target] for link in view.links],
        "paths": [_rounded(*chain.from_iterable(path)) for path in view.drawing.paths],
    }


def _rounded(*lengths: float) -> list[float]:
    return [round(length, 1) for length in lengths]


def _header(graph: Graph, *, can_fold: bool, is_folded: bool) -> Markup:
    buttons = [
        _button("path", "Paths", aria_pressed="false"),
        _button("out", "−", aria_label="Zoom out"),
        _button("in", "+", aria_label="Zoom in"),
        _button("fit", "Fit"),
    ]
    if can_fold:
        pressed = "true" if is_folded else "false"
        buttons.append(_button("fold", "Fold", aria_pressed=pressed))
    return element(
        "header",
        element("h1", text(title(graph))),
        Markup('<input type="search" placeholder="Search" aria-label="Search the boxes">'),
        *buttons,
    )


def _button(does: str, face: str, **attributes: str) -> Markup:
    return element("button", text(face), type="button", data_do=does, **attributes)
