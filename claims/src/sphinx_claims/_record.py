"""The records of executed steps: their outputs, checks and problems.

A step of a page is a cell, an example or an expression in a sentence.
"""

import dataclasses
from typing import Any, Self

from sphinx_claims._page import Problem, Step


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """A comparison that a step made: an assert, a `#>` line, an exception or an example.

    If an assert is in a function, `line` is its own line, and `asked` is the line that called the
    function. The check is evidence for the claim of the calling line. A check of the kind `caught`
    was evaluated and raised an error. Failures with the same `cause` are reported once.
    """

    line: int
    kind: str
    text: str
    passed: bool
    expected: str = ""
    found: str = ""
    cause: str = ""
    asked: int | None = None

    @property
    def place(self) -> int:
        """Return the line whose claim this check is evidence for."""
        return self.line if self.asked is None else self.asked

    def as_caught(self) -> Self:
        """Return a copy of a false check that was only evaluated, because its error is expected."""
        return dataclasses.replace(self, kind="caught", passed=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """The record of a step: its outputs, checks and problems.

    `broke` is True if an undeclared exception ended the cell. For the last step of a page, `after`
    is the record of the exit functions and finalizers that ran when the page ended.
    """

    outputs: tuple[dict[str, Any], ...] = ()
    checks: tuple[Check, ...] = ()
    problems: tuple[Problem, ...] = ()
    value: str | None = None
    broke: bool = False
    after: "Record | None" = None


Ran = tuple[Step, Record]
"""An executed step and its record."""
