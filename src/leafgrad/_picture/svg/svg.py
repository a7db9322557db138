"""A traced graph as SVG."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from leafgrad._display.markup import Markup, coordinate, element, path, preformatted, text
from leafgrad._graph.graph import Graph
from leafgrad._messages import message
from leafgrad._picture import text as graph_text
from leafgrad._picture.alt_text import title
from leafgrad._picture.box import View
from leafgrad._picture.layout import Edge, Point, Position, flip_layout, lay_out
from leafgrad._picture.picture_style import PictureStyle
from leafgrad._picture.svg.boxes import MeasuredBox, draw, measure
from leafgrad._picture.svg.heat import heat_of
from leafgrad._picture.svg.legend import NO_LEGEND, legend
from leafgrad._picture.svg.shapes import CORNER, head, rect
from leafgrad._picture.svg.style import CLASS, FRAME, FRAME_STYLE, HEAT_STYLE, STYLE
from leafgrad._picture.text import header
from leafgrad._picture.view import Fold, view_of

MOST_BOXES = 3000
MOST_IN_NOTEBOOK = 200
LEAST_SCALE = 0.8
"""The smallest scale to which a narrow page shrinks a picture; below it, the picture scrolls."""

MARGIN = 12.0
HEAD = 6.0
AROUND = 6.0
STACKED = 4.0
DEFAULT = PictureStyle()


def svg(graph: Graph, *, fold: Fold, style: PictureStyle) -> str:
    """Return the picture of a graph as SVG; raise a ValueError if it would have too many boxes."""
    style.check(graph)
    view = view_of(graph, fold=fold)
    if len(view) > MOST_BOXES:
        raise ValueError(too_large(len(view)))
    return draw_view(graph, view, style).markup


def too_large(boxes: int) -> str:
    """Return the error message for a picture with too many boxes."""
    return message("errors.picture.boxes", most=MOST_BOXES, count=boxes)


class Drawing(NamedTuple):
    """A drawn picture; its longest path is at x = 0.

    Attributes:
        links: For each arrow, the numbers of the boxes that it leads from and to.
        left: The least x.
        width: The width of the picture.
        height: Its height.
        markup: The SVG element.
    """

    links: list[tuple[int, int]]
    left: float
    width: float
    height: float
    markup: Markup


def draw_view(graph: Graph, view: View, style: PictureStyle = DEFAULT) -> Drawing:
    """Return the drawing of a view: boxes, arrows and legend."""
    heat = heat_of(view, style.color, {})
    measured, edges = measure_boxes(graph, view, style), layout_edges(view)
    extents = [box.extent() for box in measured]
    layout = lay_out(extents, edges)
    if style.is_forward:
        layout = flip_layout(extents, layout)
    under = legend([*header(graph)], view, measured, style, heat) if style.legend else NO_LEGEND
    middle = (layout.left + layout.right) / 2
    left = min(layout.left, middle - under.width / 2) - MARGIN
    right = max(layout.right, middle + under.width / 2) + MARGIN
    height = layout.height + 2 * MARGIN
    # The legend is below the trunk, which is in sight even if the page cuts the picture off.
    x = max(left + MARGIN, min(-under.width / 2, right - MARGIN - under.width))
    shift = f"translate({coordinate(x)} {coordinate(height)})"
    if style.legend:
        height += MARGIN + under.height
    markup = element(
        "svg",
        element("title", text(title(graph))),
        *([] if style.is_brief else [_description(graph)]),
        element("style", Markup(STYLE if style.color is None else STYLE + HEAT_STYLE)),
        *_blocks(measured, layout.positions),
        *_arrows(view, edges, layout.paths, style),
        *map(draw, measured, layout.positions, heat.marks),
        *([element("g", under.markup, class_="legend", transform=shift)] if style.legend else []),
        xmlns="http://www.w3.org/2000/svg",
        class_=CLASS,
        # Otherwise a page may shrink the picture until its text is unreadable.
        style="max-width:none",
        role="img",
        width=right - left,
        height=height,
        viewBox=" ".join(map(coordinate, (left, -MARGIN, right - left, height))),
    )
    return Drawing(
        links=[edge[::-1] if style.is_forward else edge for edge in edges],
        left=left,
        width=right - left,
        height=height,
        markup=markup,
    )


def _description(graph: Graph) -> Markup:
    """Return the description for screen readers: the text of the graph."""
    return element("desc", Markup("\n".join(map(text, graph_text.text(graph).splitlines()))))


def html(graph: Graph) -> str:
    """Return the picture of a graph as HTML for a notebook, or its text if it is too large."""
    view = view_of(graph, fold=None)
    if len(view) > MOST_IN_NOTEBOOK:
        return preformatted(graph_text.text(graph))
    return scrolling_frame(graph, draw_view(graph, view))


def scrolling_frame(graph: Graph, drawing: Drawing) -> Markup:
    """Return a picture in a frame that shrinks it a little on a narrow page, then scrolls."""
    full, least = coordinate(drawing.width), coordinate(drawing.width * LEAST_SCALE)
    return element(
        "div",
        element("style", Markup(FRAME_STYLE)),
        element(
            "div",
            element(
                "span",
                Markup(" "),
                style=f"left:{coordinate(-100 * drawing.left / drawing.width)}%",
            ),
            drawing.markup,
            style=f"width:{full}px;max-width:max(100%,min({full}px,({least}px - 100%)*999))",
        ),
        class_=FRAME,
        role="group",
        aria_label=title(graph),
        tabindex="0",  # This lets the keyboard scroll a wide picture.
    )


def measure_boxes(graph: Graph, view: View, style: PictureStyle = DEFAULT) -> list[MeasuredBox]:
    """Return the boxes of a view with their text and size."""
    arrivals = Counter(chain.from_iterable(box.edges for box in view))
    # Data types and devices are shown only if they differ between nodes.
    with_kind = len({(node.dtype, node.device) for node in graph.nodes}) > 1
    return [
        measure(box, style=style, with_kind=with_kind, arrivals=arrivals[place])
        for place, box in enumerate(view)
    ]


def layout_edges(view: View) -> list[Edge]:
    """Return the edges between the boxes of a view."""
    return [
        Edge(source=source, target=target)
        for source, box in enumerate(view)
        for target in box.edges
    ]


def _blocks(measured: Sequence[MeasuredBox], positions: Sequence[Position]) -> Iterator[Markup]:
    """Yield two stacked frames around the boxes of each repeated part."""
    blocks = defaultdict[int | None, list[tuple[float, ...]]](list)
    for one, at in zip(measured, positions, strict=True):
        half = one.width / 2
        sides = at.x - half, at.top, at.x + half, at.top + one.height
        blocks[one.box.block].append(sides)
    blocks.pop(None, None)
    for parts in blocks.values():
        lefts, tops, rights, bottoms = zip(*parts, strict=True)
        left, top = min(lefts) - AROUND, min(tops) - AROUND
        wide, high = max(rights) - left + AROUND, max(bottoms) - top + AROUND
        for shift in (STACKED, 0.0):
            yield rect("block", left + shift, top + shift, wide, high, CORNER)


def _arrows(
    view: View, edges: Sequence[Edge], paths: Sequence[Sequence[Point]], style: PictureStyle
) -> Iterator[Markup]:
    """Yield the lines of the arrows, then their heads.

    `paths` contains the points of each of the `edges`. Arrows that meet share a head. A gradient
    does not flow to an input, so its line has no head.
    """
    is_free = [view[e.target].input is not None and not style.is_forward for e in edges]
    heads = dict.fromkeys(
        points[-1] for points, free in zip(paths, is_free, strict=True) if not free
    )
    links = (
        element("path", d=_curve(points, 0.0), class_="free")
        if free
        else element("path", d=_curve(points, HEAD))
        for points, free in zip(paths, is_free, strict=True)
    )
    yield element("g", *links, class_="links")
    yield element("g", *(head(x, y) for x, y in heads), class_="heads")


def _curve(points: Sequence[Point], head: float) -> str:
    """Return the SVG path of an arrow, which stops `head` above its last point."""
    x, y = points[-1]
    return path(points[0], *map(_step, pairwise([*points[:-1], (x, y - head)])))


def _step(ends: tuple[Point, Point]) -> str:
    """Return the SVG path command for one segment: a vertical line or a curve.

    `ends` are its two end points.
    """
    (x, y), (u, v) = ends
    if x == u:
        return f"V{coordinate(v)}"
    half = coordinate((y + v) / 2)
    return f"C{coordinate(x)} {half} {coordinate(u)} {half} {coordinate(u)} {coordinate(v)}"
