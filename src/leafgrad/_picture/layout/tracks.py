"""Tracks: straight columns of boxes and lanes, which a whole drawing is made of."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from leafgrad._picture.layout.geometry import Box, Link
from leafgrad._picture.layout.layers import Rows

HALF_A_LANE = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Track:
    """A straight column.

    Attributes:
        first: Its uppermost row.
        link: The link by which it branches off; None where it starts with a root.
        halves: Half the width of what stands in each of its rows.
    """

    first: int
    link: int | None
    halves: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tracks:
    """All tracks, and who is on them.

    Attributes:
        tracks: The tracks, each after the one that it branches off from, the trunk first.
        of_box: The track of each box.
        of_link: The track that each link which passes rows by runs in.
        onward: The link by which the track of a box goes on, where it does.
    """

    tracks: list[Track] = field(default_factory=list)
    of_box: dict[int, int] = field(default_factory=dict)
    of_link: dict[int, int] = field(default_factory=dict)
    onward: dict[int, int] = field(default_factory=dict)


def tracks_of(boxes: Sequence[Box], links: Sequence[Link], rows: Rows) -> Tracks:
    """Take the longest path as the trunk, then path by path from the top, then the lanes left."""
    layer = _Layer(boxes, links, rows)
    for box in sorted(range(len(boxes)), key=rows.row.__getitem__):
        if box not in layer.laid.of_box:
            layer.lay_path(box)
    for bus in layer.buses.values():
        layer.lay_lane(bus)
    return layer.laid


class _Layer:
    """Lays one track after the other."""

    def __init__(self, boxes: Sequence[Box], links: Sequence[Link], rows: Rows) -> None:
        self.boxes = boxes
        self.links = links
        self.rows = rows
        self.laid = Tracks()
        self.buses = defaultdict[tuple[int, int], list[int]](list)
        for number in range(len(links)):
            if self._passed(number):
                self._bus(number).append(number)
        for bus in self.buses.values():
            bus.sort(key=self._passed, reverse=True)

    def lay_path(self, box: int) -> None:
        """Lay a track from a box on, along the longest way that is free, to its end and beyond."""
        nearest = min(self.rows.links_to[box], key=self._passed, default=None)
        track = Track(first=self.rows.row[box], link=nearest)
        self.laid.tracks.append(track)
        self._settle(box, track)
        while ways := [*self._free_ways(box)]:
            onward, target = max(ways, key=lambda way: self.rows.fall[way[1]])
            parallel = (n for n in self.rows.links_from[box] if self.links[n] == self.links[onward])
            self._go_on(onward, parallel, track)
            self._settle(target, track)
            box = target
        self._add_tail(box, track)

    def _settle(self, box: int, track: Track) -> None:
        self.laid.of_box[box] = len(self.laid.tracks) - 1
        track.halves.append(self.boxes[box].width / 2)

    def _free_ways(self, box: int) -> Iterator[tuple[int, int]]:
        for number in self.rows.links_from[box]:
            if self.links[number].target not in self.laid.of_box:
                yield number, self.links[number].target

    def _add_tail(self, box: int, track: Track) -> None:
        """Let the longest link of a last box go on in its track, if it heads its bus."""
        passing = (number for number in self.rows.links_from[box] if self._passed(number))
        heads = [number for number in passing if self._bus(number)[0] == number]
        if heads:
            onward = max(heads, key=self._passed)
            self._go_on(onward, self._homeless(self._bus(onward)), track)

    def lay_lane(self, bus: list[int]) -> None:
        """Lay a track for nothing but those links of a bus that have none yet."""
        links = self._homeless(bus)
        if links:
            track = Track(first=self.rows.row[self.links[links[0]].source] + 1, link=links[0])
            self.laid.tracks.append(track)
            self._pass(links[0], links, track)

    def _go_on(self, onward: int, links: Iterable[int], track: Track) -> None:
        self.laid.onward[self.links[onward].source] = onward
        self._pass(onward, links, track)

    def _pass(self, longest: int, links: Iterable[int], track: Track) -> None:
        """Let links run in the track as far as the longest of them does."""
        passed = self._passed(longest)
        track.halves.extend([HALF_A_LANE] * passed)
        self.laid.of_link.update(dict.fromkeys(links if passed else (), len(self.laid.tracks) - 1))

    def _homeless(self, bus: list[int]) -> list[int]:
        return [number for number in bus if number not in self.laid.of_link]

    def _bus(self, number: int) -> list[int]:
        link = self.links[number]
        return self.buses[link.target, link.output]

    def _passed(self, number: int) -> int:
        """Count the rows that a link passes by."""
        link = self.links[number]
        return self.rows.row[link.target] - self.rows.row[link.source] - 1
