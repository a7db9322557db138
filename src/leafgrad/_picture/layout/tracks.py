"""Tracks: straight columns of boxes and lanes, which a whole drawing is made of.

The boxes are parted into paths: from the uppermost box u that is on no track, a path goes on along
an edge to a free box until there is none::

    next(u) = the free box v of the greatest height[v] among the edges u -> v

so that the first path, the trunk, is a longest one of the graph. An edge u -> v that passes layers
by, ``layer[v] - layer[u] - 1`` of them, needs a lane there: that of its own track where the track
goes on by it, else one of its bus, which all edges to one box share.

What comes out is, for each track, half the width that it takes in each of its layers, and for each
box and each such edge the number of its track. Paths that stand upright, each with an x of its own,
are what Ortali and Tollis draw: Algorithms and Bounds for Drawing Directed Graphs, arXiv
1808.10364.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from leafgrad._picture.layout.geometry import Edge, Extent
from leafgrad._picture.layout.layers import Layers

HALF_A_LANE = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Track:
    """A straight column.

    Attributes:
        first: Its uppermost layer.
        edge: The edge by which it branches off; None where it starts with a root.
        halves: Half the width of what stands in each of its layers.
    """

    first: int
    edge: int | None
    halves: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tracks:
    """All tracks, and what runs in them.

    Attributes:
        tracks: The tracks, each after the one that it branches off from, the trunk first.
        of_box: The track of each box.
        of_edge: The track that each edge which passes layers by runs in.
        onward: The edge by which the track of a box goes on, where it does.
    """

    tracks: list[Track] = field(default_factory=list)
    of_box: dict[int, int] = field(default_factory=dict)
    of_edge: dict[int, int] = field(default_factory=dict)
    onward: dict[int, int] = field(default_factory=dict)


def tracks_of(boxes: Sequence[Extent], edges: Sequence[Edge], layers: Layers) -> Tracks:
    """Return the tracks: the longest path, the other paths from the top, then the lanes."""
    builder = _TrackBuilder(boxes, edges, layers)
    # The trunk: the longest path of the graph.
    trunk = max(range(len(boxes)), key=layers.height.__getitem__)
    # The other paths, from the uppermost box that has no track.
    for box in (trunk, *sorted(range(len(boxes)), key=layers.layer.__getitem__)):
        if box not in builder.laid.of_box:
            builder.lay_path(box)
    # A lane for each bus whose edges run in no track yet.
    for bus in builder.buses.values():
        builder.lay_lane(bus)
    return builder.laid


class _TrackBuilder:
    """Adds one track after the other. A bus holds the edges to one box, the longest first."""

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
        """Add a track from a box along the longest path of boxes without a track."""
        nearest = min(self.layers.edges_to[box], key=self._span, default=None)
        track = Track(first=self.layers.layer[box], edge=nearest)
        self.laid.tracks.append(track)
        self._settle(box, track)
        # Follow the edge to the highest free box, and its parallel edges with it.
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
        self.laid.of_box[box] = len(self.laid.tracks) - 1
        track.halves.append(self.boxes[box].width / 2)

    def _add_tail(self, box: int, track: Track) -> None:
        """Continue a track along the longest edge of its last box, if that heads its bus."""
        passing = (number for number in self.layers.edges_from[box] if self._span(number))
        heads = [number for number in passing if self._bus(number)[0] == number]
        if heads:
            onward = max(heads, key=self._span)
            self._continue(onward, self._without_track(self._bus(onward)), track)

    def lay_lane(self, bus: list[int]) -> None:
        """Add a track for the edges of a bus that run in no track yet."""
        edges = self._without_track(bus)
        if edges:
            track = Track(
                first=self.layers.layer[self.edges[edges[0]].source] + 1,
                edge=edges[0],
            )
            self.laid.tracks.append(track)
            self._pass(edges[0], edges, track)

    def _continue(self, onward: int, edges: Iterable[int], track: Track) -> None:
        self.laid.onward[self.edges[onward].source] = onward
        self._pass(onward, edges, track)

    def _pass(self, longest: int, edges: Iterable[int], track: Track) -> None:
        """Let edges run in a track as far as the longest of them."""
        passed = self._span(longest)
        track.halves.extend([HALF_A_LANE] * passed)
        self.laid.of_edge.update(dict.fromkeys(edges if passed else (), len(self.laid.tracks) - 1))

    def _without_track(self, bus: list[int]) -> list[int]:
        return [number for number in bus if number not in self.laid.of_edge]

    def _bus(self, number: int) -> list[int]:
        return self.buses[self.edges[number].target]

    def _span(self, number: int) -> int:
        """Return the number of layers between the ends of an edge."""
        edge = self.edges[number]
        return self.layers.layer[edge.target] - self.layers.layer[edge.source] - 1
