"""The explorer: an HTML page with a graph to search, zoom and open module by module."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from leafgrad._display.markup import Markup, element, preformatted, text
from leafgrad._display.pages import MOST_CHARACTERS, document, embed_page, image, resource
from leafgrad._graph.graph import Graph
from leafgrad._messages import message, messages_of
from leafgrad._picture import text as graph_text
from leafgrad._picture.alt_text import title
from leafgrad._picture.box import View
from leafgrad._picture.picture_style import Color, Direction, PictureStyle
from leafgrad._picture.scopes import scopes
from leafgrad._picture.svg.heat import heat_of
from leafgrad._picture.svg.style import HEAT, HEAT_SHARES, HEAT_STYLE, HUES
from leafgrad._picture.svg.svg import MOST_BOXES, MOST_IN_NOTEBOOK, draw_view, too_large
from leafgrad._picture.view import is_in_full, overview_of, view_of

MOST_IN_VIEW = 600
"""The greatest number of boxes in one view, except the view that the page starts with.

A view is a picture on the page: of the folded graph, of all nodes, or of one module.
"""

MOST_IN_ALL = 5000
"""The greatest number of boxes in the views of all modules together."""

MOST_HEIGHT = 640.0
AROUND = 200.0
"""The height of the page without its picture."""

KEY_STYLE = "".join(f"i.hue-{number}{{background:{hue}}}" for number, hue in enumerate(HUES, 1))
KEY_STYLE += "".join(
    f"i.heat-{step}{{background:{HEAT};opacity:{share}}}"
    for step, share in enumerate(HEAT_SHARES, 1)
)


def embedded_page(graph: Graph) -> str:
    """Return the HTML that a notebook shows for a graph: the explorer in a frame.

    A graph too large for the explorer is shown as a picture, and an even larger one as text.
    """
    instead, height = preformatted(graph_text.text(graph)), MOST_HEIGHT
    view = view_of(graph, fold=None)
    if len(view) <= MOST_IN_NOTEBOOK:
        drawing = draw_view(graph, view)
        instead = image(drawing.markup, name=title(graph))
        height = min(drawing.height + AROUND, MOST_HEIGHT)
    try:
        content = page(graph, PictureStyle(direction="forward", color="class"))
    except ValueError:  # The graph has too many boxes.
        return instead
    if len(content) > MOST_CHARACTERS:
        return instead
    return embed_page(content, name=title(graph), height=height, instead=instead)


def page(graph: Graph, style: PictureStyle) -> str:
    """Return the explorer as an HTML document.

    It holds the folded graph, the full graph and each module, in both directions. The view that it
    starts with is part of the document; the others are compressed.
    """
    style.check(graph)
    wholes = _wholes(graph)
    inner = [*scopes(graph, most_boxes=MOST_IN_VIEW, most_in_all=MOST_IN_ALL)]
    views = [*wholes, *(scope.view for scope in inner)]
    start = len(wholes) - 1 if is_in_full(graph, None) else 0
    numbers = {scope.path: number for number, scope in enumerate(inner)}
    colors = [one for one in get_args(Color) if one != "gradient" or graph.has_gradients]
    hues: dict[str, str] = {}
    shared = [_facts(view, numbers, colors, hues) for view in views]
    packed: dict[Direction, list[Any]] = {}
    for way in get_args(Direction):
        plain = PictureStyle(direction=way, legend=False, is_brief=True)  # the page adds colours
        drawings = [draw_view(graph, view, plain) for view in views]
        packed[way] = [
            {**facts, "links": drawing.links, "markup": drawing.markup}
            for facts, drawing in zip(shared, drawings, strict=True)
        ]
    first, packed[style.direction][start] = packed[style.direction][start], None
    picture = first.pop("markup")
    model = next((one.class_name for one in graph.modules if not one.path), "")
    data = {
        "first": first,
        "start": start,
        "direction": style.direction,
        "wholes": len(wholes),
        "modules": [[scope.title, numbers.get(scope.outer or "", -1)] for scope in inner],
        "whole": model or message("page.graph"),
        "words": messages_of("page.script"),
    }
    buttons = {"turn": style.direction == "backward"}
    if len(wholes) > 1:
        buttons["fold"] = start > 0
    code = resource("leafgrad._picture.html", "page.js")
    content = (
        _header(model or title(graph), colors, style.color, buttons),
        element("main", element("div", picture, class_="view"), tabindex="0"),
        _footer(graph, has_modules=bool(inner), can_fold=len(wholes) > 1),
        *_scripts(data, packed),
        element("script", code),
    )
    css = resource("leafgrad._picture.html", "page.css") + HEAT_STYLE + KEY_STYLE
    return document(title(graph), css, Markup("".join(content)), code)


def _header(
    heading: str, colors: list[Color], chosen: Color | None, buttons: Mapping[str, bool]
) -> Markup:
    """Return the heading of the explorer and its buttons, menus and search field."""
    return element(
        "header",
        element("h1", text(heading)),
        Markup(f'<nav aria-label="{text(message("page.modules"))}"></nav>'),
        element(
            "input",
            type="search",
            placeholder=message("page.search"),
            aria_label=message("page.search-label"),
        ),
        *(
            _button(does, message(f"page.{does}"), aria_pressed=str(is_on).lower())
            for does, is_on in buttons.items()
        ),
        _color_choice(colors, chosen),
        _button("out", "−", aria_label=message("page.zoom-out")),
        _button("in", "+", aria_label=message("page.zoom-in")),
        _button("fit", message("page.fit")),
    )


def _footer(graph: Graph, *, has_modules: bool, can_fold: bool) -> Markup:
    """Return the footer: the key of the colours, and hints until a box is selected."""
    hints = [message("page.hint")]
    if has_modules:
        hints.append(message("page.hint-modules"))
    if len(graph.nodes) > MOST_IN_VIEW:
        hints.append(message("page.hint-folded", nodes=len(graph.nodes), most=MOST_IN_VIEW))
    keys = message("page.keys", fold=message("page.keys-fold") if can_fold else "")
    return element(
        "footer",
        element("div", Markup(" "), id="legend"),
        element("output", text(" ".join(hints)), Markup("\n"), text(keys)),
        tabindex="0",  # This lets the keyboard scroll it on a phone.
    )


def _scripts(facts: object, others: object) -> tuple[Markup, Markup]:
    """Return the data of the first view as a JSON script, and the other views compressed.

    `facts` is the data of the first view, and `others` that of the others.
    """
    first = Markup(_json(facts).replace("<", "\\u003c"))
    packed = base64.b64encode(zlib.compress(_json(others).encode("utf-8"), 9)).decode("ascii")
    return (
        element("script", first, type="application/json", id="data"),
        element("script", Markup(packed), type="text/plain", id="rest"),
    )


def _wholes(graph: Graph) -> list[View]:
    """Return the folded view of a graph, and the view of all nodes if it is small and differs.

    The folded view draws each module as one box, or each repeated part only once.
    """
    folded = overview_of(graph)
    if len(folded) > MOST_BOXES:
        raise ValueError(too_large(len(folded)))
    if len(graph.nodes) > MOST_IN_VIEW:
        return [folded]
    full = view_of(graph, fold=False)
    return [folded] if folded == full else [folded, full]


def _facts(
    view: View, numbers: Mapping[str, int], colors: Sequence[Color], hues: dict[str, str]
) -> dict[str, Any]:
    """Return for each box of a view the module that it opens, and its colours.

    ``opens`` has the number of that module, -1 for none. ``heat`` has for each entry of the colour
    menu the CSS class of each box, and the key of the colours.

    Args:
        view: The boxes.
        numbers: The number of each module that can be opened, by path.
        colors: The entries of the colour menu.
        hues: The colours of classes so far, as in `heat_of`.
    """
    return {
        "opens": [numbers.get(box.path or "", -1) for box in view],
        "heat": {color: heat_of(view, color, hues)._asdict() for color in colors},
    }


def _json(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))


def _color_choice(colors: list[Color], chosen: Color | None) -> Markup:
    """Return the menu of colours."""
    options = [element("option", text(message("page.no-color")), value="")]
    for color in colors:
        selected = {"selected": ""} if color == chosen else {}
        options.append(element("option", text(message(f"page.{color}")), value=color, **selected))
    return element("select", *options, id="color", aria_label=message("page.color"))


def _button(does: str, face: str, **attributes: str) -> Markup:
    """Return a button with the text `face`; the script finds it by its action, `does`."""
    return element("button", text(face), type="button", data_do=does, **attributes)
