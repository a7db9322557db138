"""Page and records -> what is true and what is not, line by line."""

import dataclasses
import itertools
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from leafgrad.claims._asserts import asserts
from leafgrad.claims._page import Cell, Claim, Heading, Inline, Page, Problem, Step
from leafgrad.claims._record import Check, Record

_WIDTH = 160
_NEVER = "it is never evaluated"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """One claim of the page `path`: its sentence with values filled in, its checks, its truth."""

    path: str
    claim: Claim
    statement: str
    evidence: tuple[Check, ...]
    is_true: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class PageVerdict:
    """One page, judged: its claims, all its checks, and every line that is not true."""

    page: Page
    records: tuple[Record, ...]
    checks: tuple[Check, ...]
    claims: tuple[ClaimVerdict, ...]
    problems: tuple[Problem, ...]
    seconds: float

    @property
    def executed(self) -> Iterator[tuple[Step, Record]]:
        """Pair each step with its record, an empty one where the page stopped before it."""
        records = itertools.chain(self.records, itertools.repeat(Record()))
        return zip(self.page.steps, records, strict=False)


def judge(
    page: Page, records: Sequence[Record], failure: str | None, seconds: float
) -> PageVerdict:
    """Judge `page` by the records of its steps; `failure` says why some are missing."""
    checks = _merged(check for record in records for check in record.checks)
    checks += _unreached(page, records, checks)
    waiting = page.steps[len(records) :]
    problems = {
        *page.problems,
        *_stopped(waiting, failure),
        *(problem for record in records for problem in record.problems),
        *(Problem(check.line, _accusation(check)) for check in checks if not check.passed),
    }
    claims = tuple(_claims(page, records, checks, problems))
    judged = waiting[0].line if waiting else sys.maxsize
    problems.update(
        Problem(
            claim.claim.line,
            f"claim {claim.claim.id} has no evidence: nothing is checked "
            "between it and the next claim or heading",
        )
        for claim in claims
        if not claim.evidence and claim.claim.line < judged
    )
    return PageVerdict(
        page=page,
        records=tuple(records),
        checks=tuple(checks),
        claims=claims,
        problems=tuple(sorted(problems, key=lambda problem: (problem.line, problem.message))),
        seconds=seconds,
    )


def _merged(checks: Iterable[Check]) -> list[Check]:
    """Keep one check of each line, kind and text: a false one where there is one."""
    merged: dict[tuple[int, str, str], Check] = {}
    for check in checks:
        key = check.line, check.kind, check.text
        if key not in merged or merged[key].passed:
            merged[key] = check
    return list(merged.values())


def _unreached(page: Page, records: Sequence[Record], checks: list[Check]) -> list[Check]:
    """Return a false check for each assert that no step evaluated, in cells that did not break."""
    reached = {(check.line, check.text) for check in checks if check.kind == "assert"}
    return [
        Check(line=line, kind="assert", text=text, passed=False, found=_NEVER)
        for step, record in zip(page.steps, records, strict=False)
        if isinstance(step, Cell) and not record.broke
        for line, text in asserts("\n" * (step.line - 1) + step.source)
        if (line, text) not in reached
    ]


def _stopped(waiting: Sequence[Step], failure: str | None) -> Iterator[Problem]:
    if waiting:
        rest = f"; what follows it was not executed ({len(waiting) - 1})" if waiting[1:] else ""
        yield Problem(waiting[0].line, f"the page stopped here: {failure}{rest}")


def _accusation(check: Check) -> str:
    text, found = (textwrap.shorten(part, _WIDTH) for part in (check.text, check.found))
    if check.found == _NEVER:
        return f"this assert is never evaluated: {text}"
    match check.kind:
        case "output":
            return f"the page says that the output is {text!r}, but {found}"
        case "raises" | "warns":
            return f"this cell must {check.kind[:-1]} {text!r}, but it gave: {found}"
        case "example":
            return f"example is FALSE: {text}, but {found}"
        case _:
            return f"claim is FALSE: {text}" + (f", where {found}" if found else "")


def _claims(
    page: Page, records: Sequence[Record], checks: list[Check], problems: set[Problem]
) -> Iterator[ClaimVerdict]:
    borders = [item for item in page.items if isinstance(item, Claim | Heading)]
    ends = [border.line for border in borders[1:]] + [sys.maxsize]
    for border, end in zip(borders, ends, strict=False):
        if isinstance(border, Claim):
            span = range(border.line, end)
            evidence = tuple(check for check in checks if check.line in span)
            sound = not any(problem.line in span for problem in problems)
            values = _values(page, records, span)
            yield ClaimVerdict(
                path=page.path,
                claim=border,
                statement=_filled(border.statement, values),
                evidence=evidence,
                is_true=bool(evidence) and sound,
            )


def _values(page: Page, records: Sequence[Record], span: range) -> dict[str, str]:
    return {
        step.source: record.value
        for step, record in zip(page.steps, records, strict=False)
        if isinstance(step, Inline) and record.value is not None and step.line in span
    }


def _filled(statement: str, values: dict[str, str]) -> str:
    """Make a sentence that stands alone: with values in their places, and without links."""
    filled = re.sub(
        r"\{value\}`([^`]*)`", lambda role: values.get(role[1], f"`{role[1]}`"), statement
    )
    filled = re.sub(r"\{claim\}(`[^`]*`)", r"\1", filled)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", filled)
