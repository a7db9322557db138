"""The colours of boxes: by class of module, by bytes saved, or by gradient norm."""

from collections.abc import Iterator, Sequence
from itertools import chain
from math import ceil, log10
from typing import NamedTuple

from leafgrad._display.units import size
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._messages import message
from leafgrad._picture.box import Box
from leafgrad._picture.box_text import arriving_norms, operation_name
from leafgrad._picture.picture_style import Color
from leafgrad._picture.svg.style import HUES

STEPS = 5
LEAST_RANGE = 1.0
"""The least range of the gradient scale in powers of ten, so that nearly equal norms look alike."""

SCALE = tuple(f"heat-{step}" for step in range(1, STEPS + 1))


class Heat(NamedTuple):
    """The colours of all boxes, and what the colours mean.

    Attributes:
        marks: The CSS class of the colour of each box; "" for no colour.
        legend: Pairs of CSS classes and what these colours mean.
    """

    marks: tuple[str, ...]
    legend: tuple[tuple[tuple[str, ...], str], ...] = ()


def heat_of(boxes: Sequence[Box], color: Color | None, hues: dict[str, str]) -> Heat:
    """Return the colours of boxes.

    `hues` maps class names to colours and grows, so that a class has one colour in all views.
    `color` is what the colours show; None for boxes without a colour.
    """
    if color == "class":
        return _by_class(boxes, hues)
    if color == "bytes":
        return _by_bytes(boxes)
    if color == "gradient":
        return _by_gradient(boxes)
    return Heat(marks=("",) * len(boxes))


def _by_class(boxes: Sequence[Box], hues: dict[str, str]) -> Heat:
    """Return colours of modules by their class, or of operations by name if no box is a module."""
    names = [*_class_names(boxes)]
    for name in reversed(names):  # This is the order of the forward pass.
        if name and name not in hues:
            hues[name] = f"hue-{len(hues) + 1}" if len(hues) < len(HUES) else ""
    legend = (((hues[name],), name) for name in dict.fromkeys(names[::-1]) if hues.get(name))
    return Heat(marks=tuple(hues.get(name, "") for name in names), legend=tuple(legend))


def _class_names(boxes: Sequence[Box]) -> Iterator[str]:
    """Yield for each box the class of its module, or the name of its operation; "" for none."""
    has_modules = any(box.module for box in boxes if not box.beyond)
    for box in boxes:
        is_operation = not (has_modules or box.name or box.node.is_leaf or box.input)
        name = operation_name(box.node, "forward") if is_operation else ""
        yield box.module.class_name if box.module else name


def _by_bytes(boxes: Sequence[Box]) -> Heat:
    """Return colours by the bytes that all copies of a box save for backward."""
    saved = ([one for node in chain.from_iterable(b.alike) for one in node.saved] for b in boxes)
    nbytes = [*map(bytes_without_parameters, saved)]
    if not (most := max(nbytes)):
        return _uncoloured(boxes, "bytes-none")
    key = "legend.bytes-together" if any(box.copies > 1 for box in boxes) else "legend.bytes"
    return _scaled([ceil(STEPS * each / most) for each in nbytes], message(key, bytes=size(most)))


def _by_gradient(boxes: Sequence[Box]) -> Heat:
    """Return colours by the logarithm of the largest gradient norm of a box."""
    arriving = [arriving_norms(box) for box in boxes]
    powers = [log10(norm) if (norm := max(norms, default=0.0)) else None for norms in arriving]
    known = [power for power in powers if power is not None]
    if not known:
        return _uncoloured(boxes, "norm-zero" if any(arriving) else "norm-none")
    most, least = max(known), min(known)
    full = (STEPS - 1) / max(most - least, LEAST_RANGE)
    return _scaled(
        [0 if one is None else STEPS - round(full * (most - one)) for one in powers],
        message("legend.norm", least=10**least, most=10**most),
    )


def _scaled(steps: Sequence[int], meaning: str) -> Heat:
    """Return colours for boxes on a scale of five steps, 0 for no colour."""
    marks = tuple(f"heat-{step}" if step else "" for step in steps)
    return Heat(marks=marks, legend=((SCALE, meaning),))


def _uncoloured(boxes: Sequence[Box], key: str) -> Heat:
    """Return no colours, and a legend entry that says why there are none."""
    return Heat(marks=("",) * len(boxes), legend=(((), message(f"legend.{key}")),))
