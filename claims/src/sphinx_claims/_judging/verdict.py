"""Judge a page: find the verdicts on its claims, and all problems of the page."""

import dataclasses
import itertools
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from sphinx_claims._executing.asserts import asserts
from sphinx_claims._judging.difference import difference
from sphinx_claims._judging.digest import digest
from sphinx_claims._judging.mentions import missing_mentions
from sphinx_claims._page import Claim, Page, Problem, Step
from sphinx_claims._record import Check, Ran, Record
from sphinx_claims._versions import Release, broken_bound

T = TypeVar("T")

_WIDTH = 160
_NEVER = "it is never evaluated"
_EVALUATED = frozenset({"assert", "caught"})
_SLIPS = ("NameError", "SyntaxError", "IndentationError")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """The verdict on a claim of the page `path`. `statement` is its sentence with values filled in.

    A claim is skipped if its version range (`since`, `until`) excludes this version of the package.
    Then its evidence must fail, because the range says that the claim does not hold.
    """

    path: str
    claim: Claim
    statement: str
    evidence: tuple[Check, ...]
    digest: str
    is_true: bool
    is_skipped: bool = False
    values: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)

    def in_full(self, sentence: str) -> str:
        """Return `sentence` with values filled in and without links.

        `sentence` is the sentence of the claim in any language.
        """
        return _fill_values(sentence, self.values)

    @property
    def word(self) -> str:
        """Return the verdict as a word: true, false or skipped."""
        if not self.is_true:
            return "false"
        return "skipped" if self.is_skipped else "true"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PageVerdict:
    """The verdict on a page: its claims, its checks and its problems."""

    page: Page
    records: tuple[Record, ...]
    checks: tuple[Check, ...]
    claims: tuple[ClaimVerdict, ...]
    problems: tuple[Problem, ...]
    seconds: float

    @property
    def executed(self) -> Iterator[Ran]:
        """Return pairs of a step and its record.

        A step that was not reached has an empty record.
        """
        records = itertools.chain(self.records, itertools.repeat(Record()))
        return zip(self.page.steps, records, strict=False)


def judge(
    page: Page,
    records: Sequence[Record],
    failure: str | None,
    seconds: float,
    release: Release | None = None,
) -> PageVerdict:
    """Return the verdict on `page` by the records of its steps.

    If records are missing, `failure` says why. If the version range of a claim excludes this
    `release`, its evidence must fail, and its failed checks are not reported.
    """
    ran, waiting = list(zip(page.steps, records, strict=False)), page.steps[len(records) :]
    ends = [record.after for record in records if record.after is not None]
    version = None if release is None else release.version
    outside = [page.span(claim) for claim in page.claims if broken_bound(claim, version)]
    asked = [pair for pair in ran if not any(pair[0].line in span for span in outside)]
    counted = [*(record for _, record in asked), *ends]
    checks = _merge_checks(counted) + _find_unreached(asked, records)
    problems = {
        *page.problems,
        *_report_stop(waiting, failure),
        *(problem for record in counted for problem in record.problems),
        *(Problem(c.place, _describe_failure(c), c.cause) for c in checks if not c.passed),
        *_find_unmentioned(page, asked, waiting),
    }
    claims = list(_judge_claims(page, ran, checks, problems, version))
    stopped = {page.claim_of(step.line) for step in waiting}
    red = {page.claim_of(problem.line) for problem in problems}
    for verdict in claims:
        if verdict.claim not in stopped and (verdict.is_skipped or verdict.claim not in red):
            problems.update(_explain_unproven(verdict, release))
    skipped = (check for verdict in claims if verdict.is_skipped for check in verdict.evidence)
    return PageVerdict(
        page=page,
        records=tuple(records),
        checks=(*checks, *skipped),
        claims=tuple(claims),
        problems=tuple(_one_per_cause(problems)),
        seconds=seconds,
    )


def _one_per_cause(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems in line order. Of those with the same cause, yield one with a count."""
    ordered = sorted(problems, key=lambda problem: (problem.line, problem.message))
    counts = Counter(problem.cause for problem in ordered if problem.cause)
    reported = set()
    for problem in ordered:
        others = counts[problem.cause] - 1
        if problem.cause in reported:
            continue
        if others > 0:
            reported.add(problem.cause)
            lines = "one more line fails" if others == 1 else f"{others} more lines fail"
            message = f"{problem.message} ({lines} for the same reason)"
            problem = dataclasses.replace(problem, message=message)  # noqa: PLW2901 - with a count
        yield problem


def _find_unmentioned(page: Page, ran: Sequence[Ran], waiting: Sequence[Step]) -> Iterator[Problem]:
    """Yield a problem for each piece of code or number in a claim that its evidence lacks.

    Claims whose evidence did not run completely are left out. `waiting` contains the steps that
    were not reached.
    """
    for claim in page.claims:
        span = page.span(claim)
        own = [(step, record) for step, record in ran if step.line in span]
        is_whole = not any(step.line in span for step in waiting)
        if own and is_whole and not any(record.broke for _, record in own):
            for text in missing_mentions(claim, own, ran):
                message = f"the sentence mentions {text}, and nothing in its evidence does"
                yield Problem(claim.line, message)


def _merge_checks(records: Iterable[Record]) -> list[Check]:
    """Return the checks of some records, those with the same line, kind and text as one check.

    The merged check is false if one of them is false.
    """
    merged: dict[tuple[int, int, str, str], Check] = {}
    for check in (check for record in records for check in record.checks):
        if check.kind == "caught":
            continue
        key = check.place, check.line, check.kind, check.text
        if key not in merged or merged[key].passed:
            merged[key] = check
    return list(merged.values())


def _find_unreached(ran: Sequence[Ran], records: Sequence[Record]) -> list[Check]:
    """Return a false check for each assert in `ran` that was never evaluated.

    `records` contains the records in which an evaluation counts.
    """
    parts = (part for record in records for part in (record, record.after) if part is not None)
    every = (check for part in parts for check in part.checks)
    reached = {(check.line, check.text) for check in every if check.kind in _EVALUATED}
    return [
        Check(line=line, kind="assert", text=text, passed=False, found=_NEVER)
        for step, record in ran
        if not record.broke
        for line, text in asserts(step)
        if (line, text) not in reached
    ]


def _report_stop(waiting: Sequence[Step], failure: str | None) -> Iterator[Problem]:
    if waiting:
        rest = f"; what follows it was not executed ({len(waiting) - 1})" if waiting[1:] else ""
        yield Problem(waiting[0].line, f"the page stopped here: {failure}{rest}")


def _describe_failure(check: Check) -> str:
    text, found = (textwrap.shorten(part, _WIDTH) for part in (check.text, check.found))
    if check.found == _NEVER:
        return f"this assert is never evaluated: {text}"
    compared = difference(check.expected, check.found)
    match check.kind:
        case "output":
            return f"the output is not what the page says\n{compared}"
        case "raises" | "warns":
            return f"this cell does not do what :{check.kind}: says\n{compared}"
        case "example":
            return f"example is FALSE: {text}\n{compared}"
        case "rule":
            return f"rule is FALSE: {check.text}: {check.found}"
        case _:
            return f"claim is FALSE: {text}" + (f", where {found}" if found else "")


def _judge_claims(
    page: Page,
    ran: Sequence[Ran],
    checks: Sequence[Check],
    problems: set[Problem],
    version: str | None,
) -> Iterator[ClaimVerdict]:
    of_steps = _by_claim(page, ran, lambda pair: pair[0].line)
    of_checks = _by_claim(page, checks, lambda check: check.place)
    of_problems = _by_claim(page, problems, lambda problem: problem.line)
    for claim in page.claims:
        own = of_steps[claim]
        is_skipped = broken_bound(claim, version) is not None
        if is_skipped:
            unreached = _find_unreached(own, [record for _, record in ran])
            checked = _merge_checks(record for _, record in own)
            evidence = (*checked, *unreached, *_exceptions(own))
        else:
            evidence = tuple(of_checks[claim])
        values = {step.source: record.value for step, record in own if record.value is not None}
        yield ClaimVerdict(
            path=page.path,
            claim=claim,
            statement=_fill_values(claim.statement, values),
            evidence=evidence,
            digest=digest(page, claim),
            is_true=not of_problems[claim] and (_fails(evidence) if is_skipped else bool(evidence)),
            is_skipped=is_skipped,
            values=values,
        )


def _by_claim(
    page: Page, things: Iterable[T], line: Callable[[T], int]
) -> defaultdict[Claim | None, list[T]]:
    """Return `things` grouped by the claim whose span contains their line, which `line` returns.

    The span of a claim is its lines and those of its evidence.
    """
    found: defaultdict[Claim | None, list[T]] = defaultdict(list)
    for thing in things:
        found[page.claim_of(line(thing))].append(thing)
    return found


def _exceptions(ran: Sequence[Ran]) -> Iterator[Check]:
    """Yield a false check for each exception that ended a cell."""
    for _, record in ran:
        for problem in record.problems if record.broke else ():
            yield Check(line=problem.line, kind="exception", text=problem.message, passed=False)


def _fails(evidence: Sequence[Check]) -> bool:
    """Return whether a check of a skipped claim failed because of the version.

    A mistake in the page does not count. For example, an undefined name fails on every version.
    """
    failed = (check for check in evidence if not check.passed and check.found != _NEVER)
    return any(check.kind != "exception" or not check.text.startswith(_SLIPS) for check in failed)


def _explain_unproven(verdict: ClaimVerdict, release: Release | None) -> Iterator[Problem]:
    """Yield a problem if the evidence, which ran, does not support the claim or its versions.

    `release` is the release of the package; None if no package is configured.
    """
    claim = verdict.claim
    if not verdict.evidence:
        yield Problem(
            claim.line,
            f"claim {claim.id} has no evidence: nothing is checked "
            "between it and the next claim or heading",
        )
    elif claim.kind == "rule" and all(check.kind != "rule" for check in verdict.evidence):
        yield Problem(claim.line, "a rule must be shown by @for_all over what its sentence names")
    elif release and verdict.is_skipped and not _fails(verdict.evidence):
        slips = [check for check in verdict.evidence if check.kind == "exception"]
        for slip in slips:
            yield Problem(slip.line, f"{slip.text}: that it is false here is shown by no such slip")
        if not slips:
            yield Problem(
                claim.line,
                f"claim {claim.id} holds on {release} too: "
                f"`:{broken_bound(claim, release.version)}:` is wrong or its evidence is too weak",
            )


def _fill_values(statement: str, values: Mapping[str, str]) -> str:
    """Return a sentence with the values of its `{value}` roles filled in, and without links."""
    filled = re.sub(
        r"\{value\}`([^`]*)`", lambda role: values.get(role[1], f"`{role[1]}`"), statement
    )
    filled = re.sub(r"\{claim\}(`[^`]*`)", r"\1", filled)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", filled)
