"""What a drawing is made of."""

from dataclasses import dataclass

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """Something to place.

    Attributes:
        width: How wide it is.
        height: How high it is.
        outputs: How many ports there are at its top, at even distances, for links to arrive at;
            0 for links that arrive anywhere.
        clear: How much of each end of its lower edge links keep clear of.
    """

    width: float
    height: float
    outputs: int = 0
    clear: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A way from the bottom of one box to the top of another.

    Attributes:
        source: The number of the box that it leads from.
        target: The number of the box that it leads to, which is higher.
        output: Which port of the target it arrives at. Links to one port of one box share a lane.
    """

    source: int
    target: int
    output: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a box is.

    Attributes:
        x: Its middle, from left to right.
        top: Its upper edge; y grows downwards.
        row: Its row, counted from the top.
    """

    x: float
    top: float
    row: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """A finished drawing.

    Attributes:
        places: Where each box is.
        paths: The points that each link passes, from the source to the target: straight down
            where two share x, in a curve without overhang where not. One point where it ends.
        left: The least x of anything.
        right: The greatest x.
        height: The greatest y; the least is 0.
    """

    places: tuple[Place, ...]
    paths: tuple[tuple[Point, ...], ...]
    left: float
    right: float
    height: float
