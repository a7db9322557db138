"""Arrow routing: where each arrow leaves its box, bends and arrives.

The input is the layer of each box and the x of each track: ``xs[of_box[v]]`` for a box v, and
``xs[of_edge[e]]`` for the lane of an edge e that passes layers. The gap below a layer l grows with
``bend[l]``, the greatest sideways distance of the arrows in that gap::

    bottom[l] = top[l] + max(height[v] for each box v in layer l)
    top[l + 1] = bottom[l] + min(max(LEAST_GAP, bend[l] / 10), GREATEST_GAP)

An arrow u -> v has at most six points: down from u to the bottom of its layer, in a bend into the
lane, down the lane, in a bend out of it above the layer of v, and down to v. An arrow that passes
no layer has no lane. The n arrows at one side of a box are ordered by the x that they head for,
with straight arrows in the middle. Arrow i is at ::

    x + (i - middle) * min(APART, room / farthest)

Here x is the centre of the box, ``middle`` the i of the arrow there, ``room`` half the width of the
box without its margin, and ``farthest`` the greatest distance of an i from ``middle``.

Lanes are the dummy vertices of Sugiyama, Tagawa and Toda: see `layout`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from leafgrad._picture.layout.geometry import Edge, Extent, Layout, Point, Position
from leafgrad._picture.layout.layers import Layers
from leafgrad._picture.layout.tracks import Tracks

APART = 14.0
MARGIN = 8.0
LEAST_GAP = 26.0
GREATEST_GAP = 64.0
GAP_TO_BEND = 1 / 10


class Router(NamedTuple):
    """Computes the position of each box and the path of each arrow."""

    boxes: Sequence[Extent]
    edges: Sequence[Edge]
    layers: Layers
    tracks: Tracks
    xs: Sequence[float]

    def layout(self) -> Layout:
        """Return the position of each box and the path of each arrow."""
        tops, bottoms = self.layer_spans()
        positions = tuple(
            Position(x=self._x(box), top=tops[layer], layer=layer)
            for box, layer in enumerate(self.layers.layer)
        )
        rights = [at.x + box.width / 2 for at, box in zip(positions, self.boxes, strict=True)]
        lefts = [at.x - box.width / 2 for at, box in zip(positions, self.boxes, strict=True)]
        return Layout(
            positions=positions,
            paths=self.paths(positions, tops, bottoms),
            left=min([*lefts, *self.xs]),
            right=max([*rights, *self.xs]),
            height=bottoms[-1],
        )

    def layer_spans(self) -> tuple[list[float], list[float]]:
        """Return the top and the bottom y of each layer, with gaps for the bends of arrows."""
        heights = [0.0] * self.layers.count
        for box, layer in zip(self.boxes, self.layers.layer, strict=True):
            heights[layer] = max(heights[layer], box.height)
        tops, bottoms, y = [], [], 0.0
        for height, bend in zip(heights, self._bends(), strict=True):
            tops.append(y)
            y += height
            bottoms.append(y)
            y += min(max(LEAST_GAP, bend * GAP_TO_BEND), GREATEST_GAP)
        return tops, bottoms

    def _bends(self) -> list[float]:
        """Return for each layer how far the arrows below it move sideways at most."""
        bends = [0.0] * self.layers.count
        for number, edge in enumerate(self.edges):
            source, target = self._x(edge.source), self._x(edge.target)
            lane = target
            if (track := self.tracks.of_edge.get(number)) is not None:
                lane = self.xs[track]
            above, below = self.layers.layer[edge.source], self.layers.layer[edge.target] - 1
            bends[above] = max(bends[above], abs(source - lane))
            bends[below] = max(bends[below], abs(target - lane))
        return bends

    def paths(
        self, positions: Sequence[Position], tops: Sequence[float], bottoms: Sequence[float]
    ) -> tuple[tuple[Point, ...], ...]:
        """Return the points of each arrow: straight down, with a bend above and below its lane.

        A lane is the vertical line in which an arrow passes layers that it does not start or end
        in.
        """
        leave, arrive = self._leaving(), self._arriving()
        paths = []
        for number, edge in enumerate(self.edges):
            above, below = positions[edge.source], positions[edge.target]
            points = [(leave[number], above.top + self.boxes[edge.source].height)]
            points.append((leave[number], bottoms[above.layer]))
            if (lane := self.tracks.of_edge.get(number)) is not None:
                x = self.xs[lane]
                points += [(x, tops[above.layer + 1]), (x, bottoms[below.layer - 1])]
            points += [(arrive[number], tops[below.layer]), (arrive[number], below.top)]
            paths.append(tuple(dict.fromkeys(points)))
        return tuple(paths)

    def _leaving(self) -> dict[int, float]:
        """Return the x at which each arrow leaves its box."""
        leaving: dict[int, float] = {}
        for box, numbers in enumerate(self.layers.edges_from):
            aims = {number: self._aim(number, self.edges[number].target) for number in numbers}
            leaving.update(self._spread(box, aims))
        return leaving

    def _arriving(self) -> dict[int, float]:
        """Return the x at which each arrow arrives at its box; arrows in one lane share it.

        A lane is the vertical line in which arrows pass layers that they do not start or end in.
        """
        arriving: dict[int, float] = {}
        for box, numbers in enumerate(self.layers.edges_to):
            aims = {self._arrival(n): self._aim(n, self.edges[n].source) for n in numbers}
            ports = self._spread(box, aims)
            arriving.update((n, ports[self._arrival(n)]) for n in numbers)
        return arriving

    def _spread(self, box: int, aims: dict[int, float]) -> dict[int, float]:
        """Return an x for each arrow at one side of a box, with straight arrows in the middle.

        `aims` has the x that each arrow heads for.
        """
        x = self._x(box)
        order = sorted(aims, key=aims.__getitem__)
        left = sum(aim < x for aim in aims.values())
        straight = sum(aim == x for aim in aims.values())
        middle = left + (straight - 1) / 2 if straight else (len(order) - 1) / 2
        room = self.boxes[box].width / 2 - MARGIN
        farthest = max(middle, len(order) - 1 - middle)
        step = min(APART, room / max(farthest, 1))
        return {one: x + (place - middle) * step for place, one in enumerate(order)}

    def _arrival(self, number: int) -> int:
        """Return a number for where an arrow arrives; arrows in one lane share a negative one.

        A lane is the vertical line in which arrows pass layers that they do not start or end in.
        """
        lane = self.tracks.of_edge.get(number)
        return number if lane is None else -1 - lane

    def _aim(self, number: int, end: int) -> float:
        """Return the x that an arrow heads for: its lane, or the box at its other end.

        `number` is the number of the arrow, and `end` that of the box.
        """
        return self.xs[self.tracks.of_edge.get(number, self.tracks.of_box[end])]

    def _x(self, box: int) -> float:
        """Return the x of the centre of a box."""
        return self.xs[self.tracks.of_box[box]]
