"""How a picture of a graph looks, whatever is shown of it."""

from dataclasses import dataclass
from typing import Literal, get_args

from leafgrad._graph.graph import Graph

Direction = Literal["backward", "forward"]
Color = Literal["bytes", "gradient"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What one may choose.

    Attributes:
        direction: Whether arrows lead from the root to the leaves, as the gradients go, or the
            other way, as the values do.
        color: What the colour of a box tells, if anything.
        legend: Whether the facts of the graph and the meaning of the signs stand under it.
    """

    direction: Direction = "backward"
    color: Color | None = None
    legend: bool = True

    @property
    def is_forward(self) -> bool:
        """Whether the root stands at the bottom."""
        return self.direction == "forward"

    def check(self, graph: Graph) -> None:
        """Raise for what is no choice, or none that there is for a graph."""
        if self.direction not in get_args(Direction):
            raise ValueError(
                f"direction must be 'backward' or 'forward', not {self.direction!r}; "
                "'forward' has the root at the bottom"
            )
        if self.color not in (None, *get_args(Color)):
            raise ValueError(
                f"color must be 'bytes', 'gradient' or None, not {self.color!r}; "
                "'bytes' shows what is saved, 'gradient' how large gradients are"
            )
        if self.color == "gradient" and not any(any(node.gradients) for node in graph.nodes):
            raise ValueError(
                "color='gradient' must have gradients to show, and there are none; "
                "trace with gradients=True"
            )
