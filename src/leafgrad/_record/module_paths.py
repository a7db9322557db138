"""What modules that ran are called: their paths in what was named, or in what was called."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from weakref import ReferenceType

from torch.nn import Module

Roots = Mapping[str, Module]


class OutermostModule(NamedTuple):
    """A module that was not called by another one, and which is not kept alive."""

    module: ReferenceType[Module]
    kind: str
    has_parts: bool


class ModuleCall(NamedTuple):
    """A module that ran.

    Attributes:
        module: The module, which is not kept alive.
        outermost: The number of the outermost module at the time.
        path: Its path in that one.
        stranger_in: What called it, where it is no part of the outermost one.
    """

    module: ReferenceType[Module]
    outermost: int
    path: str
    stranger_in: "ModuleCall | None"


def paths_of(
    calls: Iterable[ModuleCall], outermost: Sequence[OutermostModule], roots: Roots
) -> dict[int, str]:
    """Give the path of each call, by its identity: within the roots for what these have.

    What they do not have goes by its path in the module that was called, which has the name of its
    class unless it is clear that it alone is meant.
    """
    calls = [*{id(call): call for call in _with_callers(calls)}.values()]
    named = {inner: join(name, path) for name, path, inner in _parts(roots)}
    tops = [named.get(one.module()) for one in outermost]  # type: ignore[arg-type]
    is_known = any(call.module() in named for call in calls)
    for number, fresh in _fallbacks(outermost, [top is None for top in tops], is_known=is_known):
        tops[number] = fresh
    paths: dict[int, str] = {}
    for call in calls:
        paths[id(call)] = _path(call, named, tops, paths)
    return paths


def _with_callers(calls: Iterable[ModuleCall]) -> Iterator[ModuleCall]:
    """Yield each call behind those that a stranger's path begins with."""
    for call in calls:
        chain = [call]
        while (caller := chain[-1].stranger_in) is not None:
            chain.append(caller)
        yield from reversed(chain)


def _path(
    call: ModuleCall,
    named: Mapping[Module, str],
    tops: Sequence[str | None],
    paths: Mapping[int, str],
) -> str:
    module = call.module()
    if module is not None and module in named:
        return named[module]
    if call.stranger_in is not None:
        return join(paths[id(call.stranger_in)], call.path.rpartition(".")[2])
    return join(tops[call.outermost] or "", call.path)


def _parts(roots: Roots) -> Iterator[tuple[str, str, Module]]:
    """Yield the modules of all roots, where one stands in several places the last place first."""
    for name, root in reversed([*roots.items()]):
        for path, inner in reversed([*root.named_modules()]):
            yield name, path, inner


def _fallbacks(
    outermost: Sequence[OutermostModule], unnamed: Sequence[bool], *, is_known: bool
) -> Iterator[tuple[int, str]]:
    """Name by their classes what the roots do not have, unless there is one that has parts."""
    numbers = [number for number, is_unnamed in enumerate(unnamed) if is_unnamed]
    with_parts = [number for number in numbers if outermost[number].has_parts]
    alone = with_parts if len(numbers) > 1 else numbers
    kinds: Counter[str] = Counter()
    for number in numbers:
        if len(alone) == 1 and number in alone and not is_known:
            yield number, ""
            continue
        kind = outermost[number].kind
        kinds[kind] += 1
        yield number, f"{kind}-{kinds[kind]}" if kinds[kind] > 1 else kind


def join(outer: str, inner: str) -> str:
    """Join two paths, of which either may be empty."""
    return f"{outer}.{inner}" if outer and inner else outer or inner
