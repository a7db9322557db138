"""A backward pass to step through: a picture, buttons and a list of what happens."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log10

from leafgrad._display.markup import Markup, element, text
from leafgrad._display.pages import document, embed_page, image, resource
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import short_name
from leafgrad._messages import message
from leafgrad._picture.alt_text import title
from leafgrad._picture.picture_style import PictureStyle
from leafgrad._picture.svg.svg import draw_view, scrolling_frame
from leafgrad._picture.view import Fold, Open, is_in_full, view_of
from leafgrad._steps import by_box, by_node
from leafgrad._steps.step import Sign

STYLE = PictureStyle(legend=False, is_brief=True, has_numbers=True)
BUTTONS = ("first", "back", "next", "last")


class Shown:
    """A graph whose boxes have the names from the sentences, with its view and its steps."""

    def __init__(self, graph: Graph, *, fold: Fold, open: Open) -> None:  # noqa: A002
        """Choose the boxes, and describe the steps."""
        nodes = tuple(replace(node, tensor_names=(short_name(node),)) for node in graph.nodes)
        roots = tuple(nodes[root.index] for root in graph.roots)
        self.graph = replace(graph, nodes=nodes, roots=roots)
        self.view = view_of(self.graph, fold=fold, open=open)
        in_full = is_in_full(graph, fold)
        self.steps = [*(by_node.steps(graph) if in_full else by_box.steps(graph, self.view))]


def page(shown: Shown) -> str:
    """Write a page that holds nothing else."""
    name = message("player.title", graph=title(shown.graph))
    content = element("main", element("h1", text(name)), fragment(shown))
    return document(name, PAGE, content, resource("leafgrad._steps", "player.js"))


PAGE = """
:root{color-scheme:light dark}
body{margin:1rem;font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.2rem}
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
            *profile(signs),
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


PROFILE_HEIGHT = 40
LEAST = 3.0
"""How high the lowest bar is."""

LEAST_RANGE = 1.0
"""Norms nearer together than by so many powers of ten differ less in height than they could."""


def profile(signs: Sequence[Sign]) -> Iterator[Markup]:
    """Draw a bar for the norm at each step that has one, in powers of ten, if two have."""
    powers = {place: log10(sign.norm) for place, sign in enumerate(signs) if sign.norm}
    if len(powers) > 1:
        most, least = max(powers.values()), min(powers.values())
        rise = (PROFILE_HEIGHT - LEAST) / max(most - least, LEAST_RANGE)
        heights = [PROFILE_HEIGHT - rise * (most - power) for power in powers.values()]
        bars = (
            element(
                "rect",
                x=n + 0.1,
                y=PROFILE_HEIGHT - height,
                width=0.8,
                height=height,
                data_at=place,
            )
            for n, (place, height) in enumerate(zip(powers, heights, strict=True))
        )
        ends = dict.fromkeys(f"{10**power:.2g}" for power in (least, most))
        meaning = message("player.profile", norms=message("lists.to").join(ends))
        drawn = element(
            "svg",
            *bars,
            viewBox=f"0 0 {len(heights)} {PROFILE_HEIGHT}",
            preserveAspectRatio="none",
            aria_hidden="true",
        )
        caption = element("figcaption", text(meaning))
        yield element("figure", drawn, caption, class_="profile")
