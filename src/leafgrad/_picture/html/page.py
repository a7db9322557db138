"""A traced graph as a page of its own, to move about in."""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from leafgrad._display.markup import Markup, element, text
from leafgrad._display.pages import MOST_CHARACTERS, document, embed_page, image, resource
from leafgrad._graph.graph import Graph
from leafgrad._messages import message, messages_of
from leafgrad._picture import text as graph_text
from leafgrad._picture.alt_text import title
from leafgrad._picture.box import View
from leafgrad._picture.picture_style import Color, PictureStyle
from leafgrad._picture.scopes import scopes
from leafgrad._picture.svg.heat import heat_of
from leafgrad._picture.svg.style import HEAT_STYLE
from leafgrad._picture.svg.svg import MOST_BOXES, MOST_IN_NOTEBOOK, Drawing, draw_view, too_large
from leafgrad._picture.view import is_in_full, overview_of, view_of

MOST_IN_ALL = 10_000
"""The number of boxes that the views of all modules may have together."""

MOST_HEIGHT = 640.0
AROUND = 185.0
"""The height of the page without its picture."""

MODULE_ROW = 42.0
"""The height of the row in which one chooses a module."""


def embedded_page(graph: Graph) -> str:
    """Return what a notebook shows: the page in a frame, or the picture if that is too large.

    If even the picture is too large, it is the text.
    """
    instead, height = graph_text.html(graph), MOST_HEIGHT
    view = view_of(graph, fold=None)
    if len(view.boxes) <= MOST_IN_NOTEBOOK:
        drawing = draw_view(graph, view)
        instead = image(drawing.markup, name=title(graph))
        around = AROUND + (MODULE_ROW if graph.modules else 0.0)
        height = min(drawing.height + around, MOST_HEIGHT)
    try:
        content = page(graph, PictureStyle())
    except ValueError:  # it would have too many boxes
        return instead
    if len(content) > MOST_CHARACTERS:
        return instead
    return embed_page(content, name=title(graph), height=height, instead=instead)


def page(graph: Graph, style: PictureStyle) -> str:
    """Write the page: the graph folded and in full, and a view of each module.

    The view that it starts with is part of the document. The others are compressed.
    """
    style.check(graph)
    plain = replace(style, color=None)  # the page colours by itself
    views = _views(graph)
    inner = [*scopes(graph, most_boxes=MOST_BOXES, most_in_all=MOST_IN_ALL)]
    start = len(views) - 1 if is_in_full(graph, None) else 0
    drawings = [draw_view(graph, view, plain) for view in views]
    drawings += [draw_view(graph, scope.view, plain, facts=[scope.title]) for scope in inner]
    numbers = {scope.path: number for number, scope in enumerate(inner)}
    has_gradients = any(any(node.gradients) for node in graph.nodes)
    colors: list[Color] = ["bytes", "gradient"] if has_gradients else ["bytes"]
    data = [_data(drawing, numbers, colors) for drawing in drawings]
    others = [
        None if index == start else {**facts, "markup": drawing.markup}
        for index, (facts, drawing) in enumerate(zip(data, drawings, strict=True))
    ]
    facts = {
        "first": data[start],
        "start": start,
        "wholes": len(views),
        "modules": [[scope.title, numbers.get(scope.outer or "", -1)] for scope in inner],
        "whole": next(
            (one.class_name for one in graph.modules if not one.path), message("page.graph")
        ),
        "words": messages_of("page.script"),
    }
    hint, keys = _hints(graph, can_fold=len(views) > 1, has_modules=bool(inner))
    code = resource("leafgrad._picture.html", "page.js")
    content = (
        _header(graph, colors, style.color, is_folded=start == 0 if len(views) > 1 else None),
        element("main", element("div", drawings[start].markup, class_="view"), tabindex="0"),
        element("footer", element("output", text(hint), data_keys=keys)),
        *_scripts(facts, others),
        element("script", code),
    )
    css = resource("leafgrad._picture.html", "page.css") + HEAT_STYLE
    return document(title(graph), css, Markup("".join(content)), code)


def _header(
    graph: Graph, colors: list[Color], chosen: Color | None, *, is_folded: bool | None
) -> Markup:
    """Return the controls; `is_folded` is None if there is nothing to fold."""
    fold = {"aria_pressed": "true" if is_folded else "false"}
    return element(
        "header",
        element("h1", text(title(graph))),
        Markup(f'<nav aria-label="{text(message("page.modules"))}"></nav>'),
        element(
            "input",
            type="search",
            placeholder=message("page.search"),
            aria_label=message("page.search-label"),
        ),
        _button("path", message("page.paths"), aria_pressed="false"),
        _button("out", "−", aria_label=message("page.zoom-out")),
        _button("in", "+", aria_label=message("page.zoom-in")),
        _button("fit", message("page.fit")),
        *([] if is_folded is None else [_button("fold", message("page.fold"), **fold)]),
        _color_choice(colors, chosen),
    )


def _scripts(facts: object, others: object) -> tuple[Markup, Markup]:
    """Return the data of the first view, in which no name can end the script, and of the others."""
    first = Markup(_json(facts).replace("<", "\\u003c"))
    packed = base64.b64encode(zlib.compress(_json(others).encode("utf-8"), 9)).decode("ascii")
    return (
        element("script", first, type="application/json", id="data"),
        element("script", Markup(packed), type="text/plain", id="rest"),
    )


def _views(graph: Graph) -> list[View]:
    """Return the graph folded and in full, if it is small enough and the two differ."""
    folded = overview_of(graph)
    if len(folded.boxes) > MOST_BOXES:
        raise ValueError(too_large(graph, len(folded.boxes)))
    if len(graph.nodes) > MOST_BOXES:
        return [folded]
    full = view_of(graph, fold=False)
    return [folded] if folded == full else [folded, full]


def _hints(graph: Graph, *, can_fold: bool, has_modules: bool) -> tuple[str, str]:
    """Return what one can do with the pointer, and with the keys."""
    hint, keys = [message("page.hint")], message("page.keys")
    if can_fold:
        keys += message("page.keys-fold")
    if has_modules:
        hint.append(message("page.hint-modules"))
        keys += message("page.keys-modules")
    if len(graph.nodes) > MOST_BOXES:
        hint.append(message("page.hint-folded", nodes=len(graph.nodes), most=MOST_BOXES))
        hint.append(message("page.hint-look" if has_modules else "page.hint-names"))
    return " ".join(hint), f"{keys}."


def _data(drawing: Drawing, numbers: Mapping[str, int], colors: list[Color]) -> dict[str, Any]:
    """Return the geometry of a view, the modules that its boxes open, and its colours.

    ``boxes`` are ``[left, top, right, bottom]`` in the order of the picture. ``links`` are pairs of
    their indices, and ``paths`` are ``[x, y, x, y, ...]`` for each link. ``opens`` has the number
    of the module that a box opens, -1 for none. ``heat`` has for each colour its meaning, and its
    step in each box.
    """
    boxes = [measured.box for measured in drawing.measured]
    heats = {color: heat_of(boxes, color) for color in colors}
    sizes = [measured.extent() for measured in drawing.measured]
    return {
        "boxes": [
            _round(at.x - size.width / 2, at.top, at.x + size.width / 2, at.top + size.height)
            for size, at in zip(sizes, drawing.layout.positions, strict=True)
        ],
        "links": [[*ends] for ends in drawing.links],
        "paths": [_round(*chain.from_iterable(points)) for points in drawing.paths],
        "opens": [numbers.get(box.path or "", -1) for box in boxes],
        "heat": {color: [heat.meaning, *heat.steps] for color, heat in heats.items()},
    }


def _round(*lengths: float) -> list[float]:
    return [round(length, 1) for length in lengths]


def _json(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))


def _color_choice(colors: list[Color], chosen: Color | None) -> Markup:
    options = [element("option", text(message("page.no-color")), value="")]
    for color in colors:
        selected = {"selected": ""} if color == chosen else {}
        options.append(element("option", text(message(f"page.{color}")), value=color, **selected))
    return element("select", *options, id="color", aria_label=message("page.color"))


def _button(does: str, face: str, **attributes: str) -> Markup:
    return element("button", text(face), type="button", data_do=does, **attributes)
