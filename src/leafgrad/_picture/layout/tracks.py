"""Tracks: the vertical columns of boxes and arrows that make up a drawing.

The boxes are divided into paths. A path starts at the topmost box u without a track, and follows
edges to boxes without a track as far as it can::

    next(u) = the box v without a track that has the greatest height[v], among the edges u -> v

So the first path, the trunk, is a longest path of the graph. An edge u -> v that passes
``layer[v] - layer[u] - 1`` layers needs a lane there: in its own track if that continues along the
edge, else in a track shared by all edges to that box.

The result has for each track half its width in each of its layers, and for each box and each
passing edge the number of its track. Ortali and Tollis draw such vertical paths: "Algorithms and
Bounds for Drawing Directed Graphs", arXiv 1808.10364.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from leafgrad._picture.layout.geometry import Edge, Extent
from leafgrad._picture.layout.layers import Layers

HALF_A_LANE = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Track:
    """A vertical column of boxes and arrows with one x.

    Attributes:
        first: Its topmost layer.
        edge: The edge that leads to its first box from another column; None if that is a root.
        halves: For each of its layers, half the width of the box or arrow there.
    """

    first: int
    edge: int | None
    halves: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tracks:
    """All columns of a drawing, and which column each box and edge is in.

    Attributes:
        tracks: The columns, each after the column that it branches off from; the longest first.
        of_box: The column of each box.
        of_edge: The column of each edge that passes layers.
        onward: For each box, the edge by which its column continues.
    """

    tracks: list[Track] = field(default_factory=list)
    of_box: dict[int, int] = field(default_factory=dict)
    of_edge: dict[int, int] = field(default_factory=dict)
    onward: dict[int, int] = field(default_factory=dict)


def tracks_of(boxes: Sequence[Extent], edges: Sequence[Edge], layers: Layers) -> Tracks:
    """Return the columns of a drawing: the longest path, other paths, then lanes for arrows.

    `edges` are the arrows between the boxes.
    """
    builder = _TrackBuilder(boxes, edges, layers)
    trunk = max(range(len(boxes)), key=layers.height.__getitem__)
    for box in (trunk, *sorted(range(len(boxes)), key=layers.layer.__getitem__)):
        if box not in builder.laid.of_box:
            builder.lay_path(box)
    for bus in builder.buses.values():
        builder.lay_lane(bus)
    return builder.laid


class _TrackBuilder:
    """Adds one column after the other. A bus is a list of edges to one box, the longest first."""

    def __init__(self, boxes: Sequence[Extent], edges: Sequence[Edge], layers: Layers) -> None:
        self.boxes = boxes
        self.edges = edges
        self.layers = layers
        self.laid = Tracks()
        self.buses = defaultdict[int, list[int]](list)
        for number in range(len(edges)):
            if self._span(number):
                self._bus(number).append(number)
        for bus in self.buses.values():
            bus.sort(key=self._span, reverse=True)

    def lay_path(self, box: int) -> None:
        """Add a column from a box along the longest path of boxes that are in no column yet."""
        nearest = min(self.layers.edges_to[box], key=self._span, default=None)
        track = Track(first=self.layers.layer[box], edge=nearest)
        self.laid.tracks.append(track)
        self._settle(box, track)
        # Follow the edge to the box without a column that has the longest path. Edges parallel to
        # it connect the same two boxes, so they get the same column.
        while free := [
            n for n in self.layers.edges_from[box] if self.edges[n].target not in self.laid.of_box
        ]:
            onward = max(free, key=lambda n: self.layers.height[self.edges[n].target])
            parallel = (
                n for n in self.layers.edges_from[box] if self.edges[n] == self.edges[onward]
            )
            self._continue(onward, parallel, track)
            box = self.edges[onward].target
            self._settle(box, track)
        self._add_tail(box, track)

    def _settle(self, box: int, track: Track) -> None:
        """Add a box at the end of a column."""
        self.laid.of_box[box] = len(self.laid.tracks) - 1
        track.halves.append(self.boxes[box].width / 2)

    def _add_tail(self, box: int, track: Track) -> None:
        """Extend a column along the longest edge of its last box that passes layers.

        Edges to a target that a longer edge also leads to do not count.
        """
        passing = (number for number in self.layers.edges_from[box] if self._span(number))
        heads = [number for number in passing if self._bus(number)[0] == number]
        if heads:
            onward = max(heads, key=self._span)
            self._continue(onward, self._without_track(self._bus(onward)), track)

    def lay_lane(self, bus: list[int]) -> None:
        """Add a column for those edges of a bus that are in no column yet.

        A bus is a list of edges to the same box.
        """
        edges = self._without_track(bus)
        if edges:
            track = Track(
                first=self.layers.layer[self.edges[edges[0]].source] + 1,
                edge=edges[0],
            )
            self.laid.tracks.append(track)
            self._pass(edges[0], edges, track)

    def _continue(self, onward: int, edges: Iterable[int], track: Track) -> None:
        """Extend a column along an edge, together with the other edges given."""
        self.laid.onward[self.edges[onward].source] = onward
        self._pass(onward, edges, track)

    def _pass(self, longest: int, edges: Iterable[int], track: Track) -> None:
        """Assign edges to a column, and extend the column to the end of the longest edge."""
        passed = self._span(longest)
        track.halves.extend([HALF_A_LANE] * passed)
        self.laid.of_edge.update(dict.fromkeys(edges if passed else (), len(self.laid.tracks) - 1))

    def _without_track(self, bus: list[int]) -> list[int]:
        """Return the edges of a bus, which all lead to the same box, that are in no column yet."""
        return [number for number in bus if number not in self.laid.of_edge]

    def _bus(self, number: int) -> list[int]:
        """Return all edges that pass layers and lead to the same target as the edge `number`."""
        return self.buses[self.edges[number].target]

    def _span(self, number: int) -> int:
        """Return the number of layers between the ends of an edge."""
        edge = self.edges[number]
        return self.layers.layer[edge.target] - self.layers.layer[edge.source] - 1
