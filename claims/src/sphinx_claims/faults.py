"""What mutation plants beneath the evidence of a claim: one thing of a package, replaced.

A claim whose evidence comes out the same whether or not the package works has proven nothing.
`faults = "docs/_faults.py"` in `[tool.claims]` names a module of Python that lists such faults:

    import math

    from sphinx_claims.faults import Faults

    FAULTS = Faults()

    @FAULTS.replace("math.sqrt")
    def roots_are_off_by_one_percent(sqrt):
        return lambda number: 1.01 * sqrt(number)

The function takes what stands at each target and returns what stands there once the fault is
planted; its name says what is wrong then. `claims mutate` plants each fault in a copy of the
page's process, before the evidence of every claim that calls or reads one of its targets.

Beside `FAULTS` the module may hold `SUBJECTS`, a tuple of types: where the evidence of a claim
uses a value `x` of one of them that was made above it, it is executed with `x + 1` as well.

A fault that a claim does not notice is a gap where the sentence names what is broken: `said` is a
regular expression that such a sentence matches. One of an `operation` tells each time that it was
met, by `met(changed=...)`: then the prover knows one that never made a difference.
"""

import dataclasses
import functools
import importlib
import importlib.util
import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Function = Callable[..., Any]
Options = Mapping[str, Any]


def _always(_options: Options) -> bool:
    return True


def _at_once(_value: Any, use: Callable[[], None]) -> None:
    use()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong and where, and how to make what is wrong out of what is right.

    A target is the dotted path of a function, or of a method or property of a class, and
    `replaced` is called with what stands there. One that does not exist, in another version of
    the package, is left out. `when` tells which calls could come out differently, by the options
    that they are given, and `after` whether it was met: it gets the value that they return, and
    something to call once that value makes a difference.

    Sentences that match `said` name what is broken. Faults of one `operation` break the same thing,
    and tell with `met` whether they made a difference; what `may_be_right` may make none, though
    another value would not either.
    """

    name: str
    targets: tuple[str, ...]
    replaced: Callable[[Any], Any]
    when: Callable[[Options], object] = _always
    after: Callable[[Any, Callable[[], None]], None] = _at_once
    said: str | None = None
    operation: str | None = None
    may_be_right: bool = False

    def plant(self) -> None:
        """Break the package, for as long as this process lives."""
        for target in self.targets:
            _replace(target, self.replaced)


class Faults(list[Fault]):
    """The faults of a module, each made of a function by `replace`."""

    def replace(
        self,
        *targets: str,
        when: Callable[[Options], object] = _always,
        said: str | None = None,
    ) -> Callable[[Function], Function]:
        """Return a decorator that adds a fault of the name of a function, words for underscores."""

        def add(replaced: Function) -> Function:
            name = replaced.__name__.replace("_", " ")
            self.append(Fault(name=name, targets=targets, replaced=replaced, when=when, said=said))
            return replaced

        return add


_MET: set[bool] = set()


def met(*, changed: bool) -> None:
    """Let a fault of an operation tell that it was met, and whether it made a difference there."""
    _MET.add(changed)


def differences() -> frozenset[bool]:
    """Return what the planted fault has told: nothing if it was never met."""
    return frozenset(_MET)


def read_faults(file: Path | None) -> tuple[Sequence[Fault], tuple[type, ...]]:
    """Execute a module; return its faults and the types of its subjects, none without a file."""
    if file is None:
        return (), ()
    spec = importlib.util.spec_from_file_location("claims_faults", file)
    if spec is None or spec.loader is None:
        raise ValueError(f"faults must be a module of Python (.py), not {file}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    faults, subjects = vars(module).get("FAULTS"), vars(module).get("SUBJECTS", ())
    if not isinstance(faults, Sequence):
        raise ValueError(f"{file} must hold FAULTS, as in FAULTS = Faults()")  # noqa: TRY004 - the value is the user's, in a file
    return faults, subjects


def watch(faults: Sequence[Fault]) -> set[str]:
    """Note from now on, in the set that is returned, the faults that could make a difference."""
    places = defaultdict[str, list[Fault]](list)
    for fault in faults:
        for target in fault.targets:
            places[target].append(fault)
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


def _noting(faults: Sequence[Fault], used: set[str], original: Any) -> Any:
    def note(options: Options, value: Any) -> Any:
        for fault in faults:
            if fault.name not in used and fault.when(options):
                fault.after(value, functools.partial(used.add, fault.name))
        return value

    @functools.wraps(original)
    def noted(*arguments: Any, **options: Any) -> Any:
        return note(
            given(original, *arguments, **options) if has_when else {},
            original(*arguments, **options),
        )

    def read(value: Any) -> Any:
        return note({}, value)

    has_when = any(fault.when is not _always for fault in faults)

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
