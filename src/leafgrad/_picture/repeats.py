"""Repeats in a graph: stretches of alike nodes, of which one is enough to see."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, zip_longest
from math import inf

MOST_PERIODS = 4
LEAST_SHARE = 1 / 50
LEAST_SAVING = 2
DOUBLINGS = 3
SEVERAL = -1
"""The output of a way that stands for ways to several outputs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Knot:
    """A node as far as repeats go.

    Attributes:
        label: What makes it like others.
        ways: The places of the later knots that it leads to, each with the output that it means.
        twins: The numbers of the nodes that it stands for, from the first to the last.
    """

    label: Hashable
    ways: tuple[tuple[int, int], ...]
    twins: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeat:
    """A stretch that stands for several alike.

    Attributes:
        numbers: The first of the twins of each knot in it.
        copies: How many stretches there were.
        in_a_row: Whether one led to the next.
    """

    numbers: tuple[int, ...]
    copies: int
    in_a_row: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """Copies of a stretch, one right after the other; `slack` knots more go on like them."""

    first: int
    period: int
    copies: int
    slack: int

    @property
    def end(self) -> int:
        return self.first + self.period * self.copies

    @property
    def saving(self) -> int:
        return self.period * (self.copies - 1)

    def home(self, place: int) -> int:
        """Give the place that a knot, or its twin in the first copy, has after the fold."""
        if place < self.first:
            return place
        if place >= self.end:
            return place - self.saving
        return self.first + (place - self.first) % self.period


def folded(knots: Sequence[Knot]) -> tuple[list[Knot], list[Repeat]]:
    """Keep the first of each series of alike stretches, the greatest saving first.

    Only what saves a fiftieth of the knots is worth a fold, which keeps the time linear.
    """
    knots, repeats = [*knots], []
    while run := _best_run(knots):
        knots, repeat = _fold(knots, run)
        repeats.append(repeat)
    return knots, repeats


def _best_run(knots: Sequence[Knot]) -> _Run | None:
    """Find the run that saves most, if it is worth it; the shorter period where two are equal."""
    runs = [run for period in _periods(knots) for run in _runs(knots, period)]
    best = max(runs, key=lambda run: (run.saving, -run.period), default=None)
    worth = max(LEAST_SAVING, len(knots) * LEAST_SHARE)
    return None if best is None or best.saving < worth else _at_its_waist(knots, best)


def _periods(knots: Sequence[Knot]) -> set[int]:
    """Guess periods: the most frequent distances between places that look alike for a while."""
    looks = _numbered([knot.label for knot in knots])
    periods = {*_distances(looks)}
    for doubling in range(DOUBLINGS):
        looks = _numbered([*zip_longest(looks, looks[1 << doubling :])])
        periods.update(_distances(looks))
    return periods


def _distances(looks: Sequence[int]) -> Iterator[int]:
    """Yield the most frequent distances from a place to the next like it and the one after."""
    places = defaultdict[int, list[int]](list)
    for place, look in enumerate(looks):
        places[look].append(place)
    near = (b - a for alike in places.values() for a, b in pairwise(alike))
    far = (b - a for alike in places.values() for a, b in zip(alike, alike[2:], strict=False))
    yield from (distance for distance, _ in Counter([*near, *far]).most_common(MOST_PERIODS))


def _numbered(things: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(thing, len(numbers)) for thing in things]


def _runs(knots: Sequence[Knot], period: int) -> Iterator[_Run]:
    """Yield the runs of one period; whatever their copies have in common lies beyond their end."""
    first, beyond = 0, inf
    for place, (knot, other) in enumerate(zip(knots, knots[period:], strict=False)):
        beyond = min(beyond, _common(knot, other, period))
        if beyond <= place + period:
            yield from _run(first, place, period)
            first, beyond = place + 1, inf
    yield from _run(first, len(knots) - period, period)


def _common(knot: Knot, other: Knot, period: int) -> float:
    """Give the first place that both lead to, or 0 where they are not alike."""
    if knot.label != other.label or len(knot.ways) != len(other.ways):
        return 0
    common = inf
    for (target, output), (target_of_other, output_of_other) in zip(
        knot.ways, other.ways, strict=True
    ):
        if target == target_of_other:
            common = min(common, target)
        elif target + period != target_of_other or output != output_of_other:
            return 0
    return common


def _run(first: int, stop: int, period: int) -> Iterator[_Run]:
    alike = stop - first
    if alike >= period:
        yield _Run(first=first, period=period, copies=alike // period + 1, slack=alike % period)


def _at_its_waist(knots: Sequence[Knot], run: _Run) -> _Run:
    """Shift a run so that as little as possible leads from one copy to the next."""
    nearest = [*range(len(knots))]
    for place, knot in enumerate(knots):
        for target, _ in knot.ways:
            nearest[target] = min(nearest[target], place)
    changes = Counter(place + 1 for place in nearest)
    changes.subtract(range(1, len(knots) + 1))
    widths = [*accumulate(changes[place] for place in range(len(knots) + 1))]
    shift = min(range(run.slack + 1), key=lambda shift: widths[run.first + run.period + shift])
    return replace(run, first=run.first + shift)


def _fold(knots: Sequence[Knot], run: _Run) -> tuple[list[Knot], Repeat]:
    """Let the first copy lead where the last one does, and lead to it what leads to any."""
    second = run.first + run.period
    stretch = knots[run.first : second]
    repeat = Repeat(
        numbers=tuple(knot.twins[0] for knot in stretch),
        copies=run.copies,
        in_a_row=any(second <= way[0] < run.end for knot in stretch for way in knot.ways),
    )
    kept = [
        *knots[: run.first],
        *(_merged(knots[place : run.end : run.period], run) for place in range(run.first, second)),
        *knots[run.end :],
    ]
    return [replace(knot, ways=tuple(_ways(knot, run))) for knot in kept], repeat


def _merged(alike: Sequence[Knot], run: _Run) -> Knot:
    """Let one stand for all, with the ways of the last, but for those within its own copy."""
    return Knot(
        label=(alike[0].label, len(alike)),
        ways=tuple(_merged_way(ways, run) for ways in zip(*(k.ways for k in alike), strict=True)),
        twins=tuple(twin for knot in alike for twin in knot.twins),
    )


def _merged_way(ways: Sequence[tuple[int, int]], run: _Run) -> tuple[int, int]:
    target, output = ways[-1]
    is_one = len({output for _, output in ways}) == 1
    return target - run.saving if target < run.end else target, output if is_one else SEVERAL


def _ways(knot: Knot, run: _Run) -> Iterator[tuple[int, int]]:
    """Yield the ways of a knot after the fold, those to several copies once."""
    seen = set()
    for target, output in knot.ways:
        way = run.home(target), output
        is_another_copy = run.first + run.period <= target < run.end
        if not (is_another_copy and way in seen):
            yield way
        seen.add(way)
