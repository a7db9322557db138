"""A world: PyTorch with one thing in it replaced."""

import dataclasses
import functools
import importlib
import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Function = Callable[..., Any]
Options = Mapping[str, Any]


def _always(_options: Options) -> bool:
    return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class World:
    """What is wrong in it and where, and how to make what is wrong out of what is right.

    `when` tells which calls could come out differently there.
    """

    name: str
    targets: tuple[str, ...]
    broken: Callable[[Any], Any]
    when: Callable[[Options], object] = _always

    def enter(self) -> None:
        """Break PyTorch, for as long as this process lives."""
        for target in self.targets:
            _replace(target, self.broken)


def collected(worlds: list[World]) -> Callable[..., Callable[[Function], Function]]:
    """Return a decorator that makes a world of a function: `@world(target, ...)`."""

    def world(
        *targets: str, when: Callable[[Options], object] = _always
    ) -> Callable[[Function], Function]:
        def add(broken: Function) -> Function:
            name = broken.__name__.replace("_", " ")
            worlds.append(World(name=name, targets=targets, broken=broken, when=when))
            return broken

        return add

    return world


def watch(worlds: Sequence[World]) -> set[str]:
    """Note from now on, in the set that is returned, the worlds that could make a difference."""
    places = defaultdict[str, list[World]](list)
    for world in worlds:
        for target in world.targets:
            places[target].append(world)
    used: set[str] = set()
    for target, there in places.items():
        _replace(target, functools.partial(_noting, there, used))
    return used


def reading(original: Any, changed: Callable[[Any], Any]) -> Any:
    """Return a method or a property as it would be if its value were `changed`."""
    if callable(original):
        return lambda *arguments, **options: changed(original(*arguments, **options))
    return property(
        lambda owner: changed(original.__get__(owner)),
        original.__set__,
        original.__delete__,
        original.__doc__,
    )


def given(function: Function, *arguments: Any, **options: Any) -> dict[str, Any]:
    """Return the value that each parameter gets in a call, as far as `function` tells."""
    try:
        return dict(inspect.signature(function).bind(*arguments, **options).arguments)
    except (TypeError, ValueError):
        return options


def _noting(worlds: Sequence[World], used: set[str], original: Any) -> Any:
    def note(options: Options) -> None:
        used.update(world.name for world in worlds if world.when(options))

    @functools.wraps(original)
    def noted(*arguments: Any, **options: Any) -> Any:
        note(given(original, *arguments, **options))
        return original(*arguments, **options)

    def read(value: Any) -> Any:
        note({})
        return value

    return noted if callable(original) else reading(original, read)


def _replace(target: str, replaced: Callable[[Any], Any]) -> None:
    path, _, name = target.rpartition(".")
    owner = _found(path)
    if hasattr(owner, name):
        setattr(owner, name, replaced(getattr(owner, name)))


def _found(path: str) -> Any:
    """Find a module, or a class in one."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        outer, _, name = path.rpartition(".")
        return getattr(importlib.import_module(outer), name)
