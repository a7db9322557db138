"""A traced graph in the output of a notebook."""

import re

from leafgrad._display.notebook import MOST_CHARACTERS, embedded, image
from leafgrad._graph.graph import Graph
from leafgrad._picture import text
from leafgrad._picture.alt_text import title
from leafgrad._picture.html import page
from leafgrad._picture.svg.svg import MOST_BOXES, MOST_IN_NOTEBOOK, draw_view
from leafgrad._picture.view import view_of

AROUND = 185.0
"""How high the page is apart from its picture."""

MOST_HEIGHT = 640.0
HEIGHTS = re.compile(r'height="([\d.]+)"')


def html(graph: Graph) -> str:
    """Show the page to move about in, or what is left of it where that would be too large."""
    view = view_of(graph, fold=None)
    if len(view.boxes) > MOST_BOXES:
        return text.html(graph)
    instead, height = text.html(graph), MOST_HEIGHT
    if len(view.boxes) <= MOST_IN_NOTEBOOK:
        picture = draw_view(graph, view).markup
        instead = image(picture, name=title(graph))
        height = min(float(HEIGHTS.findall(picture)[0]) + AROUND, MOST_HEIGHT)
    content = page.page(graph)
    if len(content) > MOST_CHARACTERS:
        return instead
    return embedded(content, name=title(graph), height=height, instead=instead)
