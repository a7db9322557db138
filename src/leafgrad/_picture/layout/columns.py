"""Where each track stands, from left to right."""

from bisect import bisect, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import add

from leafgrad._picture.layout.geometry import Link
from leafgrad._picture.layout.tracks import Tracks

LEFT, TRUNK, RIGHT = -1, 0, 1
GAP = 16.0
MOST_LAYERS = 8


def columns_of(links: Sequence[Link], tracks: Tracks) -> list[float]:
    """Give the x of each track: 0 for the trunk, then outwards as near to it as there is room."""
    sides = _Sides(links, tracks)
    columns = [0.0] * len(tracks.tracks)
    for half in (LEFT, RIGHT):
        edge = [*tracks.tracks[0].halves]
        for number in sides.outwards(half):
            track = tracks.tracks[number]
            span = slice(track.first, track.first + len(track.halves))
            x = max(map(add, edge[span], track.halves)) + GAP
            edge[span] = [x + wide for wide in track.halves]
            columns[number] = half * x
    return columns


class _Sides:
    """Which side of which track each track is on."""

    def __init__(self, links: Sequence[Link], tracks: Tracks) -> None:
        self.links = links
        self.tracks = tracks
        self.half = [TRUNK]
        self.branches = defaultdict[tuple[int, int], list[int]](list)
        for number in range(1, len(tracks.tracks)):
            self._hang(number)
        for siblings in self.branches.values():
            siblings[:] = self._in_layers(siblings)

    def outwards(self, half: int) -> Iterator[int]:
        """Yield the tracks of one half, each after those between it and the trunk."""
        ahead = [(number, False) for number in reversed(self.branches[TRUNK, half])]
        while ahead:
            number, is_open = ahead.pop()
            if is_open:
                yield number
                continue
            ahead += [(branch, False) for branch in reversed(self.branches[number, half])]
            ahead.append((number, True))
            ahead += [(branch, False) for branch in reversed(self.branches[number, -half])]

    def _in_layers(self, siblings: Iterable[int]) -> list[int]:
        """Put short ones before long ones, but first all that have rows of their own.

        Of several that overlap each its next, every other one then stands near the trunk, where
        they would else drift away from it like a staircase.
        """
        tracks = self.tracks.tracks
        layers: list[tuple[list[tuple[int, int]], list[int]]] = []
        for number in sorted(siblings, key=lambda number: len(tracks[number].halves)):
            first = tracks[number].first
            span = first, first + len(tracks[number].halves)
            free = (layer for layer in layers[:MOST_LAYERS] if _has_room(layer[0], span))
            taken, numbers = next(free, ([], []))
            if not numbers:
                layers.append((taken, numbers))
            insort(taken, span)
            numbers.append(number)
        return [number for _, numbers in layers for number in numbers]

    def _hang(self, number: int) -> None:
        link = self.tracks.tracks[number].link
        parent = TRUNK if link is None else self.tracks.of_box[self.links[link].source]
        side = RIGHT if link is None else self._side(link, parent, number)
        self.half.append(self.half[parent] or side)
        self.branches[parent, side].append(number)

    def _side(self, link: int, parent: int, number: int) -> int:
        """Send ways to another half on the side of that half, and keep the others in order."""
        target = self.tracks.of_box[self.links[link].target]
        here = self.half[parent]
        there = here if target in (parent, number) else self.half[target]
        if here != there:
            return -here or there
        onward = self.tracks.onward.get(self.links[link].source, link)
        return LEFT if link < onward else RIGHT


def _has_room(taken: Sequence[tuple[int, int]], span: tuple[int, int]) -> bool:
    """Say whether no row of a span is taken; spans that are taken are in order."""
    place = bisect(taken, span)
    before, after = taken[place - 1 : place], taken[place : place + 1]
    return all(stop <= span[0] for _, stop in before) and all(span[1] <= a for a, _ in after)
