"""The stepper, or player: a picture of a graph, buttons, and the current step's sentence."""

import json
from dataclasses import replace

from leafgrad._display.markup import Markup, element, text
from leafgrad._display.pages import document, embed_page, image, resource
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import short_name
from leafgrad._messages import message
from leafgrad._picture.alt_text import title
from leafgrad._picture.picture_style import PictureStyle
from leafgrad._picture.svg.svg import Drawing, draw_view, scrolling_frame
from leafgrad._picture.view import view_of
from leafgrad._steps import by_node

STYLE = PictureStyle(legend=False, is_brief=True, has_numbers=True)
BUTTONS = ("first", "back", "next", "last")


def draw(graph: Graph) -> Drawing:
    """Return the picture of all nodes of a graph, named as in the sentences."""
    nodes = tuple(replace(node, tensor_names=(short_name(node),)) for node in graph.nodes)
    roots = tuple(nodes[root.index] for root in graph.roots)
    named = replace(graph, nodes=nodes, roots=roots)
    return draw_view(named, view_of(named, fold=False), STYLE)


def page(graph: Graph) -> str:
    """Return an HTML document that holds only the stepper."""
    name = message("player.title", graph=title(graph))
    content = element("main", element("h1", text(name)), fragment(graph))
    return document(name, PAGE, content, resource("leafgrad._steps", "player.js"))


PAGE = """
:root{color-scheme:light dark}
body{margin:1rem;font:16px/1.5 system-ui,sans-serif}
h1{position:absolute;clip-path:inset(50%)}
"""


def fragment(graph: Graph) -> Markup:
    """Return the stepper as HTML for a notebook; without JavaScript it is a picture and a list."""
    buttons = []
    for action in BUTTONS:
        label, face = message(f"player.{action}"), message(f"player.face.{action}")
        name = {"data_do": action, "aria_label": label, "title": label}
        buttons.append(element("button", text(face), type="button", **name))
    signs = [sign for _, sign in by_node.steps(graph)]
    return element(
        "div",
        element("style", resource("leafgrad._steps", "player.css")),
        element(
            "div",
            element("div", *buttons, element("span", class_="count"), class_="controls", hidden=""),
            element(
                "p", text(message("player.hint")), class_="sentence", aria_live="polite", hidden=""
            ),
            class_="top",
        ),
        scrolling_frame(graph, draw(graph)),
        _sentences(graph, aria_label=message("player.all"), tabindex="0"),
        element("script", resource("leafgrad._steps", "player.js")),
        class_="leafgrad-steps",
        role="group",
        aria_label=message("player.label"),
        data_count=message("player.count"),
        data_steps=json.dumps(
            [{"box": sign.box, "arrows": sign.arrows, "writes": sign.writes} for sign in signs],
            separators=(",", ":"),
        ),
    )


def in_a_notebook(graph: Graph) -> Markup:
    """Return the stepper in a frame, and a picture and a list for notebooks without scripts."""
    name = message("player.title", graph=title(graph))
    instead = Markup(image(draw(graph).markup, name=name) + _sentences(graph))
    return embed_page(page(graph), name=name, height=HEIGHT, instead=instead)


HEIGHT = 720.0


def _sentences(graph: Graph, **attributes: str) -> Markup:
    """Return the sentences of all steps as an HTML list."""
    items = (element("li", text(step.sentence)) for step, _ in by_node.steps(graph))
    return element("ol", *items, **attributes)
