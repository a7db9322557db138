"""The boxes of a picture: how large each must be, and how it is drawn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leafgrad._display.markup import Markup, element, path, text
from leafgrad._display.text_width import shortened, width
from leafgrad._display.units import shape_text
from leafgrad._picture.alt_text import details
from leafgrad._picture.box_text import Line, lines, output
from leafgrad._picture.layout import Extent, Position
from leafgrad._picture.look import Direction
from leafgrad._picture.repeats import SEVERAL
from leafgrad._picture.svg.style import FACT_SIZE, NAME_SIZE, PORT_SIZE
from leafgrad._picture.view import Box

MOST_LETTERS = 44
MOST_STUBS = 3
PADDING = 9.0
LINE = 15.0
PILL = 18.0
PORTS = 11.0
PORT_RISE = 4.0
PILLS = ("leaf", "frozen")
BAR = 3.0
OUTLINE = 4.0
CORNER = 5.0
LEAF_CORNER = 24.0
STUB_APART = 9.0
STUB_LENGTH = 8.0
EDGES_APART = 8.0
MOST_FOR_EDGES = 480.0
OUTPUTS_APART = 26.0
PORT_GAP = 10.0
LABEL = 13.0
"""How much room there is under a box for the shape at its arrow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredBox:
    """A box with its text and its size.

    Attributes:
        box: The box.
        lines: What is written in it.
        width: How wide it is, without what is drawn around it.
        height: How high it is, without what is drawn around it.
        nbytes: What its bar shows that it saved; 0 for no bar.
        outline: How much is drawn around it.
        ports: What is written at the ends of the edges to each of its outputs.
        label: The shape that is written at the arrow from it, where the box does not have it.
        direction: Which way the arrows lead.
    """

    box: Box
    lines: tuple[Line, ...]
    width: float
    height: float
    nbytes: int
    outline: float
    ports: tuple[str, ...]
    label: str
    direction: Direction

    @property
    def stubs(self) -> int:
        """The number of inputs to draw that needed no gradient."""
        if self.box.name is not None or self.box.beyond is not None:
            return 0
        return min(MOST_STUBS, sum(edge.target is None for edge in self.box.node.edges))

    @property
    def is_without_gradient(self) -> bool:
        """Whether it is an input, to which no gradient goes; values come from there."""
        return self.box.given is not None and self.direction == "backward"

    @property
    def below(self) -> float:
        """The room that its label takes under it."""
        return LABEL if self.label else 0.0

    @property
    def above(self) -> float:
        """How far under its top the box begins that others stand behind."""
        return 0.0 if self.box.is_root else self.outline

    def extent(self) -> Extent:
        """Return the room that it takes in the layout."""
        return Extent(
            width=self.width + 2 * self.outline,
            height=self.height + 2 * self.outline + self.below,
            outputs=len(self.box.outputs),
            clear=self.outline + STUB_APART * self.stubs,
        )


def measure(
    box: Box, *, direction: Direction, with_kind: bool, arrivals: int, nbytes: int
) -> MeasuredBox:
    """Write a box and measure it, with a bar for so many bytes if they are not 0.

    Args:
        box: The box.
        direction: Which way the arrows lead.
        with_kind: Whether data types and devices are told.
        arrivals: How many edges lead to it.
        nbytes: How many bytes a bar shows.
    """
    made = "" if box.beyond == "user" else output(box, with_kind=with_kind)
    is_labelled = direction == "forward" and arrivals and not _comes_from_outside(box)
    label = made if is_labelled and not box.outputs and box.beyond is None else ""
    written = tuple(
        Line(text=shortened(line.text, MOST_LETTERS), style=line.style)
        for line in lines(box, made="" if label else made, direction=direction)
    )
    ports = tuple(_ports(box)) if box.outputs else ()
    apart = max((width(port, PORT_SIZE) + PORT_GAP for port in ports), default=0.0)
    for_edges = EDGES_APART * (2 + max(len(box.edges), arrivals)) + 2 * STUB_APART * MOST_STUBS
    height = sum(map(_height, written)) + 2 * PADDING
    return MeasuredBox(
        box=box,
        lines=written,
        width=max(
            max(map(_width, written)) + 2 * PADDING,
            min(for_edges, MOST_FOR_EDGES),
            max(OUTPUTS_APART, apart) * len(ports),
            2 * width(label, FACT_SIZE) + 2 * PADDING,
        ),
        height=height + (PORTS if ports else 0.0) + (2 * BAR if nbytes else 0.0),
        nbytes=nbytes,
        outline=OUTLINE if box.is_root or box.copies > 1 else 0.0,
        ports=ports,
        label=label,
        direction=direction,
    )


def _comes_from_outside(box: Box) -> bool:
    """Return whether a box stands for a tensor that no operation of the graph made."""
    return box.node.is_leaf or box.given is not None


def _ports(box: Box) -> Iterator[str]:
    """Yield the numbers of a node's outputs, and the shapes of a module's, which have none."""
    for number in box.outputs:
        if number == SEVERAL:
            yield "*"
        else:
            yield str(number) if box.name is None else shape_text(box.results[number])


def _width(line: Line) -> float:
    if line.style in PILLS:
        return width(line.text, FACT_SIZE) + PADDING
    return width(line.text, NAME_SIZE if line.style == "name" else FACT_SIZE)


def _height(line: Line) -> float:
    return PILL if line.style in PILLS else LINE


def draw(
    measured: MeasuredBox, position: Position, *, ports: Sequence[float], most_bytes: int, step: int
) -> Markup:
    """Draw a box where it belongs.

    Args:
        measured: The box.
        position: Where it is.
        ports: The x at which edges to each of its outputs arrive.
        most_bytes: What a full bar of saved bytes means; 0 for no bars.
        step: How full its colour is; 0 for none.
    """
    left, top = position.x - measured.width / 2, position.top + measured.outline
    right, bottom = left + measured.width, top + measured.height
    is_forward = measured.direction == "forward"
    first_line = top + PADDING + (PORTS if ports and not is_forward else 0.0)
    outputs = zip(measured.ports, ports, strict=True)
    at_port = bottom - PORT_RISE if is_forward else top + PORTS
    stubs = (right - STUB_APART * (number + 1) for number in range(measured.stubs))
    return element(
        "g",
        element("title", Markup("\n".join(map(text, details(measured.box))))),
        *_outlines(measured, left, top, step),
        *(element("text", text(port), class_="port", x=x, y=at_port) for port, x in outputs),
        *_texts(measured, position.x, first_line),
        *_bar(measured, left, bottom - (PORTS if ports and is_forward else 0.0), most_bytes),
        *(stub(x, top if is_forward else bottom, is_above=is_forward) for x in stubs),
        class_="part",
    )


def _outlines(measured: MeasuredBox, left: float, top: float, step: int) -> Iterator[Markup]:
    box, wide, high = measured.box, measured.width, measured.height
    corner = min(high / 2, LEAF_CORNER) if _comes_from_outside(box) else CORNER
    if box.copies > 1:
        yield behind(left, top, wide, high)
    classes = [*_classes(box), *([f"heat-{step}"] if step else [])]
    yield rect(" ".join(classes), left, top, wide, high, corner)
    if box.is_root:
        around = OUTLINE - 0.5
        wide, high = wide + 2 * around, high + 2 * around
        yield rect("root", left - around, top - around, wide, high, corner + around)


def _classes(box: Box) -> Iterator[str]:
    yield "leaf" if box.node.is_leaf else "box"
    if box.beyond is not None:
        yield "beyond"
        return
    if box.given is not None:
        yield "input"
    if box.name is not None:
        yield "module"
    if box.node.derivative_order:
        yield f"order-{min(box.node.derivative_order, 3)}"
    if any(saved.state == "freed" for saved in box.saved):
        yield "freed"
    if any(saved.is_modified for saved in box.saved):
        yield "modified"


def rect(class_: str, x: float, y: float, wide: float, high: float, corner: float) -> Markup:
    """Draw a rectangle."""
    return element("rect", class_=class_, x=x, y=y, width=wide, height=high, rx=corner)


def behind(left: float, top: float, wide: float, high: float) -> Markup:
    """Draw what shows of a box behind another, for something that stands for several."""
    steps = f"h{OUTLINE:g}", f"v{high:g}", f"h{-wide:g}", f"v{-OUTLINE:g}"
    return element("path", class_="behind", d=path((left + wide, top + OUTLINE), *steps))


def _texts(measured: MeasuredBox, x: float, y: float) -> Iterator[Markup]:
    for line in measured.lines:
        y += _height(line)
        if line.style in PILLS:
            wide = _width(line) + PADDING
            yield rect(line.style, x - wide / 2, y - PILL + 1.5, wide, PILL - 3, PILL / 2)
        baseline = y - (5.5 if line.style in PILLS else 4.0)
        class_ = {} if line.style in ("fact", *PILLS) else {"class_": line.style}
        yield element("text", text(line.text), x=x, y=baseline, **class_)


def _bar(measured: MeasuredBox, left: float, bottom: float, most_bytes: int) -> Iterator[Markup]:
    if measured.nbytes:
        wide, y = measured.width - 2 * PADDING, bottom - PADDING
        full = max(1.0, wide * measured.nbytes / most_bytes)
        yield rect("rail", left + PADDING, y, wide, BAR, BAR / 2)
        yield rect("bar", left + PADDING, y, full, BAR, BAR / 2)


def stub(x: float, y: float, *, is_above: bool = False) -> Markup:
    """Draw an input that needed no gradient at a side of a box: an edge that ends at once."""
    length = -STUB_LENGTH if is_above else STUB_LENGTH
    return element("path", class_="stub", d=path((x, y), f"v{length:g}m-3.5 0h7"))
