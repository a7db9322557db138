"""Families: collections over whose members the checks of a cell run, and how many they reach."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from sphinx_claims._page import Cell, Problem
from sphinx_claims._record import Family

FEWEST = 3
"""How many different members a family has at least."""

_ALIKE = ("dtype", "shape", "layout", "device", "requires_grad", "is_leaf")
"""What tells two arrays apart that print alike, as do their strides and whether they are views."""

_ASKED = ("stride", "is_inference", "_is_view", "is_conj", "is_neg")
_CURE = "assert in a loop over it, or of a comprehension over it"


class Families:
    """Which members of a family a check was evaluated for, while a cell runs."""

    def __init__(self, shown: Callable[[], int]) -> None:
        self._shown = shown
        self.begin(pinned=False)

    def begin(self, *, pinned: bool) -> None:
        """Forget all; in a cell whose output is `pinned` what is shown is checked as well."""
        self._pinned = pinned
        self._evaluated = 0
        self._lines: Counter[int] = Counter()
        self._reached: defaultdict[str, set[int]] = defaultdict(set)
        self._taken: defaultdict[str, set[int]] = defaultdict(set)
        self._waiting: defaultdict[int, list[tuple[str, set[int]]]] = defaultdict(list)
        self._now: dict[str, tuple[int, set[int]]] = {}

    def noted(self, line: int) -> None:
        """Note that the check on `line` is evaluated."""
        self._evaluated += 1
        self._lines[line] += 1
        for name, taken in self._waiting.pop(line, ()):
            self._reached[name] |= taken

    def over(
        self,
        name: str,
        lines: Collection[int],
        in_body: bool,  # noqa: FBT001 - as code is built
        values: Iterable[Any],
    ) -> Iterator[Any]:
        """Yield `values`, members of a family, and note those for which a check is evaluated."""
        taken: set[int] = set()
        for line in lines:
            self._waiting[line].append((name, taken))
        for index, value in enumerate(values):
            before = self._count()
            self._now[name] = index, taken
            if in_body:
                taken.add(index)
            try:
                yield value
            finally:
                if in_body and self._count() > before:
                    self._reached[name].add(index)

    def takes(self, name: str) -> bool:
        """Note that a comprehension makes something of the member that it is at."""
        index, taken = self._now[name]
        taken.add(index)
        return True

    def of(self, cell: Cell, namespace: Mapping[str, Any]) -> Iterator[Family | Problem]:
        """Yield the families of a cell that was executed, and what keeps others from being one."""
        for name in cell.family:
            if name not in namespace:
                wrong = f"{name} must be a collection over which the checks of this cell run"
                yield Problem(cell.fence, f":family: {wrong}, and there is no {name} after it")
                continue
            value = namespace[name]
            code = _strategy(value)
            wrong = "" if code else _unlike(value)
            reached = self._examples(code) if code else len(self._reached[name])
            if not wrong and reached < FEWEST:
                wrong = _unreached(reached, is_strategy=bool(code))
            if wrong:
                yield Problem(cell.fence, f":family: {name} {wrong}")
            else:
                yield Family(line=cell.fence, name=name, members=reached)

    def _count(self) -> int:
        return self._evaluated + (self._shown() if self._pinned else 0)

    def _examples(self, code: Any) -> int:
        """Return how often a check was evaluated in a function that a strategy calls."""
        lines = {line for _, _, line in code.co_lines() if line is not None}
        return max((self._lines[line] for line in lines), default=0)


def _strategy(value: Any) -> Any:
    """Return the code of a function that hypothesis gives its examples to; None of others."""
    inner = getattr(getattr(value, "hypothesis", None), "inner_test", None)
    return getattr(inner, "__code__", None)


def _unlike(value: Any) -> str:
    """Return why `value` is no family; nothing where it may be one."""
    is_plain = isinstance(value, str | bytes | type | Iterator) or not hasattr(value, "__len__")
    try:
        members = [] if is_plain else [*(value.items() if isinstance(value, Mapping) else value)]
    except Exception:  # noqa: BLE001 - whatever an object of the page cannot do
        is_plain = True
    if is_plain:
        return f"must be a collection, or a function under hypothesis, not {type(value).__name__}"
    split = (member if isinstance(member, tuple | list) else [member] for member in members)
    different = len({tuple(itertools.chain(*map(_traits, parts))) for parts in split})
    if different < FEWEST:
        of_which = "all alike" if different == 1 else f"of which {different} differ"
        count = f"{len(members)}, {of_which}" if different < len(members) else different
        return f"must have at least {FEWEST} members that differ, and has {count}"
    return ""


def _traits(part: Any) -> Iterator[str]:
    """Yield all that may tell a member, or a part of one, from another."""
    yield type(part).__qualname__
    yield repr(part)
    for name in _ALIKE if hasattr(part, "dtype") else ():
        yield str(getattr(part, name, None))
    for name in _ASKED if hasattr(part, "dtype") else ():
        try:
            yield str(getattr(part, name)())
        except Exception:  # noqa: BLE001 - what an array of another library cannot tell
            yield ""


def _unreached(reached: int, *, is_strategy: bool) -> str:
    what = "examples" if is_strategy else "members"
    if reached:
        return f"must have checks that run for at least {FEWEST} {what}, and they ran for {reached}"
    cure = "call it, and assert in it" if is_strategy else _CURE
    return f"must have checks that run over it, and none does: {cure}; any() asks for one alone"
