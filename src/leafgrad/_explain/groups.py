"""Names in few words: by module where many stand together."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from leafgrad._picture.view import NUMBER, merge_names

Item = TypeVar("Item")


def grouped(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    """Return the items with equal keys together, in the order in which the keys come first."""
    groups = defaultdict[Hashable, list[Item]](list)
    for item in items:
        groups[key(item)].append(item)
    return [*groups.values()]


def names_in_words(names: Sequence[str], kind: str = "parameters") -> str:
    """Return up to three names as they are, more of them by number and module.

    A star stands for each number in which modules differ that are otherwise called the same.
    """
    if len(names) <= MAX_NAMES:
        *first, last = names
        return f"{', '.join(first)} and {last}" if first else last
    groups = grouped(names, lambda name: NUMBER.sub("*", _module(name)))
    places = [merge_names([*map(_module, group)]) for group in groups]
    if len(groups) > MAX_ALIKE:
        groups = grouped(names, lambda name: name.partition(".")[0] if "." in name else "")
        places = [*map(_place, groups)]
    if len(places) == 1:
        inside = f" of {places[0]}" if places[0] else ""
        return f"{len(names)} {kind}{inside} ({names[0]}, ..., {names[-1]})"
    counts = [
        f"{place or 'around them'} ({len(group)})"
        for place, group in zip(places, groups, strict=True)
    ]
    more = len(counts) - MAX_MODULES
    listed = ", ".join(counts[:MAX_MODULES]) + (f" and {more} more" if more > 0 else "")
    return f"{len(names)} {kind} of the modules {listed}"


MAX_NAMES = 3
MAX_ALIKE = 3
MAX_MODULES = 6


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _place(names: Sequence[str]) -> str:
    """Return the path of the innermost module that has all of these."""
    paths = [name.split(".")[:-1] for name in names]
    common = []
    for parts in zip(*paths, strict=False):
        if len({*parts}) > 1:
            break
        common.append(parts[0])
    return ".".join(common)
