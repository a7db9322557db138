"""The paths of the modules that ran: in the user's named modules, or in the outermost module."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from weakref import ReferenceType

from torch.nn import Module

Roots = Mapping[str, Module]


class OutermostModule(NamedTuple):
    """A module that no other module called: a weak reference to it and its class name."""

    module: ReferenceType[Module]
    kind: str
    has_children: bool


class ModuleCall(NamedTuple):
    """One call of a module.

    Attributes:
        module: A weak reference to the module.
        outermost: The index of the outermost module that was running.
        path: The path of the module in the outermost module.
        unregistered_in: The calling module, if this one is no submodule of the outermost module.
        kind: The class name of the module.
    """

    module: ReferenceType[Module]
    outermost: int
    path: str
    unregistered_in: "ModuleCall | None"
    kind: str


def paths_of(
    calls: Sequence[ModuleCall], outermost: Sequence[OutermostModule], roots: Roots
) -> dict[int, str]:
    """Return the path of each call, by the `id` of the call; `calls` must be in order.

    A module inside one of the `roots`, which the user named, gets its first path there. Any other
    module gets its path in its outermost module, after that module's class name. The class name is
    left out if only one outermost module has submodules and no module is named.
    """
    named = {
        inner: join(name, path)
        for name, root in reversed([*roots.items()])
        for path, inner in reversed([*root.named_modules()])
    }
    names = [named.get(one.module()) for one in outermost]
    unnamed = [one for one, name in zip(outermost, names, strict=True) if name is None]
    models = [one for one in unnamed if one.has_children] if len(unnamed) > 1 else unnamed
    is_any_named = any(call.module() in named for call in calls)
    kinds: Counter[str] = Counter()
    for number, one in enumerate(outermost):
        if names[number] is None and (is_any_named or models != [one]):
            kinds[one.kind] += 1
            names[number] = f"{one.kind}-{kinds[one.kind]}" if kinds[one.kind] > 1 else one.kind
    paths: dict[int, str] = {}
    for call in calls:
        path = named.get(call.module())
        if path is None and call.unregistered_in is not None:
            path = join(paths[id(call.unregistered_in)], call.kind)
        elif path is None:
            path = join(names[call.outermost] or "", call.path)
        paths[id(call)] = path
    return paths


def join(outer: str, inner: str) -> str:
    """Return two paths joined by a dot; either may be empty."""
    return f"{outer}.{inner}" if outer and inner else outer or inner
