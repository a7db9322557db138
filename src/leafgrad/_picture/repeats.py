"""The search for repeated parts: equal stretches of a sequence of boxes, which are drawn once.

Each box is a *vertex*. A *run* consists of consecutive stretches that look alike; their common
length is its *period*. Each vertex of a run equals the vertex one period earlier, and its edges
lead equally far, or to the same place after the run. The periods tried are 1 and the most frequent
distances between stretches of 1, 2, 4 or 8 equal vertices.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, zip_longest
from math import inf
from operator import sub
from typing import NamedTuple

MOST_PERIODS = 4
LEAST_SHARE = 1 / 50
LEAST_SAVING = 2
DOUBLINGS = 3
_SEVERAL = -1
"""The output number of a merged edge whose copies use different outputs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vertex:
    """A box, as the search for repeated parts sees it.

    Attributes:
        label: A value that is equal for boxes that may be drawn once.
        edges: For each edge, the place of its target in the sequence and the output that it uses.
        members: The numbers of the parts that it stands for, from the first copy to the last.
        block: The first member of the repeated part that it belongs to; None if it is in none.
    """

    label: Hashable
    edges: tuple[tuple[int, int], ...]
    members: tuple[int, ...]
    block: int | None = None


class Run(NamedTuple):
    """Consecutive equal stretches of a sequence: their start, length and number."""

    first: int
    period: int
    copies: int

    @property
    def end(self) -> int:
        """The place after the last copy."""
        return self.first + self.period * self.copies

    @property
    def saving(self) -> int:
        """The number of boxes saved if one copy is drawn for all."""
        return self.period * (self.copies - 1)

    def place_of(self, place: int) -> int:
        """Return the place that a vertex has after the fold.

        For a vertex in a later copy, it is the place of its counterpart in the first copy.
        """
        if place < self.first:
            return place
        if place >= self.end:
            return place - self.saving
        return self.first + (place - self.first) % self.period


def fold_repeats(vertices: Sequence[Vertex]) -> list[Vertex]:
    """Replace repeated parts of a picture by one copy each, and return the remaining boxes.

    A run consists of consecutive stretches of boxes that look alike. The run that saves most boxes
    is folded first. A run must save a fiftieth of all boxes, which keeps the time linear.
    """
    vertices = [*vertices]
    while run := _best_run([vertex.label for vertex in vertices], partial(_stretches, vertices)):
        vertices = _fold_run(vertices, run)
    return vertices


Stretch = tuple[int, int]
"""The start and length of a stretch whose vertices each equal the vertex one period later."""


def _best_run(
    labels: Sequence[Hashable], stretches: Callable[[int], Iterable[Stretch]]
) -> Run | None:
    """Return the run that saves most vertices, or None if all runs save too few.

    A run consists of consecutive equal stretches of vertices. Of runs that save the same number,
    return the one with the shortest period.

    Args:
        labels: A value for each vertex; equal for boxes that may be drawn once.
        stretches: A function that returns the places where a run with a given period may be.
    """
    most, best = 0, None
    for period in sorted(_periods(labels)):
        if most >= len(labels) - period:
            break  # a longer period cannot save more
        for first, length in stretches(period):
            times = length // period
            if times * period > most:
                most = times * period
                best = Run(first=first, period=period, copies=times + 1)
    return best if most >= max(LEAST_SAVING, len(labels) * LEAST_SHARE) else None


def _periods(labels: Sequence[Hashable]) -> set[int]:
    """Return candidate periods (lengths of one copy): 1, and frequent distances of equal vertices.

    `labels` has a value for each vertex; equal vertices have equal values.
    """
    looks = _number_equals(labels)
    periods = {1, *_distances(looks)}
    for doubling in range(DOUBLINGS):
        looks = _number_equals([*zip_longest(looks, looks[1 << doubling :])])
        periods.update(_distances(looks))
    return periods


def _distances(looks: Sequence[int]) -> Iterator[int]:
    """Yield the most frequent distances from a vertex to the next equal one or the second next.

    `looks` has a number for each vertex; equal vertices have equal numbers.
    """
    places = defaultdict[int, list[int]](list)
    for place, look in enumerate(looks):
        places[look].append(place)
    several = [alike for alike in places.values() if len(alike) > 1]
    near = (map(sub, alike[1:], alike) for alike in several)
    far = (map(sub, alike[2:], alike) for alike in several)
    distances = Counter(chain.from_iterable(chain(near, far)))
    yield from (distance for distance, _ in distances.most_common(MOST_PERIODS))


def _number_equals(things: Sequence[Hashable]) -> list[int]:
    """Return a number for each thing; equal things have equal numbers."""
    numbers = defaultdict[Hashable, int](count().__next__)
    return [numbers[thing] for thing in things]


def _stretches(vertices: Sequence[Vertex], period: int) -> Iterator[Stretch]:
    """Yield the longest stretches that equal the stretch one period later, as start and length.

    A stretch is a part of the sequence of vertices. The period is the length of one copy. A stretch
    ends where its copies would share a target inside the run.
    """
    first, beyond = 0, inf
    for place, (vertex, other) in enumerate(zip(vertices, vertices[period:], strict=False)):
        beyond = min(beyond, _first_common_target(vertex, other, period))
        if beyond <= place + period:
            yield first, place - first
            first, beyond = place + 1, inf
    yield first, len(vertices) - period - first


def _first_common_target(vertex: Vertex, other: Vertex, period: int) -> float:
    """Return the nearest target that two vertices share, infinity if they share none.

    The target is a place in the sequence. Return 0 if the vertices or their edges differ. `other`
    is the vertex one `period` after `vertex`.
    """
    if vertex.label != other.label or len(vertex.edges) != len(other.edges):
        return 0
    common = inf
    for (target, output), (target_of_other, output_of_other) in zip(
        vertex.edges, other.edges, strict=True
    ):
        if target == target_of_other:
            common = min(common, target)
        elif target + period != target_of_other or output != output_of_other:
            return 0
    return common


def _fold_run(vertices: Sequence[Vertex], run: Run) -> list[Vertex]:
    """Return the sequence with a run replaced by its first copy, edges redirected to that copy."""
    block = vertices[run.first].members[0]
    kept = [
        *vertices[: run.first],
        *(
            replace(_merge(vertices[place : run.end : run.period], run), block=block)
            for place in range(run.first, run.first + run.period)
        ),
        *vertices[run.end :],
    ]
    return [replace(vertex, edges=tuple(_edges_of(vertex, run))) for vertex in kept]


def _merge(alike: Sequence[Vertex], run: Run) -> Vertex:
    """Return one vertex for the equal vertices of all copies, with the edges of the last copy.

    `alike` contains these vertices. `run` describes the copies that are folded.
    """
    each = zip(*(vertex.edges for vertex in alike), strict=True)
    return Vertex(
        label=(alike[0].label, len(alike)),
        edges=tuple(chain.from_iterable(_merge_edges(edges, run) for edges in each)),
        members=tuple(member for vertex in alike for member in vertex.members),
    )


def _merge_edges(edges: Sequence[tuple[int, int]], run: Run) -> Iterator[tuple[int, int]]:
    """Yield one edge for all copies, or one for each target outside the run if they differ."""
    beyond = dict.fromkeys(target for target, _ in edges if target >= run.end)
    if len(beyond) <= 1:
        yield _merge_edge(edges, run)
        return
    for place in beyond:
        yield _merge_edge([edge for edge in edges if edge[0] == place], run)


def _merge_edge(edges: Sequence[tuple[int, int]], run: Run) -> tuple[int, int]:
    """Return the edge of the last copy, with the place that its target has after the fold.

    `edges` contains the same edge of each copy. `run` describes the copies that are folded.
    """
    target, output = edges[-1]
    is_one = len({output for _, output in edges}) == 1
    return target - run.saving if target < run.end else target, output if is_one else _SEVERAL


def _edges_of(vertex: Vertex, run: Run) -> Iterator[tuple[int, int]]:
    """Yield the edges of a vertex after the fold; edges to several copies become one.

    `run` describes the copies that are folded.
    """
    seen = set()
    for target, output in vertex.edges:
        edge = run.place_of(target), output
        is_another_copy = run.first + run.period <= target < run.end
        if not (is_another_copy and edge in seen):
            yield edge
        seen.add(edge)
