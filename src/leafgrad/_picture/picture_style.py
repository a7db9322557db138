"""The style of a picture: direction, colour and legend."""

from dataclasses import dataclass
from typing import Literal, get_args

from leafgrad._graph.graph import Graph
from leafgrad._messages import message

Direction = Literal["backward", "forward"]
Color = Literal["class", "bytes", "gradient"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureStyle:
    """The style of a picture.

    Attributes:
        direction: Whether arrows lead from the root to the leaves, as the gradients go, or the
            other way, as the values do.
        color: What the colour of a box tells, if anything.
        legend: Whether the facts of the graph and the meaning of the signs stand under it.
        is_brief: Whether a box has its name, leaves and alarms only.
        has_numbers: Whether a brief box also has its values and gradients.
    """

    direction: Direction = "backward"
    color: Color | None = None
    legend: bool = True
    is_brief: bool = False
    has_numbers: bool = False

    @property
    def is_forward(self) -> bool:
        """Whether the root is at the bottom."""
        return self.direction == "forward"

    def check(self, graph: Graph) -> None:
        """Raise an error for an invalid option, or if a graph has no gradients to colour by."""
        if self.direction not in get_args(Direction):
            raise ValueError(message("errors.picture.direction", came=self.direction))
        if self.color not in (None, *get_args(Color)):
            raise ValueError(message("errors.picture.color", came=self.color))
        if self.color == "gradient" and not any(any(node.gradients) for node in graph.nodes):
            raise ValueError(message("errors.picture.no-gradients"))
