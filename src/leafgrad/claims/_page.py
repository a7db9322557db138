"""A page, as values: what it executes, and the sentences that this proves."""

import dataclasses
import sys
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something on `line` that keeps a page from being true, perhaps of one `snippet` there."""

    line: int
    message: str
    snippet: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """A `{code-cell}`: Python from `line` on, in a fence that opens on line `fence`."""

    line: int
    fence: int
    source: str
    raises: str | None = None
    warns: str | None = None
    tags: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Doctest:
    """A block of `>>>` examples, executed in the page's namespace."""

    line: int
    source: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inline:
    """An expression in a sentence: a `claim` must be True, a `value` is inserted."""

    line: int
    role: str
    source: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """A named sentence; what is executed before the next claim or heading is its evidence.

    It holds on the versions of torch from `since` on and before `until`. Its box has `said` all
    that its evidence must have the numbers of.
    """

    line: int
    id: str
    statement: str
    said: str = ""
    sources: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Heading:
    """The start of a section, where the evidence of the claim before it ends."""

    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Escape:
    """Something that looks as if it had to be proven, is not, and says why."""

    line: int
    because: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Include:
    """Another file whose `>>>` examples stand on the page; it must be judged as well."""

    line: int
    file: Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stated:
    """A number that a heading, a caption or a formula states; what is executed must show it.

    One that `is_open` may be an equation of unknowns: where nothing is executed, it is none.
    """

    line: int
    place: str
    value: float
    text: str
    is_open: bool = False


Step = Cell | Doctest | Inline
Item = Step | Claim | Heading | Escape | Include | Stated


@dataclasses.dataclass(frozen=True, kw_only=True)
class Page:
    """One page; `path` is the name under which it is reported."""

    path: str
    items: tuple[Item, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is executed, in the order of the page."""
        return tuple(item for item in self.items if isinstance(item, Step))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The named sentences, in the order of the page."""
        return tuple(item for item in self.items if isinstance(item, Claim))

    @property
    def escapes(self) -> tuple[Escape, ...]:
        """What is not proven and says why, in the order of the page."""
        return tuple(item for item in self.items if isinstance(item, Escape))

    @property
    def stated(self) -> tuple[Stated, ...]:
        """The numbers that stand outside of its claims, in the order of the page."""
        return tuple(item for item in self.items if isinstance(item, Stated))

    @property
    def includes(self) -> tuple[Include, ...]:
        """The files whose examples the page shows, in the order of the page."""
        return tuple(item for item in self.items if isinstance(item, Include))

    def span(self, claim: Claim) -> range:
        """Return the lines of a claim and its evidence: up to the next claim or heading."""
        borders = (item.line for item in self.items if isinstance(item, Claim | Heading))
        below = (line for line in borders if line > claim.line)
        return range(claim.line, min(below, default=sys.maxsize))
