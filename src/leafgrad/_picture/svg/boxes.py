"""The boxes of a picture: how large each must be, and how it is drawn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leafgrad._display.markup import Markup, element, path, text
from leafgrad._display.text_width import shortened, width
from leafgrad._picture.alt_text import details
from leafgrad._picture.box_text import Line, lines
from leafgrad._picture.layout import Box, Place
from leafgrad._picture.repeats import SEVERAL
from leafgrad._picture.svg.style import FACT_SIZE, NAME_SIZE
from leafgrad._picture.view import Part

MOST_LETTERS = 44
MOST_STUBS = 3
PADDING = 9.0
LINE = 15.0
PILL = 18.0
PORTS = 11.0
BAR = 3.0
OUTLINE = 4.0
CORNER = 5.0
LEAF_CORNER = 24.0
STUB_APART = 9.0
STUB_LENGTH = 8.0
LINK_APART = 8.0
MOST_FOR_LINKS = 480.0
OUTPUT_APART = 26.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Sketch:
    """A part that knows its text and its size.

    Attributes:
        part: The part.
        lines: What is written in it.
        width: How wide it is, without what is drawn around it.
        height: How high it is, without what is drawn around it.
        nbytes: What its bar shows that it saved; 0 for no bar.
        outline: How much is drawn around it.
    """

    part: Part
    lines: tuple[Line, ...]
    width: float
    height: float
    nbytes: int
    outline: float

    @property
    def stubs(self) -> int:
        """Count the inputs to draw that needed no gradient."""
        missing = sum(edge.target is None for edge in self.part.node.edges)
        return min(MOST_STUBS, missing) * (self.part.module is None)

    def box(self) -> Box:
        """Give the room that it takes in the layout."""
        return Box(
            width=self.width + 2 * self.outline,
            height=self.height + 2 * self.outline,
            outputs=len(self.part.outputs),
            clear=self.outline + STUB_APART * self.stubs,
        )


def sketch(part: Part, *, with_kind: bool, arrivals: int, nbytes: int) -> Sketch:
    """Write a part and measure it, with a bar for so many bytes if they are not 0."""
    written = tuple(
        Line(text=shortened(line.text, MOST_LETTERS), style=line.style)
        for line in lines(part, with_kind=with_kind)
    )
    for_links = LINK_APART * (2 + max(len(part.ways), arrivals)) + 2 * STUB_APART * MOST_STUBS
    return Sketch(
        part=part,
        lines=written,
        width=max(
            max(map(_width, written)) + 2 * PADDING,
            min(for_links, MOST_FOR_LINKS),
            OUTPUT_APART * len(part.outputs),
        ),
        height=sum(map(_height, written))
        + 2 * PADDING
        + PORTS * bool(part.outputs)
        + 2 * BAR * bool(nbytes),
        nbytes=nbytes,
        outline=OUTLINE * (part.is_root or part.copies > 1),
    )


def _width(line: Line) -> float:
    size = NAME_SIZE if line.style == "name" else FACT_SIZE
    return width(line.text, size) + PADDING * (line.style == "leaf")


def _height(line: Line) -> float:
    return PILL if line.style == "leaf" else LINE


def drawn(sketch: Sketch, place: Place, *, ports: Sequence[float], most_bytes: int) -> Markup:
    """Draw a part where it belongs.

    Args:
        sketch: The part.
        place: Where its box is.
        ports: The x at which links to each of its outputs arrive.
        most_bytes: What a full bar of saved bytes means; 0 for no bars.
    """
    left, top = place.x - sketch.width / 2, place.top + sketch.outline
    y = top + PADDING + PORTS * bool(ports)
    return element(
        "g",
        element("title", Markup("\n".join(map(text, details(sketch.part))))),
        *_outlines(sketch, left, top),
        *(
            element("text", text(_port(output)), class_="port", x=x, y=top + PORTS)
            for output, x in zip(sketch.part.outputs, ports, strict=True)
        ),
        *_texts(sketch, place.x, y),
        *_bar(sketch, left, top, most_bytes),
        *(
            stub(left + sketch.width - STUB_APART * (number + 1), top + sketch.height)
            for number in range(sketch.stubs)
        ),
        class_="part",
    )


def _port(output: int) -> str:
    return "*" if output == SEVERAL else str(output)


def _outlines(sketch: Sketch, left: float, top: float) -> Iterator[Markup]:
    node = sketch.part.node
    wide, high = sketch.width, sketch.height
    corner = min(high / 2, LEAF_CORNER) if node.is_leaf else CORNER
    if sketch.part.copies > 1:
        yield behind(left, top, wide, high)
    classes = ["leaf" if node.is_leaf else "box"]
    classes += ["module"] * (sketch.part.module is not None)
    classes += [f"order-{min(node.derivative_order or 0, 3)}"] * bool(node.derivative_order)
    classes += ["freed"] * any(saved.state == "freed" for saved in sketch.part.saved)
    classes += ["modified"] * any(saved.is_modified for saved in sketch.part.saved)
    yield rect(" ".join(classes), left, top, wide, high, corner)
    if sketch.part.is_root:
        around = OUTLINE - 0.5
        wide, high = wide + 2 * around, high + 2 * around
        yield rect("root", left - around, top - around, wide, high, corner + around)


def rect(class_: str, x: float, y: float, wide: float, high: float, corner: float) -> Markup:
    """Draw a rectangle."""
    return element("rect", class_=class_, x=x, y=y, width=wide, height=high, rx=corner)


def behind(left: float, top: float, wide: float, high: float) -> Markup:
    """Draw what shows of a box behind another, for something that stands for several."""
    steps = f"h{OUTLINE:g}", f"v{high:g}", f"h{-wide:g}", f"v{-OUTLINE:g}"
    return element("path", class_="behind", d=path((left + wide, top + OUTLINE), *steps))


def _texts(sketch: Sketch, x: float, y: float) -> Iterator[Markup]:
    for line in sketch.lines:
        y += _height(line)
        if line.style == "leaf":
            wide = _width(line) + PADDING
            yield rect("leaf", x - wide / 2, y - PILL + 1.5, wide, PILL - 3, PILL / 2)
        baseline = y - (5.5 if line.style == "leaf" else 4.0)
        class_ = {} if line.style in ("fact", "leaf") else {"class_": line.style}
        yield element("text", text(line.text), x=x, y=baseline, **class_)


def _bar(sketch: Sketch, left: float, top: float, most_bytes: int) -> Iterator[Markup]:
    if sketch.nbytes:
        wide, y = sketch.width - 2 * PADDING, top + sketch.height - PADDING
        full = max(1.0, wide * sketch.nbytes / most_bytes)
        yield rect("rail", left + PADDING, y, wide, BAR, BAR / 2)
        yield rect("bar", left + PADDING, y, full, BAR, BAR / 2)


def stub(x: float, y: float) -> Markup:
    """Draw an input that needed no gradient: a way that ends at once."""
    return element("path", class_="stub", d=path((x, y), f"v{STUB_LENGTH:g}m-3.5 0h7"))
