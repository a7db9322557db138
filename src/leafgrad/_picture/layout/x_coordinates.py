"""The x-coordinate of each track, which is a column of boxes and arrows (see `tracks`).

The trunk, the track of the longest path, is at x = 0. Every other track branches off an earlier one
to the left or to the right. On either side, the contour is the distance that the drawing reaches in
each layer; it starts as half the width of the trunk. The tracks of a side are placed from the trunk
outwards. A track that covers the layers l, with half its width in each layer in ``half[l]``, is
placed just outside the contour::

    x = max(contour[l] + half[l] for each l) + GAP
    contour[l] = x + half[l]
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import add

from leafgrad._picture.layout.geometry import Edge
from leafgrad._picture.layout.tracks import Tracks

LEFT, TRUNK, RIGHT = -1, 0, 1
GAP = 16.0


def x_coordinates(edges: Sequence[Edge], tracks: Tracks) -> list[float]:
    """Return the x of each column: 0 for the longest path, the others as near to it as possible.

    `edges` are the arrows between the boxes.
    """
    sides = _Sides(edges, tracks)
    xs = [0.0] * len(tracks.tracks)
    trunk, lowest = tracks.tracks[0], max(one.first + len(one.halves) for one in tracks.tracks)
    for half in (LEFT, RIGHT):
        contour = [0.0] * lowest
        contour[trunk.first : trunk.first + len(trunk.halves)] = trunk.halves
        for number in sides.outwards(half):
            track = tracks.tracks[number]
            span = slice(track.first, track.first + len(track.halves))
            x = max(map(add, contour[span], track.halves)) + GAP
            contour[span] = [x + wide for wide in track.halves]
            xs[number] = half * x
    return xs


class _Sides:
    """Decides on which side of its parent each column stands.

    A column's parent is the column that it branches off from.
    """

    def __init__(self, edges: Sequence[Edge], tracks: Tracks) -> None:
        self.edges = edges
        self.tracks = tracks
        self.half = [TRUNK]
        self.branches = defaultdict[tuple[int, int], list[int]](list)
        for number in range(1, len(tracks.tracks)):
            self._attach(number)
        for siblings in self.branches.values():
            siblings.sort(key=lambda number: len(tracks.tracks[number].halves))

    def outwards(self, half: int) -> Iterator[int]:
        """Yield the columns on one side of the trunk, from the inside to the outside.

        The trunk is the column of the longest path. `half` is `LEFT` or `RIGHT`.
        """
        ahead = [(number, False) for number in reversed(self.branches[TRUNK, half])]
        while ahead:
            number, is_open = ahead.pop()
            if is_open:
                yield number
                continue
            ahead += [(branch, False) for branch in reversed(self.branches[number, half])]
            ahead.append((number, True))
            ahead += [(branch, False) for branch in reversed(self.branches[number, -half])]

    def _attach(self, number: int) -> None:
        """Record which column the column `number` branches off from, and on which side.

        Also record whether it stands left or right of the trunk, the column of the longest path.
        """
        edge = self.tracks.tracks[number].edge
        parent = TRUNK if edge is None else self.tracks.of_box[self.edges[edge].source]
        side = RIGHT if edge is None else self._side(edge, parent, number)
        self.half.append(self.half[parent] or side)
        self.branches[parent, side].append(number)

    def _side(self, edge: int, parent: int, number: int) -> int:
        """Return the side on which a column branches off, if possible towards its edge's target.

        `number` is the number of the column, and `parent` that of the column it branches off from.
        """
        target = self.tracks.of_box[self.edges[edge].target]
        here = self.half[parent]
        there = here if target in (parent, number) else self.half[target]
        if here != there:
            return -here or there
        onward = self.tracks.onward.get(self.edges[edge].source, edge)
        return LEFT if edge < onward else RIGHT
