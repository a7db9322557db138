"""One step of a backward pass."""

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
"""The index of a box, the number of a line of numbers in it, and its text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """The boxes and arrows that light up, and the numbers that appear.

    Attributes:
        box: The index of the box that lights up.
        arrows: The numbers of the arrows that light up.
        writes: The numbers that appear.
    """

    box: int
    arrows: tuple[int, ...] = ()
    writes: tuple[Writing, ...] = ()
