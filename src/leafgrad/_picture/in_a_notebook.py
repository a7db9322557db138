"""A traced graph in the output of a notebook."""

import re
from collections.abc import Callable

from leafgrad._display.notebook import MOST_CHARACTERS, embedded, image
from leafgrad._graph.graph import Graph
from leafgrad._picture import text
from leafgrad._picture.alt_text import title
from leafgrad._picture.svg.svg import MOST_IN_NOTEBOOK, draw_view
from leafgrad._picture.view import view_of

AROUND = 185.0
"""How high the page is apart from its picture."""

CHOICE = 42.0
"""How high the row is in which one chooses a module."""

MOST_HEIGHT = 640.0
HEIGHTS = re.compile(r'height="([\d.]+)"')


def html(graph: Graph, page: Callable[[], str]) -> str:
    """Show the page to move about in, or what is left of it where that would be too large."""
    instead, height = text.html(graph), MOST_HEIGHT
    view = view_of(graph, fold=None)
    if len(view.boxes) <= MOST_IN_NOTEBOOK:
        picture = draw_view(graph, view).markup
        instead = image(picture, name=title(graph))
        around = AROUND + (CHOICE if graph.modules else 0.0)
        height = min(float(HEIGHTS.findall(picture)[0]) + around, MOST_HEIGHT)
    try:
        content = page()
    except ValueError:  # it would have too many boxes
        return instead
    if len(content) > MOST_CHARACTERS:
        return instead
    return embedded(content, name=title(graph), height=height, instead=instead)
