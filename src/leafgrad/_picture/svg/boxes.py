"""The boxes of a picture: their sizes, and how they are drawn."""

from collections.abc import Iterator
from dataclasses import dataclass

from leafgrad._display.markup import Markup, element, text
from leafgrad._display.text_width import elide, width
from leafgrad._picture.alt_text import details
from leafgrad._picture.box import Box
from leafgrad._picture.box_text import Line, lines, output
from leafgrad._picture.layout import Extent, Position
from leafgrad._picture.picture_style import PictureStyle
from leafgrad._picture.svg.shapes import CORNER, OUTLINE, rect
from leafgrad._picture.svg.style import FACT_SIZE, NAME_SIZE

MOST_LETTERS = 44
PADDING = 9.0
LINE = 15.0
PILL = 18.0
PILLS = ("leaf", "frozen")
BRIEF = ("name", "tensor", "alarm", *PILLS)
LEAF_CORNER = 24.0
EDGES_APART = 8.0
MOST_FOR_EDGES = 480.0


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredBox:
    """A box with its lines of text and its size.

    The size does not include the outline, the ring around the box of a root.
    """

    box: Box
    lines: tuple[Line, ...]
    width: float
    height: float

    @property
    def outline(self) -> float:
        """The width of the ring around a root; 0 for other boxes."""
        return OUTLINE if self.box.is_root else 0.0

    def extent(self) -> Extent:
        """Return the space that the box takes in the layout, its outline included."""
        around = 2 * self.outline
        return Extent(width=self.width + around, height=self.height + around)


def measure(box: Box, *, style: PictureStyle, with_kind: bool, arrivals: int) -> MeasuredBox:
    """Write the text of a box and compute its size.

    Args:
        box: The box.
        style: The direction of the arrows and the level of detail.
        with_kind: Whether to show data types and devices.
        arrivals: The number of edges that lead to the box.
    """
    result = "" if box.beyond == "user" else output(box, with_kind=with_kind)
    shown = (*BRIEF, "value", "grad") if style.has_numbers else BRIEF
    written = tuple(
        Line(text=elide(line.text, MOST_LETTERS), style=line.style)
        for line in lines(box, made=result, direction=style.direction)
        if not style.is_brief or line.style in shown
    )
    for_edges = EDGES_APART * (2 + max(len(box.edges), arrivals))
    return MeasuredBox(
        box=box,
        lines=written,
        width=max(max(map(_width, written)) + 2 * PADDING, min(for_edges, MOST_FOR_EDGES)),
        height=sum(map(_height, written)) + 2 * PADDING,
    )


def _width(line: Line) -> float:
    """Return the width of a line of text in pixels."""
    if line.style in PILLS:
        return width(line.text, FACT_SIZE) + PADDING
    return width(line.text, NAME_SIZE if line.style == "name" else FACT_SIZE)


def _height(line: Line) -> float:
    """Return the height of a line of text in pixels."""
    return PILL if line.style in PILLS else LINE


def draw(measured: MeasuredBox, position: Position, mark: str) -> Markup:
    """Return the SVG of a box at a position; `mark` is the CSS class of its colour, or ""."""
    left, top = position.x - measured.width / 2, position.top + measured.outline
    return element(
        "g",
        element("title", Markup("\n".join(map(text, details(measured.box))))),
        *_outlines(measured, left, top, mark),
        *_texts(measured, position.x, top + PADDING),
        class_="part",
    )


def _outlines(measured: MeasuredBox, left: float, top: float, mark: str) -> Iterator[Markup]:
    """Yield the rectangle of a box, and the ring around a root.

    `left` and `top` are the coordinates of its corner. `mark` is a CSS class, or empty.
    """
    box, wide, high = measured.box, measured.width, measured.height
    is_from_outside = box.node.is_leaf or box.input is not None
    corner = min(high / 2, LEAF_CORNER) if is_from_outside else CORNER
    yield rect(" ".join(filter(None, [*_classes(box), mark])), left, top, wide, high, corner)
    if box.is_root:
        around = OUTLINE - 0.5
        wide, high = wide + 2 * around, high + 2 * around
        yield rect("root", left - around, top - around, wide, high, corner + around)


def _classes(box: Box) -> Iterator[str]:
    """Yield the CSS classes of a box."""
    yield "leaf" if box.node.is_leaf else "box"
    if box.beyond is not None:
        yield "beyond"
        return
    order = box.node.derivative_order
    facts = {
        "input": box.input is not None,
        "module": box.name is not None,
        f"order-{min(order or 0, 3)}": bool(order),
        "freed": any(saved.state == "freed" for saved in box.saved),
        "modified": any(saved.is_modified for saved in box.saved),
    }
    yield from (name for name, is_so in facts.items() if is_so)


def _texts(measured: MeasuredBox, x: float, y: float) -> Iterator[Markup]:
    """Yield the lines of text of a box, leaves and frozen parameters as pills."""
    for line in measured.lines:
        y += _height(line)
        baseline, class_ = y - 4.0, {"class_": line.style}
        if line.style in PILLS:
            wide = _width(line) + PADDING
            yield rect(line.style, x - wide / 2, y - PILL + 1.5, wide, PILL - 3, PILL / 2)
            baseline = y - 5.5
        if line.style in ("fact", "tensor", *PILLS):
            class_ = {}
        yield element("text", text(line.text), x=x, y=baseline, **class_)
