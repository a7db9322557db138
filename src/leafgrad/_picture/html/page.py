"""A traced graph as a page of its own, to move about in."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from leafgrad._display.markup import Markup, element, text, visible
from leafgrad._display.page import document, resource
from leafgrad._display.units import count
from leafgrad._graph.graph import Graph
from leafgrad._picture.alt_text import title
from leafgrad._picture.layout import Place
from leafgrad._picture.module_calls import ModuleCall, module_calls, order_of
from leafgrad._picture.svg.boxes import Sketch, drawn, sketch
from leafgrad._picture.svg.style import CLASS
from leafgrad._picture.svg.svg import MOST_PARTS, drawing_of, tells_kind, too_large
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
KEYS_FOR_MODULES = ", m folds the module around, Enter unfolds it"


def page(graph: Graph) -> str:
    """Write the page: the graph folded and in full, or whichever of them is not too large."""
    shown = _shown(graph)
    start = shown[0] if len(graph.nodes) > MOST_IN_FULL else shown[-1]
    views = [_view(graph, one) for one in shown]
    depths = [call.depth for view in views for call in view.calls]
    levels = max(depths, default=-1) + 1
    frames = (
        element("div", *view.markup, class_="view", **({} if one is start else {"hidden": ""}))
        for one, view in zip(shown, views, strict=True)
    )
    folds = len(views) > 1
    keys = f"{KEYS}{KEY_FOR_REPEATS * folds}{KEYS_FOR_MODULES * bool(depths)}."
    is_large = len(graph.nodes) > MOST_PARTS
    hint = HINT + FOLDED_ONLY.format(nodes=len(graph.nodes), most=MOST_PARTS) * is_large
    code = Markup(
        resource("leafgrad._picture.html", "layout.js")
        + resource("leafgrad._picture.html", "page.js")
    )
    content = (
        _header(graph, folds=folds, is_folded=start is shown[0], levels=levels),
        element("main", *frames, tabindex="0"),
        element("footer", element("output", text(hint), data_keys=keys)),
        element("script", _json([view.data for view in views]), type="application/json", id="data"),
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _View:
    """One drawing of the graph, and what the page must know to draw it again with folds."""

    markup: tuple[Markup, ...]
    data: dict[str, Any]
    calls: list[ModuleCall]


def _view(graph: Graph, shown: Picture) -> _View:
    whole = drawing_of(graph, shown)
    order = order_of(shown)
    calls = [*module_calls(shown, order)]
    boxes = [_sketched(graph, call) for call in calls]
    apart = [drawn(one, Place(x=0.0, top=0.0, row=0), ports=(), most_bytes=0) for one in boxes]
    folded = element("svg", *apart, class_=f"{CLASS} apart", hidden="") if apart else Markup("")
    places = zip(whole.sketches, whole.drawing.places, strict=True)
    return _View(
        markup=(whole.markup, folded),
        calls=calls,
        data={
            "parts": [{**_size(one), "x": at.x, "top": at.top} for one, at in places],
            "order": order,
            "links": [asdict(link) for link in whole.links],
            "calls": [
                {**_size(one), "parts": call.places, "depth": call.depth, "name": _name(call)}
                for one, call in zip(boxes, calls, strict=True)
            ],
            "legend": [whole.under.width, whole.under.height],
            "beside": whole.beside.width,
        },
    )


def _sketched(graph: Graph, call: ModuleCall) -> Sketch:
    ways = len(call.part.ways)
    return sketch(call.part, with_kind=tells_kind(graph), arrivals=ways, nbytes=0)


def _name(call: ModuleCall) -> str:
    return visible(call.part.module or "")


def _size(one: Sketch) -> dict[str, float]:
    return asdict(one.box())


def _json(data: object) -> Markup:
    """Write JSON so that no name in it ends the script."""
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _header(graph: Graph, *, folds: bool, is_folded: bool, levels: int) -> Markup:
    pressed = "true" if is_folded else "false"
    return element(
        "header",
        element("h1", text(title(graph))),
        Markup('<input type="search" placeholder="Search" aria-label="Search the boxes">'),
        *[_depths(levels), _button("module", "Fold module", disabled="")] * bool(levels),
        _button("path", "Paths", aria_pressed="false"),
        _button("out", "−", aria_label="Zoom out"),
        _button("in", "+", aria_label="Zoom in"),
        _button("fit", "Fit"),
        *[_button("fold", "Fold", aria_pressed=pressed)] * folds,
    )


def _depths(levels: int) -> Markup:
    """Offer to fold the modules from some level on, or none."""
    faces = ["Modules open", *(f"Modules: {count(n + 1, 'level')}" for n in range(levels))]
    options = (element("option", text(face), value=level - 1) for level, face in enumerate(faces))
    some = element("option", text("Modules: some"), value="", hidden="")
    return element("select", *options, some, data_do="depth", aria_label="Fold modules")


def _button(does: str, face: str, **attributes: str) -> Markup:
    return element("button", text(face), type="button", data_do=does, **attributes)
