"""Brackets beside a picture: which stretches of it stand for several that follow each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from leafgrad._display.markup import Markup, coordinate, element, path, text
from leafgrad._picture.layout import Layout
from leafgrad._picture.svg.boxes import MeasuredBox
from leafgrad._picture.view import View

GAP = 14.0
TICK = 6.0
APART = 28.0
NEAR_THE_TOP = 160.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Brackets:
    """What stands to the left of a picture, and how much room it takes."""

    markup: Markup
    width: float


def brackets(view: View, measured: Sequence[MeasuredBox], layout: Layout) -> Brackets:
    """Draw a bracket for each stretch that is repeated in a row, the shortest nearest."""
    spans = {
        one.box.node.index: (position.top, position.top + one.extent().height)
        for one, position in zip(measured, layout.positions, strict=True)
    }
    rows = [r for r in view.repeats if r.in_a_row and len(r.members) > 1]
    rows.sort(key=lambda repeat: len(repeat.members))
    markup: list[Markup] = []
    for place, repeat in enumerate(rows):
        kept = [spans[member] for member in repeat.members if member in spans]
        top, bottom = min(top for top, _ in kept), max(bottom for _, bottom in kept)
        x = layout.left - GAP - place * APART
        markup += _bracket(f"×{repeat.copies} in a row", x, top, bottom)
    return Brackets(
        markup=element("g", *markup, class_="brackets"),
        width=GAP + APART * len(rows) if rows else 0.0,
    )


def _bracket(words: str, x: float, top: float, bottom: float) -> tuple[Markup, Markup]:
    line = path((x, top), f"h{-TICK:g}", f"V{coordinate(bottom)}", f"h{TICK:g}")
    seen = min((top + bottom) / 2, top + NEAR_THE_TOP)  # its middle may be screens away
    middle, beside = coordinate(seen), coordinate(x - TICK - 5)
    turned = f"translate({beside} {middle}) rotate(-90)"
    return (
        element("path", class_="stub", d=line),
        element("text", text(words), class_="name", transform=turned),
    )
