"""The legend below a picture: facts about the graph, and what each sign means.

A sign is a small sample of a box, an arrow or a text of the picture, left of its meaning.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from leafgrad._display.markup import Markup, coordinate, element, path, text
from leafgrad._display.text_width import OF_LATIN, wrap
from leafgrad._graph.nodes import SavedTensor
from leafgrad._messages import message
from leafgrad._picture.box import Box, View
from leafgrad._picture.picture_style import PictureStyle
from leafgrad._picture.svg.boxes import MeasuredBox
from leafgrad._picture.svg.heat import Heat
from leafgrad._picture.svg.shapes import CORNER, head, rect
from leafgrad._picture.svg.style import FACT_SIZE

SIGN = 40.0
MIDDLE = 16.0
"""The x of the middle of a sign."""

LINE = 20.0
WIDTH = 330.0
"""The width of the legend: a phone shows it without scrolling."""

Entry = tuple[Markup, str]
"""A sign whose middle is at y = 0, and its meaning."""


class Legend(NamedTuple):
    """The SVG of a legend, with its top left corner at (0, 0), and its size."""

    markup: Markup
    width: float
    height: float


NO_LEGEND = Legend(markup=Markup(""), width=0.0, height=0.0)


def legend(
    facts: Sequence[str],
    view: View,
    measured: Sequence[MeasuredBox],
    style: PictureStyle,
    heat: Heat,
) -> Legend:
    """Return the legend of a picture: the facts, then each sign that the picture uses.

    Args:
        facts: Sentences about the graph.
        view: The boxes of the picture.
        measured: The same boxes with their text.
        style: The options of the picture.
        heat: The colours of the boxes.
    """
    letters = int(WIDTH / FACT_SIZE / OF_LATIN)
    fact_lines = [line for fact in facts for line in wrap(fact, letters)]
    entries = [*_entries(view, measured, style, heat)]
    markup = [_text(fact, 0, number * LINE) for number, fact in enumerate(fact_lines)]
    for number, (sign, meaning) in enumerate(entries):
        y = (len(fact_lines) + 0.4 + number) * LINE
        place = f"translate(0 {coordinate(y)})"
        markup.append(element("g", sign, _text(meaning, SIGN, 0), transform=place))
    lines = len(fact_lines) + 0.5 + len(entries)
    return Legend(markup=element("g", *markup), width=WIDTH, height=lines * LINE)


def _text(content: str, x: float, y: float) -> Markup:
    """Return a line of text that starts at (x, y)."""
    return element("text", text(content), class_="start", x=x, y=y + 4)


def _entries(
    view: View, measured: Sequence[MeasuredBox], style: PictureStyle, heat: Heat
) -> Iterator[Entry]:
    """Yield a sign and its meaning for each kind of box, arrow and text in the picture."""
    boxes = view
    if any(box.is_root for box in boxes):
        around = rect("root", MIDDLE - 16, -9, 32, 18, 8)
        yield Markup(rect("box", MIDDLE - 13, -6, 26, 12, CORNER) + around), message("legend.root")
    if any(box.edges for box in boxes):
        line = element("path", class_="stub", d=path((MIDDLE, -8), "v10"))
        meaning = message("legend.values" if style.is_forward else "legend.gradients")
        yield Markup(line + head(MIDDLE, 8)), meaning
    yield from _in_boxes(measured)
    yield from _of_several(boxes)
    for marks, meaning in heat.legend:
        yield _scale(marks), meaning
    yield from _alarms([saved for box in boxes for saved in box.saved if box.beyond is None])


def _in_boxes(measured: Sequence[MeasuredBox]) -> Iterator[Entry]:
    """Yield the entries for signs inside boxes: leaves, inputs, frozen parameters and numbers."""
    boxes = [one.box for one in measured]
    if any(box.node.is_leaf or box.leaves for box in boxes):
        yield _box("leaf", 8.0), message("legend.leaf")
    if any(box.input is not None for box in boxes):
        yield _box("box input", 8.0), message("legend.input")
    styles = {line.style for one in measured for line in one.lines}
    if "frozen" in styles:
        yield _box("frozen", 8.0), message("legend.frozen")
    for style in ("value", "grad"):
        if style in styles:
            yield _letters(style, style), message(f"legend.{style}")


def _of_several(boxes: Sequence[Box]) -> Iterator[Entry]:
    """Yield the entries for derivatives, modules, neighbours and repeated parts."""
    if any(box.node.derivative_order for box in boxes):
        yield _letters("∂ ∂²", "name"), message("legend.order")
    modules = [box for box in boxes if box.name is not None and box.beyond is None]
    if modules:
        is_inferred = any(node.is_module_inferred for box in modules for node in box.members)
        key = "legend.module-inferred" if is_inferred else "legend.module"
        yield _box("box module", CORNER), message(key)
    if any(box.beyond is not None for box in boxes):
        yield _box("box beyond", CORNER), message("legend.beyond")
    if any(box.copies > 1 for box in boxes):
        yield _box("block", CORNER), message("legend.copies")
        yield _letters("*", "name"), message("legend.star")


def _alarms(saved: Sequence[SavedTensor]) -> Iterator[Entry]:
    """Yield the entries for boxes whose saved tensors were freed or modified."""
    if any(one.state == "freed" for one in saved):
        yield _box("box freed", CORNER), message("legend.freed")
    if any(one.is_modified for one in saved):
        yield _box("box modified", CORNER), message("legend.modified")


def _box(class_: str, corner: float) -> Markup:
    """Return a sign for a kind of box: a small box with the CSS class of that kind."""
    return rect(class_, MIDDLE - 14, -7, 28, 14, corner)


def _letters(written: str, class_: str) -> Markup:
    """Return a sign for a kind of text: the letters `written` with the CSS class of that kind."""
    return element("text", text(written), class_=class_, x=MIDDLE, y=4)


def _scale(marks: Sequence[str]) -> Markup:
    """Return a sign for the colours of boxes: a strip of one or several colours.

    `marks` contains the CSS class of each colour.
    """
    wide = 28 / max(len(marks), 1)
    parts = enumerate(f"box {mark}" for mark in marks)
    return Markup("".join(rect(part, MIDDLE - 14 + wide * n, -7, wide, 14, 0) for n, part in parts))
