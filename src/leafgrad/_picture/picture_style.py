"""The style of a picture: direction, colour and legend."""

from dataclasses import dataclass
from typing import Literal, get_args

from leafgrad._graph.graph import Graph
from leafgrad._messages import message

Direction = Literal["backward", "forward"]
Color = Literal["class", "bytes", "gradient"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureStyle:
    """The options of a picture: direction, colour, legend and level of detail.

    Attributes:
        direction: "backward": arrows show gradients, the root is on top. "forward": the reverse.
        color: What the colour of a box shows: the class of its module, the bytes that it saves, or
            the size of its gradient.
        legend: Whether the picture explains its signs below.
        is_brief: Whether a box shows only its name, shape, leaves and warnings.
        has_numbers: Whether a brief box also shows values and gradients.
    """

    direction: Direction = "backward"
    color: Color | None = None
    legend: bool = True
    is_brief: bool = False
    has_numbers: bool = False

    @property
    def is_forward(self) -> bool:
        """Whether arrows show values, from the inputs down to the root."""
        return self.direction == "forward"

    def check(self, graph: Graph) -> None:
        """Raise a ValueError for an unknown option, or for `color="gradient"` without gradients."""
        if self.direction not in get_args(Direction):
            raise ValueError(message("errors.picture.direction", came=self.direction))
        if self.color not in (None, *get_args(Color)):
            raise ValueError(message("errors.picture.color", came=self.color))
        if self.color == "gradient" and not any(any(node.gradients) for node in graph.nodes):
            raise ValueError(message("errors.picture.no-gradients"))
