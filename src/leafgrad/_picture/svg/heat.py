"""Colour by quantity: the larger the quantity in a box, the fuller its colour."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil, log10

from leafgrad._display.units import size
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._messages import message
from leafgrad._picture.box import Box
from leafgrad._picture.box_text import arriving_norms
from leafgrad._picture.picture_style import Color

STEPS = 5
LEAST_RANGE = 1.0
"""What lies nearer together than by so many powers of ten differs less in colour than it could."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heat:
    """The colours of boxes.

    Attributes:
        steps: How full the colour of each box is, from 0 for none to `STEPS`.
        meaning: What the fullest and the palest colour stand for; empty where nothing has any.
    """

    steps: tuple[int, ...]
    meaning: str


def heat_of(boxes: Sequence[Box], color: Color | None) -> Heat:
    """Return the colours by saved bytes or by gradient norms."""
    if color == "bytes":
        return _by_bytes(boxes)
    if color == "gradient":
        return _by_gradient(boxes)
    return Heat(steps=(0,) * len(boxes), meaning="")


def _by_bytes(boxes: Sequence[Box]) -> Heat:
    """Colour boxes in proportion to the bytes that all their copies save."""
    saved = ([one for node in chain.from_iterable(b.alike) for one in node.saved] for b in boxes)
    nbytes = [*map(bytes_without_parameters, saved)]
    if not (most := max(nbytes)):
        return Heat(steps=(0,) * len(boxes), meaning=message("legend.bytes-none"))
    key = "legend.bytes-together" if any(box.copies > 1 for box in boxes) else "legend.bytes"
    return Heat(
        steps=tuple(ceil(STEPS * each / most) for each in nbytes),
        meaning=message(key, bytes=size(most)),
    )


def _by_gradient(boxes: Sequence[Box]) -> Heat:
    """Colour boxes by the power of ten of the largest gradient norm among their copies."""
    arriving = [arriving_norms(box) for box in boxes]
    powers = [log10(norm) if (norm := max(norms, default=0.0)) else None for norms in arriving]
    known = [power for power in powers if power is not None]
    if not known:
        key = "legend.norm-zero" if any(arriving) else "legend.norm-none"
        return Heat(steps=(0,) * len(boxes), meaning=message(key))
    most, least = max(known), min(known)
    full = (STEPS - 1) / max(most - least, LEAST_RANGE)
    return Heat(
        steps=tuple(0 if one is None else STEPS - round(full * (most - one)) for one in powers),
        meaning=message("legend.norm", least=10**least, most=10**most),
    )
