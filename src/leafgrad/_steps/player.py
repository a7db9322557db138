"""A backward pass to step through: a picture, buttons and a list of what happens."""

import json
from dataclasses import replace

from leafgrad._display.markup import Markup, element, text
from leafgrad._display.pages import document, embed_page, image, resource
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import short_name
from leafgrad._messages import message
from leafgrad._picture.alt_text import title
from leafgrad._picture.picture_style import PictureStyle
from leafgrad._picture.svg.svg import draw_view, scrolling_frame
from leafgrad._picture.view import view_of
from leafgrad._steps import by_node

STYLE = PictureStyle(legend=False, is_brief=True, has_numbers=True)
BUTTONS = ("first", "back", "next", "last")


class Shown:
    """A graph whose boxes have the names from the sentences, with its view and its steps."""

    def __init__(self, graph: Graph) -> None:
        """Name the boxes, and describe the steps."""
        nodes = tuple(replace(node, tensor_names=(short_name(node),)) for node in graph.nodes)
        roots = tuple(nodes[root.index] for root in graph.roots)
        self.graph = replace(graph, nodes=nodes, roots=roots)
        self.view = view_of(self.graph, fold=False)
        self.steps = [*by_node.steps(graph)]


def page(shown: Shown) -> str:
    """Write a page that holds nothing else."""
    name = message("player.title", graph=title(shown.graph))
    content = element("main", fragment(shown))
    return document(name, PAGE, content, resource("leafgrad._steps", "player.js"))


PAGE = """
:root{color-scheme:light dark}
body{margin:1rem;font:16px/1.5 system-ui,sans-serif}
"""


def fragment(shown: Shown) -> Markup:
    """Write what a notebook shows; without JavaScript it is the picture and the list."""
    buttons = []
    for action in BUTTONS:
        label, face = message(f"player.{action}"), message(f"player.face.{action}")
        name = {"data_do": action, "aria_label": label, "title": label}
        buttons.append(element("button", text(face), type="button", **name))
    signs = [sign for _, sign in shown.steps]
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
        scrolling_frame(shown.graph, draw_view(shown.graph, shown.view, STYLE)),
        _sentences(shown, aria_label=message("player.all"), tabindex="0"),
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


def in_a_notebook(shown: Shown) -> Markup:
    """Write the page in a frame of its own, and the picture and the list for want of trust."""
    name = message("player.title", graph=title(shown.graph))
    picture = image(draw_view(shown.graph, shown.view, STYLE).markup, name=name)
    instead = Markup("".join([picture, _sentences(shown)]))
    return embed_page(page(shown), name=name, height=HEIGHT, instead=instead)


HEIGHT = 720.0


def _sentences(shown: Shown, **attributes: str) -> Markup:
    items = (element("li", text(step.sentence)) for step, _ in shown.steps)
    return element("ol", *items, **attributes)
