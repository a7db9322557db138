"""What a step of a backward changes in the picture."""

from dataclasses import dataclass

from leafgrad._steps.step import Step

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
