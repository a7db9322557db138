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
            gradients of a leaf have arrived. For a box of several nodes, a ``"pass"`` is all that
            the backward does there.
        node: The index of the node at which it happened, in a box of several nodes the last that
            ran.
        edge: Which edge of the node, for a ``"pass"``.
        sentence: What happened, in words.
        module: The path of the module whose box it is of; None where it is of a node.
    """

    kind: Kind
    node: int
    edge: int | None
    sentence: str
    module: str | None = None


Writing = tuple[int, int, str]
"""The place of a box, which of its lines of numbers is meant, and what stands there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """What lights up and what is written.

    Attributes:
        box: The place of the box that lights up.
        ways: The places of the arrows that do.
        writes: What is written where.
        norm: The norm of the gradient that arrived, where the picture is of modules.
    """

    box: int
    ways: tuple[int, ...] = ()
    writes: tuple[Writing, ...] = ()
    norm: float | None = None


Told = tuple[Step, Sign]
"""A step in words, and in the picture."""
