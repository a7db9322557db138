"""A backward pass to step through: a picture, buttons and a list of what happens."""

import json

from leafgrad._display.document import document, resource
from leafgrad._display.markup import Markup, element, text
from leafgrad._display.notebook import embedded, image
from leafgrad._picture.alt_text import title
from leafgrad._picture.svg.svg import draw_view, framed
from leafgrad._steps.profile import profile
from leafgrad._steps.shown import Shown
from leafgrad._steps.sign import Sign

BUTTONS = (
    ("first", "|◀", "To the start"),
    ("back", "◀", "One step back"),
    ("next", "Next ▶", "Next ▶, one step on"),
    ("last", "▶|", "To the end"),
)


def page(shown: Shown) -> str:
    """Write a page that holds nothing else."""
    called = f"{title(shown.graph)}, step by step"
    content = element("main", element("h1", text(called)), fragment(shown))
    return document(called, PAGE, content, resource("leafgrad._steps", "player.js"))


PAGE = """
:root{color-scheme:light dark}
body{margin:1rem;font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.2rem}
"""


def fragment(shown: Shown) -> Markup:
    """Write what a notebook shows; without JavaScript it is the picture and the list."""
    buttons = (
        element("button", text(face), type="button", data_do=does, aria_label=label, title=label)
        for does, face, label in BUTTONS
    )
    signs = [sign for _, sign in shown.told]
    return element(
        "div",
        element("style", resource("leafgrad._steps", "player.css")),
        *_found(shown),
        *profile(signs),
        element("div", *buttons, element("span", class_="count"), class_="controls", hidden=""),
        element("p", text(HINT), class_="told", aria_live="polite", hidden=""),
        framed(shown.graph, draw_view(shown.graph, shown.view)),
        _sentences(shown, aria_label="All steps in words", tabindex="0"),
        element("script", resource("leafgrad._steps", "player.js")),
        class_="leafgrad-steps",
        role="group",
        aria_label="Backward, step by step",
        data_steps=json.dumps([*map(_sign, signs)], separators=(",", ":")),
    )


def in_a_notebook(shown: Shown) -> Markup:
    """Write the page in a frame of its own, and the picture and the list for want of trust."""
    called = f"{title(shown.graph)}, step by step"
    picture = image(draw_view(shown.graph, shown.view).markup, name=called)
    instead = Markup("".join([*_found(shown), picture, _sentences(shown)]))
    return embedded(page(shown), name=called, height=HEIGHT, instead=instead)


HEIGHT = 720.0

HINT = "Next, or the right arrow key, goes on; the left one goes back, Home and End to the ends."


def _found(shown: Shown) -> list[Markup]:
    """Write what is wrong with the sizes of the gradients, if anything is."""
    norms = shown.graph.gradient_norms
    return [element("p", text(sentence), class_="found") for sentence in norms.sentences]


def _sentences(shown: Shown, **attributes: str) -> Markup:
    items = (element("li", text(step.sentence)) for step, _ in shown.told)
    return element("ol", *items, **attributes)


def _sign(sign: Sign) -> dict[str, object]:
    """Return for the script which box and which arrows light up, and what is written where."""
    return {"box": sign.box, "ways": sign.ways, "writes": sign.writes}
