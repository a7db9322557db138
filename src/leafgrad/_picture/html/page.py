"""A traced graph as a page of its own, to move about in."""

import json
from itertools import chain

from leafgrad._display.document import document, resource
from leafgrad._display.markup import Markup, element, text
from leafgrad._graph.graph import Graph
from leafgrad._picture.alt_text import title
from leafgrad._picture.svg.svg import MOST_BOXES, Drawing, draw_view, too_large
from leafgrad._picture.view import MOST_IN_FULL, View, view_of

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
    drawings = [draw_view(graph, view) for view in _views(graph)]
    start = 0 if len(graph.nodes) > MOST_IN_FULL else len(drawings) - 1
    frames = [
        element("div", one.markup, class_="view", **({} if place == start else {"hidden": ""}))
        for place, one in enumerate(drawings)
    ]
    hint, keys = HINT, KEYS
    if len(graph.nodes) > MOST_BOXES:
        hint += FOLDED_ONLY.format(nodes=len(graph.nodes), most=MOST_BOXES)
    if len(drawings) > 1:
        keys += KEY_FOR_REPEATS
    code = resource("leafgrad._picture.html", "page.js")
    data = Markup(json.dumps([_data(one) for one in drawings], separators=(",", ":")))
    content = (
        _header(graph, can_fold=len(drawings) > 1, is_folded=start == 0),
        element("main", *frames, tabindex="0"),
        element("footer", element("output", text(hint), data_keys=f"{keys}.")),
        element("script", data, type="application/json", id="data"),
        element("script", code),
    )
    return document(
        title(graph), resource("leafgrad._picture.html", "page.css"), Markup("".join(content)), code
    )


def _views(graph: Graph) -> list[View]:
    """Choose it folded and in full, but for what is too large and what a fold does not change."""
    folded = view_of(graph, fold=True)
    if len(folded.boxes) > MOST_BOXES:
        raise ValueError(too_large(graph, len(folded.boxes)))
    if len(graph.nodes) > MOST_BOXES:
        return [folded]
    full = view_of(graph, fold=False)
    return [folded] if folded == full else [folded, full]


def _data(drawing: Drawing) -> dict[str, list[list[float]]]:
    """Return where everything is, as numbers alone: no name can end the script that holds them.

    ``boxes`` are ``[left, top, right, bottom]`` in the order of the picture, ``links`` pairs of
    their places, and ``paths`` ``[x, y, x, y, ...]`` of each link.
    """
    sizes = [one.extent() for one in drawing.measured]
    return {
        "boxes": [
            _rounded(at.x - size.width / 2, at.top, at.x + size.width / 2, at.top + size.height)
            for size, at in zip(sizes, drawing.layout.positions, strict=True)
        ],
        "links": [[edge.source, edge.target] for edge in drawing.edges],
        "paths": [_rounded(*chain.from_iterable(path)) for path in drawing.layout.paths],
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
