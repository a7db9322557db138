"""A traced graph as a page of its own, to move about in."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from leafgrad._display.document import document, resource
from leafgrad._display.markup import Markup, element, text
from leafgrad._graph.graph import Graph
from leafgrad._picture.alt_text import title
from leafgrad._picture.look import Color, Look
from leafgrad._picture.scopes import Scope, scopes
from leafgrad._picture.svg.heat import heat_of
from leafgrad._picture.svg.style import HEAT_STYLE
from leafgrad._picture.svg.svg import MOST_BOXES, Drawing, draw_view, too_large
from leafgrad._picture.view import View, is_in_full, overview_of, view_of

MOST_IN_ALL = 10_000
"""How many boxes all modules may have together that one can look into."""

HINT = (
    "Point at a box to read what it is, select it to light its paths, and another with Paths or "
    "Shift to light those between the two."
)
OPENING = " Look into a module with a double click, or choose it above."
FOLDED_ONLY = (
    " What repeats stays folded: there are {nodes:,} nodes, and a page shows up to {most:,} boxes. "
)
CURES = (
    "Trace with names=model to look into modules one by one.",
    "Look into modules to see them in full.",
)
CHOICES: Mapping[Color, str] = {"bytes": "Bytes saved", "gradient": "Gradient"}
KEYS = "Keys: arrows go along the graph, Escape lets go, + − 0 zoom, / searches"
KEY_FOR_REPEATS = ", f folds"
KEYS_FOR_MODULES = ", Enter looks into a module, Backspace goes back out"


def page(graph: Graph, look: Look) -> str:
    """Write the page: the graph folded and in full, and each module that one can look into.

    What it starts with is a part of the document. The rest is packed, until one goes there.
    """
    look.check(graph)
    plain = replace(look, color=None)  # the page colours by itself
    views = _views(graph)
    inner = [*scopes(graph, most_boxes=MOST_BOXES, most_in_all=MOST_IN_ALL)]
    start = len(views) - 1 if is_in_full(graph, None) else 0
    drawings = [draw_view(graph, view, plain) for view in views]
    drawings += [draw_view(graph, one.view, plain, facts=[one.title]) for one in inner]
    places = {one.path: number for number, one in enumerate(inner)}
    colors = _colors(graph)
    data = [_data(one, places, colors) for one in drawings]
    rest = [
        None if place == start else {**one, "markup": drawing.markup}
        for place, (one, drawing) in enumerate(zip(data, drawings, strict=True))
    ]
    facts = {
        "first": data[start],
        "start": start,
        "wholes": len(views),
        "modules": [[one.title, places.get(one.outer or "", -1)] for one in inner],
        "whole": _whole(graph),
    }
    hint, keys = _words(graph, inner, can_fold=len(views) > 1)
    code = resource("leafgrad._picture.html", "page.js")
    content = (
        _header(graph, colors, look.color, can_fold=len(views) > 1, is_folded=start == 0),
        element("main", element("div", drawings[start].markup, class_="view"), tabindex="0"),
        element("footer", element("output", text(hint), data_keys=keys)),
        element("script", _json(facts), type="application/json", id="data"),
        element("script", _packed(rest), type="text/plain", id="rest"),
        element("script", code),
    )
    style = resource("leafgrad._picture.html", "page.css") + HEAT_STYLE
    return document(title(graph), style, Markup("".join(content)), code)


def _views(graph: Graph) -> list[View]:
    """Choose it folded and in full, but for what is too large and what a fold does not change."""
    folded = overview_of(graph)
    if len(folded.boxes) > MOST_BOXES:
        raise ValueError(too_large(graph, len(folded.boxes)))
    if len(graph.nodes) > MOST_BOXES:
        return [folded]
    full = view_of(graph, fold=False)
    return [folded] if folded == full else [folded, full]


def _words(graph: Graph, inner: Sequence[Scope], *, can_fold: bool) -> tuple[str, str]:
    """Write what one can do with the pointer, and with the keys."""
    hint, keys = HINT, KEYS
    if can_fold:
        keys += KEY_FOR_REPEATS
    if inner:
        hint += OPENING
        keys += KEYS_FOR_MODULES
    if len(graph.nodes) > MOST_BOXES:
        hint += FOLDED_ONLY.format(nodes=len(graph.nodes), most=MOST_BOXES) + CURES[bool(inner)]
    return hint, f"{keys}."


def _whole(graph: Graph) -> str:
    """Return what the whole is called: by the class of the model, if it is one."""
    return next((one.class_name for one in graph.modules if not one.path), "the graph")


def _colors(graph: Graph) -> list[Color]:
    """Return what colours can tell of a graph."""
    has_gradients = any(any(node.gradients) for node in graph.nodes)
    return ["bytes", "gradient"] if has_gradients else ["bytes"]


def _data(drawing: Drawing, places: Mapping[str, int], colors: Sequence[Color]) -> dict[str, Any]:
    """Return where everything is.

    ``boxes`` are ``[left, top, right, bottom]`` in the order of the picture, ``links`` pairs of
    their places, ``paths`` ``[x, y, x, y, ...]`` of each link, ``opens`` the number of the module
    that a box opens, -1 for none, and ``heat`` for each colour its meaning and how full it is in
    each box.
    """
    boxes = [one.box for one in drawing.measured]
    heats = {color: heat_of(boxes, color) for color in colors}
    sizes = [one.extent() for one in drawing.measured]
    return {
        "boxes": [
            _rounded(at.x - size.width / 2, at.top, at.x + size.width / 2, at.top + size.height)
            for size, at in zip(sizes, drawing.layout.positions, strict=True)
        ],
        "links": [[*ends] for ends in drawing.links],
        "paths": [_rounded(*chain.from_iterable(points)) for points in drawing.paths],
        "opens": [places.get(box.path or "", -1) for box in boxes],
        "heat": {color: [heat.meaning, *heat.steps] for color, heat in heats.items()},
    }


def _rounded(*lengths: float) -> list[float]:
    return [round(length, 1) for length in lengths]


def _json(data: object) -> Markup:
    """Write data so that no name in it can end the script that holds it."""
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _packed(data: object) -> Markup:
    """Write data in a tenth of the room."""
    packed = zlib.compress(json.dumps(data, separators=(",", ":")).encode("utf-8"), 9)
    return Markup(base64.b64encode(packed).decode("ascii"))


def _header(
    graph: Graph,
    colors: Sequence[Color],
    chosen: Color | None,
    *,
    can_fold: bool,
    is_folded: bool,
) -> Markup:
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
        Markup('<nav aria-label="Modules"></nav>'),
        Markup('<input type="search" placeholder="Search" aria-label="Search the boxes">'),
        *buttons,
        element(
            "select",
            element("option", text("No colour"), value=""),
            *(_option(color, is_chosen=color == chosen) for color in colors),
            id="color",
            aria_label="Colour",
        ),
    )


def _option(color: Color, *, is_chosen: bool) -> Markup:
    chosen = {"selected": ""} if is_chosen else {}
    return element("option", text(CHOICES[color]), value=color, **chosen)


def _button(does: str, face: str, **attributes: str) -> Markup:
    return element("button", text(face), type="button", data_do=does, **attributes)
