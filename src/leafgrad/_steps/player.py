"""A backward pass to step through: a picture, buttons and a list of what happens."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from leafgrad._display.document import document, resource
from leafgrad._display.markup import Markup, element, text
from leafgrad._display.notebook import embedded, image
from leafgrad._graph.graph import Graph
from leafgrad._picture.alt_text import title
from leafgrad._picture.box_text import numbers
from leafgrad._picture.svg.svg import draw_view, framed
from leafgrad._picture.view import view_of
from leafgrad._steps.sentences import short
from leafgrad._steps.step import Step

Writing = tuple[int, str, str]
"""The box of which node gets which line, and what stands there."""

BUTTONS = (
    ("first", "|◀", "To the start"),
    ("back", "◀", "One step back"),
    ("next", "Next ▶", "Next ▶, one step on"),
    ("last", "▶|", "To the end"),
)


def page(graph: Graph, steps: Sequence[Step]) -> str:
    """Write a page that holds nothing else."""
    called = f"{title(graph)}, step by step"
    content = element("main", element("h1", text(called)), fragment(graph, steps))
    return document(called, PAGE, content, resource("leafgrad._steps", "player.js"))


PAGE = """
:root{color-scheme:light dark}
body{margin:1rem;font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.2rem}
"""


def fragment(graph: Graph, steps: Sequence[Step]) -> Markup:
    """Write what a notebook shows; without JavaScript it is the picture and the list."""
    named = _named(graph)
    buttons = (
        element("button", text(face), type="button", data_do=does, aria_label=label, title=label)
        for does, face, label in BUTTONS
    )
    return element(
        "div",
        element("style", resource("leafgrad._steps", "player.css")),
        element("div", *buttons, element("span", class_="count"), class_="controls", hidden=""),
        element("p", text(HINT), class_="told", aria_live="polite", hidden=""),
        framed(graph, draw_view(named, view_of(named, fold=False))),
        element(
            "ol",
            *(element("li", text(step.sentence)) for step in steps),
            aria_label="All steps in words",
            tabindex="0",
        ),
        element("script", resource("leafgrad._steps", "player.js")),
        class_="leafgrad-steps",
        role="group",
        aria_label="Backward, step by step",
        data_steps=json.dumps([_sign(step, graph) for step in steps]),
    )


def in_a_notebook(graph: Graph, steps: Sequence[Step]) -> Markup:
    """Write the page in a frame of its own, and the picture and the list for want of trust."""
    named = _named(graph)
    picture = draw_view(named, view_of(named, fold=False)).markup
    sentences = element("ol", *(element("li", text(step.sentence)) for step in steps))
    called = f"{title(graph)}, step by step"
    instead = Markup(f"{image(picture, name=called)}{sentences}")
    return embedded(page(graph, steps), name=called, height=HEIGHT, instead=instead)


HEIGHT = 720.0

HINT = "Next, or the right arrow key, goes on; the left one goes back, Home and End to the ends."


def _named(graph: Graph) -> Graph:
    """Let each box show what the sentences call its node."""
    nodes = tuple(replace(node, tensor_names=(short(node),)) for node in graph.nodes)
    return replace(graph, nodes=nodes, roots=tuple(nodes[root.index] for root in graph.roots))


def _sign(step: Step, graph: Graph) -> dict[str, object]:
    """Return for the script which box and which edge light up, and what is written where."""
    edges = [
        (edge.source, edge.output_nr)
        for node in graph.nodes
        for edge in node.edges
        if edge.target is not None
    ]
    edge = None if step.edge is None else edges.index((step.node, step.edge))
    return {"node": step.node, "way": edge, "writes": [*_writings(step, graph)]}


def _writings(step: Step, graph: Graph) -> Iterator[Writing]:
    node = graph.nodes[step.node]
    style = "value" if step.kind == "value" else "grad"
    yield from ((node.index, style, line.text) for line in numbers(node) if line.style == style)
    if step.edge is not None:
        edge = node.edges[step.edge]
        target = graph.nodes[edge.target or 0]
        if edge.gradient_so_far is not None and len(target.shapes) == 1:
            yield edge.target or 0, "grad", f"grad {edge.gradient_so_far}"
