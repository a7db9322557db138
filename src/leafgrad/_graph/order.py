"""Sort nodes topologically."""

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain


def topological_order(
    successors: Sequence[Sequence[int]], priorities: Sequence[float]
) -> Iterator[int]:
    """Yield every index before the indices of its successors (Kahn's algorithm).

    An index is ready once all its predecessors have been yielded. Of the ready ones, the one with
    the lowest priority comes first; of equal priorities, the smallest index.
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
