"""Topological orders of nodes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain


def topological_order(
    successors: Sequence[Sequence[int]], priorities: Sequence[float]
) -> Iterator[int]:
    """Yield every index before those of its successors, by Kahn's algorithm.

    Of the places that may come next, that of the lowest priority does, and the first of equals.
    """
    waiting = Counter(chain.from_iterable(successors))
    ready = [(priorities[place], place) for place in range(len(successors)) if not waiting[place]]
    heapify(ready)
    while ready:
        _, place = heappop(ready)
        yield place
        for successor in successors[place]:
            waiting[successor] -= 1
            if not waiting[successor]:
                heappush(ready, (priorities[successor], successor))
