"""What the execution of one step of a page leaves behind."""

import dataclasses
from typing import Any

from leafgrad.claims._page import Problem


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was compared with the truth: an assert, a pin, an exception, an example."""

    line: int
    kind: str
    text: str
    passed: bool
    found: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """One executed step: what it showed (notebook outputs), what it checked, what went wrong.

    `broke` tells of a cell that an exception ended which it did not declare. The last step of a
    page has a record of what came `after` it, when the page ended.
    """

    outputs: tuple[dict[str, Any], ...] = ()
    checks: tuple[Check, ...] = ()
    problems: tuple[Problem, ...] = ()
    value: str | None = None
    broke: bool = False
    after: "Record | None" = None
