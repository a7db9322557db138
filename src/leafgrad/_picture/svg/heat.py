"""Colour by quantity: the larger the quantity in a box, the fuller its colour."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil, log10

from leafgrad._display.units import size
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._picture.box import Box
from leafgrad._picture.box_text import arriving_norms
from leafgrad._picture.look import Color

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
        return Heat(steps=(0,) * len(boxes), meaning="bytes saved: none")
    together = ", ×n together" if any(box.copies > 1 for box in boxes) else ""
    return Heat(
        steps=tuple(ceil(STEPS * each / most) for each in nbytes),
        meaning=f"bytes saved, up to {size(most)}{together}",
    )


def _by_gradient(boxes: Sequence[Box]) -> Heat:
    """Colour boxes by the power of ten of the largest gradient norm among their copies."""
    arriving = [arriving_norms(box) for box in boxes]
    powers = [log10(norm) if (norm := max(norms, default=0.0)) else None for norms in arriving]
    known = [power for power in powers if power is not None]
    if not known:
        found = "0 everywhere" if any(arriving) else "none here"
        return Heat(steps=(0,) * len(boxes), meaning=f"gradient norm: {found}")
    most, least = max(known), min(known)
    full = (STEPS - 1) / max(most - least, LEAST_RANGE)
    return Heat(
        steps=tuple(0 if one is None else STEPS - round(full * (most - one)) for one in powers),
        meaning=f"gradient norm, {10**least:.2g} to {10**most:.2g}, in powers",
    )
