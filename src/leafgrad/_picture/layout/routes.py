"""Where each link leaves, bends and arrives."""

from collections.abc import Sequence
from dataclasses import dataclass

from leafgrad._picture.layout.geometry import Box, Drawing, Link, Place, Point
from leafgrad._picture.layout.layers import Rows
from leafgrad._picture.layout.tracks import Tracks

APART = 14.0
MARGIN = 8.0
LEAST_GAP = 26.0
GREATEST_GAP = 64.0
GAP_TO_BEND = 1 / 10


def routes(
    boxes: Sequence[Box],
    links: Sequence[Link],
    rows: Rows,
    tracks: Tracks,
    columns: Sequence[float],
) -> Drawing:
    """Put each box at the top of its row, in the middle of its track, and lead links between."""
    router = _Router(boxes=boxes, links=links, rows=rows, tracks=tracks, columns=columns)
    tops, bottoms = router.shelves()
    places = tuple(
        Place(x=columns[tracks.of_box[box]], top=tops[row], row=row)
        for box, row in enumerate(rows.row)
    )
    rights = [place.x + box.width / 2 for place, box in zip(places, boxes, strict=True)]
    lefts = [place.x - box.width / 2 for place, box in zip(places, boxes, strict=True)]
    return Drawing(
        places=places,
        paths=router.paths(places, tops, bottoms),
        left=min([*lefts, *columns]),
        right=max([*rights, *columns]),
        height=bottoms[-1],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Router:
    """Finds the points that each link passes."""

    boxes: Sequence[Box]
    links: Sequence[Link]
    rows: Rows
    tracks: Tracks
    columns: Sequence[float]

    def shelves(self) -> tuple[list[float], list[float]]:
        """Give the upper and the lower edge of each row, with room between for what bends there."""
        heights = [0.0] * self.rows.count
        for box, row in zip(self.boxes, self.rows.row, strict=True):
            heights[row] = max(heights[row], box.height)
        tops, bottoms, y = [], [], 0.0
        for height, bend in zip(heights, self._bends(), strict=True):
            tops.append(y)
            bottoms.append(y + height)
            y += height + min(max(LEAST_GAP, bend * GAP_TO_BEND), GREATEST_GAP)
        return tops, bottoms

    def _bends(self) -> list[float]:
        """Measure how far links go sideways below each row."""
        bends = [0.0] * self.rows.count
        for number, link in enumerate(self.links):
            source, target = self._column(link.source), self._column(link.target)
            lane = target
            if (track := self.tracks.of_link.get(number)) is not None:
                lane = self.columns[track]
            above, below = self.rows.row[link.source], self.rows.row[link.target] - 1
            bends[above] = max(bends[above], abs(source - lane))
            bends[below] = max(bends[below], abs(target - lane))
        return bends

    def paths(
        self, places: Sequence[Place], tops: Sequence[float], bottoms: Sequence[float]
    ) -> tuple[tuple[Point, ...], ...]:
        """Lead each link straight down, but for a bend above and below its lane."""
        leave, arrive = self._leaving(), self._arriving()
        paths = []
        for number, link in enumerate(self.links):
            above, below = places[link.source], places[link.target]
            points = [(leave[number], above.top + self.boxes[link.source].height)]
            points.append((leave[number], bottoms[above.row]))
            if (lane := self.tracks.of_link.get(number)) is not None:
                x = self.columns[lane]
                points += [(x, tops[above.row + 1]), (x, bottoms[below.row - 1])]
            points.append((arrive[number], below.top))
            paths.append(tuple(dict.fromkeys(points)))
        return tuple(paths)

    def _leaving(self) -> dict[int, float]:
        """Give the x at which each link leaves its box."""
        found: dict[int, float] = {}
        for box, numbers in enumerate(self.rows.links_from):
            aims = {number: self._aim(number, self.links[number].target) for number in numbers}
            found.update(self._spread(box, aims, clear=self.boxes[box].clear))
        return found

    def _arriving(self) -> dict[int, float]:
        """Give the x at which each link arrives, one for all that come down a lane."""
        found: dict[int, float] = {}
        for box, numbers in enumerate(self.rows.links_to):
            if self.boxes[box].outputs:
                found.update((n, self._port(box, self.links[n].output)) for n in numbers)
                continue
            aims = {self._way(n): self._aim(n, self.links[n].source) for n in numbers}
            ports = self._spread(box, aims, clear=0.0)
            found.update((n, ports[self._way(n)]) for n in numbers)
        return found

    def _spread(self, box: int, aims: dict[int, float], clear: float) -> dict[int, float]:
        """Spread ways over an edge: those straight on in the middle, the others on their side."""
        x = self._column(box)
        order = sorted(aims, key=aims.__getitem__)
        left = sum(aim < x for aim in aims.values())
        straight = sum(aim == x for aim in aims.values())
        middle = left + (straight - 1) / 2 if straight else (len(order) - 1) / 2
        room = self.boxes[box].width / 2 - MARGIN - clear
        farthest = max(middle, len(order) - 1 - middle)
        step = min(APART, room / max(farthest, 1))
        return {way: x + (place - middle) * step for place, way in enumerate(order)}

    def _port(self, box: int, output: int) -> float:
        width, outputs = self.boxes[box].width, self.boxes[box].outputs
        return self._column(box) + width * ((output + 0.5) / outputs - 0.5)

    def _way(self, number: int) -> int:
        """Number the ways into a box: a link's own number, or one below 0 for a whole lane."""
        lane = self.tracks.of_link.get(number)
        return number if lane is None else -1 - lane

    def _aim(self, number: int, end: int) -> float:
        """Give the x that a link comes from or goes to: its lane, or the box at its other end."""
        return self.columns[self.tracks.of_link.get(number, self.tracks.of_box[end])]

    def _column(self, box: int) -> float:
        return self.columns[self.tracks.of_box[box]]
