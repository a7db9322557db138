"""A step of a forward and backward pass, and what it changes in the picture."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["value", "start", "pass", "complete"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One thing that happened.

    Attributes:
        kind: ``"value"``: an operation made something, or a leaf holds it; ``"start"``: a backward
            starts; ``"pass"``: a node passes a gradient on along an edge; ``"complete"``: all
            gradients of a leaf have arrived.
        node: The index of the node at which it happened.
        edge: Which edge of the node, for a ``"pass"``.
        sentence: What happened, in words.
    """

    kind: Kind
    node: int
    edge: int | None
    sentence: str


Writing = tuple[int, int, str]
"""A number to show: the index of its box, its line there, and the text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """What a step changes in the picture.

    Attributes:
        box: The index of the box to highlight.
        arrows: The numbers of the arrows to highlight.
        writes: The numbers to show.
    """

    box: int
    arrows: tuple[int, ...] = ()
    writes: tuple[Writing, ...] = ()
