"""A step of a forward and backward pass, and what it changes in the picture."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["value", "start", "pass", "complete"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step of a forward and backward pass.

    Attributes:
        kind: ``"value"`` if a leaf or a result gets its value, ``"start"`` if the backward pass
            starts, ``"pass"`` if a node passes a gradient along an edge, and ``"complete"`` if all
            gradients of a leaf have arrived.
        node: The index of the node.
        edge: The position of the edge among the node's edges, for a ``"pass"``. Otherwise None.
        sentence: A sentence that describes the step.
    """

    kind: Kind
    node: int
    edge: int | None
    sentence: str


Writing = tuple[int, int, str]
"""A value to write into a box: the index of the box, the line in it, and the text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """What a step changes in the picture.

    Attributes:
        box: The index of the box to highlight.
        arrows: The indices of the arrows to highlight.
        writes: The values to write into boxes, each with its box and line (see `Writing`).
    """

    box: int
    arrows: tuple[int, ...] = ()
    writes: tuple[Writing, ...] = ()
