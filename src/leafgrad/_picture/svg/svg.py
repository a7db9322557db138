"""A traced graph as SVG."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from leafgrad._display.markup import Markup, coordinate, element, path, text
from leafgrad._graph.graph import Graph
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._picture import text as graph_text
from leafgrad._picture.alt_text import description, title
from leafgrad._picture.layout import Drawing, Link, Point, draw
from leafgrad._picture.svg.boxes import Sketch, drawn, sketch
from leafgrad._picture.svg.brackets import brackets
from leafgrad._picture.svg.legend import head, legend
from leafgrad._picture.svg.style import CLASS, FRAME, FRAME_STYLE, STYLE
from leafgrad._picture.view import Fold, Picture, picture

MOST_PARTS = 3000
MOST_IN_NOTEBOOK = 200
LEAST_SCALE = 0.8
"""How much a page may shrink a picture that is wider than itself; beyond, it scrolls."""

MARGIN = 12.0
HEAD = 6.0


def svg(graph: Graph, *, fold: Fold) -> str:
    """Draw a graph, or refuse one that is too large to look at."""
    if fold is False and len(graph.nodes) > MOST_PARTS:
        raise ValueError(too_large(graph, len(graph.nodes)))
    shown = picture(graph, fold=fold)
    if len(shown.parts) > MOST_PARTS:
        raise ValueError(too_large(graph, len(shown.parts)))
    return drawing_of(graph, shown).markup


def too_large(graph: Graph, boxes: int) -> str:
    """Say that a picture has too many boxes, and which fold, if any, leaves few enough."""
    cure = "trace a part of the graph, from a tensor nearer to the leaves"
    folds: list[Fold] = [True, *["*"] * any(node.module for node in graph.nodes)]
    for fold in folds:
        least = len(picture(graph, fold=fold).parts)
        if least <= MOST_PARTS:
            cure = f"fold={fold!r} leaves {least}"
            break
    return f"a picture must have at most {MOST_PARTS} boxes, not {boxes}; {cure}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """A picture that is drawn, and where everything is in it; its trunk is at 0 from the left."""

    sketches: list[Sketch]
    links: list[Link]
    drawing: Drawing
    left: float
    width: float
    markup: Markup


def drawing_of(graph: Graph, shown: Picture) -> Drawn:
    """Draw what was chosen to be shown."""
    sketches = sketches_of(graph, shown)
    links = links_of(shown)
    drawing = draw([one.box() for one in sketches], links)
    most_bytes = max(one.nbytes for one in sketches)
    beside = brackets(shown, sketches, drawing)
    middle = (drawing.left + drawing.right) / 2
    under = legend(graph, sketches, most_bytes)
    left = min(drawing.left - beside.width, middle - under.width / 2) - MARGIN
    right = max(drawing.right, middle + under.width / 2) + MARGIN
    # Under the trunk: who sees no more than a part of the picture sees that one.
    under_trunk = max(left + MARGIN, min(-under.width / 2, right - MARGIN - under.width))
    height = drawing.height + 3 * MARGIN + under.height
    markup = element(
        "svg",
        element("title", text(title(graph))),
        element("desc", text(description(shown))),
        element("style", Markup(STYLE)),
        *_ways(drawing),
        *_boxes(sketches, links, drawing, most_bytes),
        beside.markup,
        element(
            "g",
            under.markup,
            class_="legend",
            transform=_moved(under_trunk, drawing.height + 2 * MARGIN),
        ),
        xmlns="http://www.w3.org/2000/svg",
        class_=CLASS,
        style="max-width:none",  # a page that shrinks its pictures makes text too small
        role="img",
        width=right - left,
        height=height,
        viewBox=" ".join(map(coordinate, (left, -MARGIN, right - left, height))),
    )
    return Drawn(
        sketches=sketches,
        links=links,
        drawing=drawing,
        left=left,
        width=right - left,
        markup=markup,
    )


def html(graph: Graph) -> str:
    """Show a picture in a notebook, or the text where the picture would be too large."""
    shown = picture(graph, fold=None)
    if len(shown.parts) > MOST_IN_NOTEBOOK:
        return graph_text.html(graph)
    return framed(graph, drawing_of(graph, shown))


def framed(graph: Graph, whole: Drawn) -> Markup:
    """Frame a picture so that it shrinks a little, or else scrolls from the root on."""
    full, least = coordinate(whole.width), coordinate(whole.width * LEAST_SCALE)
    return element(
        "div",
        element("style", Markup(FRAME_STYLE)),
        element(
            "div",
            element(
                "span", Markup(" "), style=f"left:{coordinate(-100 * whole.left / whole.width)}%"
            ),
            whole.markup,
            style=f"width:{full}px;max-width:max(100%,min({full}px,({least}px - 100%)*999))",
        ),
        class_=FRAME,
        role="group",
        aria_label=title(graph),
        tabindex="0",  # for the keyboard, which scrolls what is wider than the page
    )


def _moved(x: float, y: float) -> str:
    return f"translate({coordinate(x)} {coordinate(y)})"


def sketches_of(graph: Graph, shown: Picture) -> list[Sketch]:
    """Write and measure every part, with room for bars where there is something to compare."""
    arrivals = Counter(place for part in shown.parts for place, _ in part.ways)
    # data types and devices are written only where they differ
    with_kind = len({(node.dtype, node.device) for node in graph.nodes}) > 1
    nbytes = [bytes_without_parameters(part.saved) for part in shown.parts]
    bars = len({*nbytes} - {0}) > 1
    return [
        sketch(part, with_kind=with_kind, arrivals=arrivals[place], nbytes=kept * bars)
        for place, (part, kept) in enumerate(zip(shown.parts, nbytes, strict=True))
    ]


def links_of(shown: Picture) -> list[Link]:
    """Link the parts, each output that is led to with a port of its own."""
    ranks = [{output: rank for rank, output in enumerate(part.outputs)} for part in shown.parts]
    return [
        Link(source=source, target=target, output=ranks[target].get(output, 0))
        for source, part in enumerate(shown.parts)
        for target, output in part.ways
    ]


def _ways(drawing: Drawing) -> Iterator[Markup]:
    """Draw the links, and a head wherever some arrive."""
    heads = dict.fromkeys(way[-1] for way in drawing.paths)
    links = (element("path", d=_curve(way)) for way in drawing.paths)
    yield element("g", *links, class_="links")
    yield element("g", *(head(x, y) for x, y in heads), class_="heads")


def _curve(way: Sequence[Point]) -> str:
    """Write a way as a path: straight down, or in a curve with upright ends."""
    x, y = way[-1]
    return path(way[0], *map(_step, pairwise([*way[:-1], (x, y - HEAD)])))


def _step(ends: tuple[Point, Point]) -> str:
    (x, y), (u, v) = ends
    if x == u:
        return f"V{coordinate(v)}"
    half = coordinate((y + v) / 2)
    return f"C{coordinate(x)} {half} {coordinate(u)} {half} {coordinate(u)} {coordinate(v)}"


def _boxes(
    sketches: Sequence[Sketch], links: Sequence[Link], drawing: Drawing, most_bytes: int
) -> Iterator[Markup]:
    ports: list[dict[int, float]] = [{} for _ in sketches]
    for link, way in zip(links, drawing.paths, strict=True):
        ports[link.target][link.output] = way[-1][0]
    for one, place, at in zip(sketches, drawing.places, ports, strict=True):
        arrive = [at[rank] for rank in range(len(one.part.outputs))]
        yield drawn(one, place, ports=arrive, most_bytes=most_bytes)
