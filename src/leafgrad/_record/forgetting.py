"""What a long recording may forget: everything that belongs to no living graph.

A training loop makes as many nodes as it has steps, of which a few are alive at any time. Nodes and
tensors cannot be asked to tell when they die, so a recording that has grown looks at what lives.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leafgrad import _autograd

if TYPE_CHECKING:
    from leafgrad._record.cuts import Losses
    from leafgrad._record.log import Log


def forget(log: "Log") -> None:
    """Let go of what no question about a living graph can lead to.

    The first entry of each line and of each module stays, as it tells that these ran.
    """
    nodes, living = _autograd.living_graph()
    numbers = sorted(number for number in living if number >= 0)
    log.spans[:] = _spans(log.spans, numbers)
    log.modules[:] = _modules(log, numbers)
    log.given[:] = [call for call in log.given if _is_any(numbers, call[0], call[1])]
    log.passes.spans[:] = _spans(log.passes.spans, numbers)
    log.writes[:] = _writes(log.writes, _versions(nodes))
    for place in [place for place in log.values if place[0] not in living]:
        del log.values[place]
    log.known.clear()  # code that is gone may have had the identity of what comes
    log.uses.forget_what_is_gone()
    _forget_cuts(log.losses, living)


def _spans(spans: Iterable[Any], numbers: Sequence[int]) -> list[Any]:
    """Keep the spans of numbers in which there is a living one, and the first of each place."""
    first: dict[object, Any] = {}
    return [
        span
        for span in spans
        if first.setdefault(span[2], span) is span or _is_any(numbers, span[0], span[1])
    ]


def _is_any(numbers: Sequence[int], start: int, stop: int) -> bool:
    """Say whether one of the sorted numbers is in a span."""
    after = bisect_left(numbers, start)
    return after < len(numbers) and numbers[after] < stop


def _modules(log: "Log", numbers: Sequence[int]) -> list[Any]:
    """Keep what went on while a living node was made, the first of each module, and the last."""
    first: dict[object, Any] = {}
    events = log.modules
    ends = [start for start, _ in events[1:]]
    kept = [
        event
        for event, end in zip(events, ends, strict=False)
        if first.setdefault(_kind_of(log, event[1]), event) is event
        or _is_any(numbers, event[0], end)
    ]
    return [*kept, *events[-1:]]


def _kind_of(log: "Log", call: Any) -> object:
    """Tell modules apart while they live; of those that are gone one stands for all of a kind."""
    if call is None or call.module() is not None:
        return id(call)
    return log.outermost[call.outermost].kind, call.path


def _versions(nodes: Sequence[Any]) -> dict[int, int]:
    """Tell for each storage that nodes saved the lowest version at which one of them did."""
    lowest: dict[int, int] = {}
    with _autograd.unobserved():
        rows = _autograd.read_saved(nodes, ())
    for row in rows:
        identity, saved = row.written, row.saved_version
        if identity is not None and saved is not None:
            lowest[identity] = min(saved, lowest.get(identity, saved))
    return lowest


def _writes(writes: Iterable[Any], versions: Mapping[int, int]) -> list[Any]:
    """Keep the writes into what a living node has saved before."""
    return [
        (storage, write)
        for storage, write in writes
        if storage in versions and write.version_after > versions[storage]
    ]


def _forget_cuts(losses: "Losses", living: Collection[int]) -> None:
    """Let cuts lead to what lives, and take those for one that are alike then.

    They keep their numbers, so that whoever knows some of these is told the same.
    """
    successors = losses.skeleton.successors
    ends = _leading(successors, living)
    alike: dict[object, int] = {}
    first: dict[int, int] = {}
    for number, (cut, behind) in enumerate(losses.cuts):
        kept = cut, ends(behind)
        first[number] = alike.setdefault((kept, number in losses.inside), number)
        losses.cuts[number] = losses.cuts[first[number]] if first[number] < number else kept
    for number in [number for number in successors if number not in living]:
        del successors[number]
    losses.inside.intersection_update(first.values())

    def renumbered(cuts: Iterable[int]) -> frozenset[int]:
        return frozenset(map(first.__getitem__, cuts))

    for identity, (tensor, cuts, may_get_graph) in [*losses.touched.items()]:
        losses.touched[identity] = tensor, renumbered(cuts), may_get_graph
    for identity, (storage, cuts) in [*losses.memory.items()]:
        losses.memory[identity] = storage, renumbered(cuts)
        if storage.expired():
            del losses.memory[identity]


def _leading(
    successors: Mapping[int, Iterable[int]], living: Collection[int]
) -> Callable[[Iterable[int]], frozenset[int]]:
    """Give what finds the nearest living numbers that some numbers lead to."""

    def ends(numbers: Iterable[int]) -> frozenset[int]:
        found: set[int] = set()
        ahead, seen = [*numbers], set[int]()
        while ahead:
            number = ahead.pop()
            if number in living:
                found.add(number)
            elif number not in seen:
                seen.add(number)
                ahead += successors.get(number, ())
        return frozenset(found)

    return ends
