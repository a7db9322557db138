"""Records of executed steps."""

import dataclasses
from typing import Any

from sphinx_claims._page import Problem, Step


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """A comparison: an assert, a pin, an exception or an example.

    An assert in a function stands on one `line` and may be `asked` for by another, which is the
    line whose claim it proves or refutes. One of the kind `caught` was evaluated and raised.
    What fails for the same `cause` is reported once.
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
        """The line of the page that it is evidence on."""
        return self.line if self.asked is None else self.asked


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """The record of a step: its outputs, checks and problems.

    `broke` tells of a cell that an exception ended which it did not declare. The last step of a
    page has a record of what came `after` it, when the page ended.
    """

    outputs: tuple[dict[str, Any], ...] = ()
    checks: tuple[Check, ...] = ()
    problems: tuple[Problem, ...] = ()
    value: str | None = None
    broke: bool = False
    after: "Record | None" = None


Ran = tuple[Step, Record]
"""An executed step and its record."""
