"""The parts of a page: the steps that are executed, and the claims that they prove."""

import bisect
import dataclasses
import doctest
import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem to report for `line` of a page.

    Of several problems with the same `cause`, only one is reported.
    """

    line: int
    message: str
    cause: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """A `{code-cell}`: Python from `line` on, in a fence that opens on line `fence`.

    - `raises`, `warns`: the exception or warning that the cell must cause, as `Type: pattern`.
    - `may_print`: a pattern of lines that a library may write directly to the file descriptors.
    - `exception_to`: the id of a claim to which this cell shows an exception, and its name.
    - `checks`: the id of a claim for which this cell is a blind check, and the digest that the
      claim had. A blind check is written by somebody who saw only the sentence.
    """

    line: int
    fence: int
    source: str
    raises: str | None = None
    warns: str | None = None
    may_print: str | None = None
    tags: tuple[str, ...] = ()
    exception_to: tuple[str, str] | None = None
    checks: tuple[str, str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Doctest:
    """A block of `>>>` examples, executed in the page's namespace.

    If `is_code` is true, it contains the statements of a `{testcode}` instead, which must print
    `output`. `options` are flags of doctest, such as `+ELLIPSIS`. If the expression `skip_if` is
    true, the block is skipped.
    """

    line: int
    source: str
    is_code: bool = False
    output: str = ""
    output_line: int = 0
    options: tuple[str, ...] = ()
    skip_if: str = ""

    def examples(self) -> list[tuple[int, doctest.Example]]:
        """Return the examples, each with its line of the page.

        Raise ValueError if they are malformed.
        """
        if self.is_code:
            wanted = doctest.DocTestParser().get_examples(f">>> _\n{self.output}")[0]
            example = doctest.Example(self.source, self.output, wanted.exc_msg)
            return [(self.line, example)]
        examples = doctest.DocTestParser().get_examples(self.source)
        return [(self.line + example.lineno, example) for example in examples]

    def python(self) -> list[tuple[int, str]]:
        """Return the line and the code of each example, or an empty list if they are malformed."""
        try:
            return [(line, example.source) for line, example in self.examples()]
        except ValueError:
            return []


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inline:
    """An expression in a sentence, with one of two roles.

    With the role `claim`, it must be True. With the role `value`, its value becomes part of the
    sentence.
    """

    line: int
    role: str
    source: str


KINDS = ("instance", "default", "rule")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """A named sentence. All steps before the next claim or heading are its evidence.

    - `since`, `until`: it is claimed for versions of the package from `since` on and before
      `until`.
    - `kind`: one of `KINDS`.
    - `scope`: words that start with + (include a case) or - (exclude it).
    - `outside`: the words for the cases that it does not cover.
    - `exceptions`: the names of the exceptions to it that pages show.
    - `digests`: the digests that it had when blind checks of it (see `Cell`) were accepted.
    - `sources`: the documents that say the same.
    """

    line: int
    id: str
    statement: str
    kind: str | None = None
    scope: tuple[str, ...] = ()
    outside: frozenset[str] = frozenset()
    exceptions: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scope:
    """The words that include (+) or exclude (-) cases for all claims of a page."""

    line: int
    words: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Heading:
    """The start of a section, where the evidence of the claim before it ends."""

    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Escape:
    """Code that a page shows but does not execute. `because` is the reason, empty for a fence."""

    line: int
    because: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Include:
    """Another file whose `>>>` examples the page includes; it must be judged as well."""

    line: int
    file: Path


Step = Cell | Doctest | Inline
Item = Step | Claim | Heading | Escape | Include | Scope
T = TypeVar("T", bound=Item)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Page:
    """One page. `path` is the name under which it is reported.

    - `flags`, `setup`: doctest's option flags, and code that runs before the examples.
    - `module`: for a docstring, its module, whose names the examples can use.
    - `zoo`: Python code that defines the tensors, operations and modules that rules run over.
    - `checked_elsewhere`: claims of other pages for which this page has blind checks (see `Cell`).
    """

    path: str
    items: tuple[Item, ...]
    problems: tuple[Problem, ...] = ()
    flags: tuple[str, ...] = ("ELLIPSIS",)
    setup: str = ""
    module: str | None = None
    zoo: str | None = None
    checked_elsewhere: tuple[Claim, ...] = ()

    def of(self, kind: type[T]) -> tuple[T, ...]:
        """Return all items of this kind, in the order of the page."""
        return tuple(item for item in self.items if isinstance(item, kind))

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """Return the steps to execute, in the order of the page."""
        return tuple(item for item in self.items if isinstance(item, Step))

    @functools.cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Return the claims, in the order of the page."""
        return self.of(Claim)

    def span(self, claim: Claim) -> range:
        """Return the lines of a claim and its evidence, up to the next claim or heading."""
        below = bisect.bisect(self._borders, claim.line)
        return range(claim.line, [*self._borders[below : below + 1], sys.maxsize][0])

    def evidence(self, claim: Claim) -> tuple[Step, ...]:
        """Return the steps that are the evidence of a claim."""
        return self._evidence.get(claim.line, ())

    def claim_of(self, line: int) -> Claim | None:
        """Return the claim whose sentence or evidence contains a line, or None."""
        above = bisect.bisect(self._borders, line)
        return self._by_line.get(self._borders[above - 1]) if above else None

    def claim_about(self, step: Step) -> Claim | None:
        """Return the claim for which a step is a blind check (see `Cell`), or else evidence.

        Return None if there is no such claim.
        """
        checked = step.checks[0] if isinstance(step, Cell) and step.checks else None
        blind = (claim for claim in self.checked_elsewhere if claim.id == checked)
        return next(blind, self.claim_of(step.line))

    @functools.cached_property
    def _borders(self) -> list[int]:
        return sorted({item.line for item in self.items if isinstance(item, Claim | Heading)})

    @functools.cached_property
    def _by_line(self) -> Mapping[int, Claim]:
        return {claim.line: claim for claim in self.claims}

    @functools.cached_property
    def _evidence(self) -> Mapping[int, tuple[Step, ...]]:
        found: dict[int, tuple[Step, ...]] = {}
        for step in self.steps:
            if (claim := self.claim_of(step.line)) is not None:
                found[claim.line] = (*found.get(claim.line, ()), step)
        return found
