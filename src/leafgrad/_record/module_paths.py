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
    has_children: bool


class ModuleCall(NamedTuple):
    """A module that ran.

    Attributes:
        module: The module, which is not kept alive.
        outermost: The number of the outermost module at the time.
        path: Its path in that one.
        unregistered_in: What called it, where it is no submodule of the outermost one.
        kind: The name of its class.
    """

    module: ReferenceType[Module]
    outermost: int
    path: str
    unregistered_in: "ModuleCall | None"
    kind: str


def paths_of(
    calls: Iterable[ModuleCall], outermost: Sequence[OutermostModule], roots: Roots
) -> dict[int, str]:
    """Return the path of each call, by its identity: within the roots for what these have.

    Where a module stands in several places, the first counts. What the roots do not have goes by
    its path in the outermost module, which has the name of its class unless it is clear that it
    alone is meant.
    """
    calls = [*{id(call): call for call in _with_callers(calls)}.values()]
    named = {
        inner: join(name, path)
        for name, root in reversed([*roots.items()])
        for path, inner in reversed([*root.named_modules()])
    }
    names = [named.get(one.module()) for one in outermost]
    is_any_named = any(call.module() in named for call in calls)
    unnamed = [number for number, name in enumerate(names) if name is None]
    for number, name in _fallback_names(outermost, unnamed, is_any_named=is_any_named):
        names[number] = name
    paths: dict[int, str] = {}
    for call in calls:
        paths[id(call)] = _path(call, named, names, paths)
    return paths


def _with_callers(calls: Iterable[ModuleCall]) -> Iterator[ModuleCall]:
    """Yield each call, behind the callers that the path of an unregistered one begins with."""
    for call in calls:
        chain = [call]
        while (caller := chain[-1].unregistered_in) is not None:
            chain.append(caller)
        yield from reversed(chain)


def _path(
    call: ModuleCall,
    named: Mapping[Module, str],
    outermost_names: Sequence[str | None],
    paths: Mapping[int, str],
) -> str:
    module = call.module()
    if module is not None and module in named:
        return named[module]
    if call.unregistered_in is not None:
        return join(paths[id(call.unregistered_in)], call.path.rpartition(".")[2])
    return join(outermost_names[call.outermost] or "", call.path)


def _fallback_names(
    outermost: Sequence[OutermostModule], unnamed: Sequence[int], *, is_any_named: bool
) -> Iterator[tuple[int, str]]:
    """Yield a name for what the roots do not have: its class, or none if it alone is meant.

    It alone is meant where it is the only one, or the only one with children.
    """
    with_children = [number for number in unnamed if outermost[number].has_children]
    meant = with_children if len(unnamed) > 1 else unnamed
    kinds: Counter[str] = Counter()
    for number in unnamed:
        if len(meant) == 1 and number in meant and not is_any_named:
            yield number, ""
            continue
        kind = outermost[number].kind
        kinds[kind] += 1
        yield number, f"{kind}-{kinds[kind]}" if kinds[kind] > 1 else kind


def join(outer: str, inner: str) -> str:
    """Join two paths, of which either may be empty."""
    return f"{outer}.{inner}" if outer and inner else outer or inner
