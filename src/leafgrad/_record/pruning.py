"""What a long recording may forget: everything that belongs to no living graph.

A training loop makes as many nodes as it has steps, of which a few are alive at any time. Nodes and
tensors cannot be asked to tell when they die, so a recording that has grown looks at what lives.
Each value of it has a ``prune`` of its own; here is what these ask of living nodes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from torch.autograd.graph import Node

from leafgrad import _autograd


def first_saved_versions(nodes: Sequence[Node]) -> dict[int, int]:
    """Return for each storage that nodes saved the lowest version at which one of them did."""
    lowest: dict[int, int] = {}
    with _autograd.unobserved():
        _, storages, facts, wrappers = _autograd.saved_facts(nodes, ())
    for row, (storage, told) in enumerate(zip(storages, facts, strict=True)):
        identity, saved = wrappers.get(row, storage), told[-2]
        if identity is not None and saved is not None:
            lowest[identity] = min(saved, lowest.get(identity, saved))
    return lowest


def nearest_living(
    numbers: Iterable[int], successors: Mapping[int, Iterable[int]], living: Collection[int]
) -> frozenset[int]:
    """Return the living numbers that some numbers lead to through none but dead ones."""
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
