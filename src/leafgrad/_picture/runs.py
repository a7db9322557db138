"""Repetitions in a sequence, folded."""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

LONGEST_PERIOD = 64


class Run(NamedTuple):
    """A stretch of a sequence that repeats itself."""

    start: int
    period: int
    times: int


def runs(items: Sequence[Hashable]) -> Iterator[Run]:
    """Split a sequence into stretches that repeat themselves as often as possible.

    What does not repeat is put together until something does.
    """
    start = pending = 0
    while start < len(items):
        run = _longest(items, start)
        if run.times == 1:
            start += 1
            continue
        if pending < start:
            yield Run(pending, start - pending, 1)
        yield run
        start = pending = start + run.period * run.times
    if pending < start:
        yield Run(pending, start - pending, 1)


def _longest(items: Sequence[Hashable], start: int) -> Run:
    """Find what covers most from here on, by the shortest period."""
    best, left = Run(start, 1, 1), len(items) - start
    for period in range(1, min(LONGEST_PERIOD, left // 2) + 1):
        times = _repetitions(items, start, period)
        if times > 1 and times * period > best.times * best.period:
            best = Run(start, period, times)
        if best.times * best.period > left - period:
            break
    return best


def _repetitions(items: Sequence[Hashable], start: int, period: int) -> int:
    """Count how often the first stretch stands there in a row."""
    length = period
    while start + length < len(items) and items[start + length] == items[start + length - period]:
        length += 1
    return length // period
