"""Page and records -> what is true and what is not, line by line."""

import dataclasses
import itertools
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from sphinx_claims._executing.asserts import asserts
from sphinx_claims._judging.digest import digest
from sphinx_claims._judging.numbers import unproven_numbers
from sphinx_claims._judging.typed import typed_values
from sphinx_claims._page import Claim, Page, Problem, Step
from sphinx_claims._reading.universal import universal_word
from sphinx_claims._record import Check, Family, Ran, Record
from sphinx_claims._versions import Release, broken_bound

T = TypeVar("T")

_WIDTH = 160
_NEVER = "it is never evaluated"
_EVALUATED = frozenset({"assert", "caught"})
_SLIPS = ("NameError", "SyntaxError", "IndentationError")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """One claim of the page `path`: its sentence with values filled in, its checks, its truth.

    It is true where everything is as its page says: of one that is skipped the page says that it
    does not hold on this version of the package. The word by which it speaks of all of a kind
    is `quantifier`, and `families` are those that stand for that kind.
    """

    path: str
    claim: Claim
    statement: str
    evidence: tuple[Check, ...]
    digest: str
    is_true: bool
    is_skipped: bool = False
    quantifier: str | None = None
    families: tuple[Family, ...] = ()
    values: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)

    def in_full(self, sentence: str) -> str:
        """Make what the claim says in some language stand alone: with values, without links."""
        return _filled(sentence, self.values)

    @property
    def is_universal(self) -> bool:
        """Whether it speaks of all of a kind, by one of its words or by its own account."""
        return self.quantifier is not None or self.claim.universal is not None

    @property
    def word(self) -> str:
        """Return the word that the ledger has for the verdict."""
        if not self.is_true:
            return "false"
        return "skipped" if self.is_skipped else "true"


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
    def executed(self) -> Iterator[Ran]:
        """Pair each step with its record, an empty one where the page stopped before it."""
        records = itertools.chain(self.records, itertools.repeat(Record()))
        return zip(self.page.steps, records, strict=False)


def judge(
    page: Page,
    records: Sequence[Record],
    failure: str | None,
    seconds: float,
    release: Release | None = None,
    *,
    universal: bool = False,
) -> PageVerdict:
    """Judge `page` by the records of its steps; `failure` says why some are missing.

    If `universal` is set, a claim on all of a kind needs a family, or the reason why it has none.

    Of a claim that does not hold on this `release`, by its own words, the evidence must fail,
    and what is red there is no problem.
    """
    ran, waiting = list(zip(page.steps, records, strict=False)), page.steps[len(records) :]
    ends = [record.after for record in records if record.after is not None]
    version = None if release is None else release.version
    outside = [page.span(claim) for claim in page.claims if broken_bound(claim, version)]
    asked = [pair for pair in ran if not any(pair[0].line in span for span in outside)]
    counted = [*(record for _, record in asked), *ends]
    checks = _merged(counted) + _unreached(asked, records)
    problems = {
        *page.problems,
        *_stopped(waiting, failure),
        *(problem for record in counted for problem in record.problems),
        *(Problem(check.place, _accusation(check)) for check in checks if not check.passed),
        *unproven_numbers(page, asked, waiting),
        *typed_values(page),
    }
    claims = list(_claims(page, ran, checks, problems, version))
    stopped = {page.claim_of(step.line) for step in waiting}
    for index, verdict in enumerate(claims):
        if verdict.claim in stopped:
            continue
        problems.update(_unproven(verdict, release))
        if universal and (lacking := _without_family(verdict)):
            problems.add(lacking)
            claims[index] = dataclasses.replace(verdict, is_true=False)
    skipped = (check for verdict in claims if verdict.is_skipped for check in verdict.evidence)
    return PageVerdict(
        page=page,
        records=tuple(records),
        checks=(*checks, *skipped),
        claims=tuple(claims),
        problems=tuple(sorted(problems, key=lambda problem: (problem.line, problem.message))),
        seconds=seconds,
    )


def _merged(records: Iterable[Record]) -> list[Check]:
    """Keep one check of each line, kind and text: a false one where there is one."""
    merged: dict[tuple[int, int, str, str], Check] = {}
    for check in (check for record in records for check in record.checks):
        if check.kind == "caught":
            continue
        key = check.place, check.line, check.kind, check.text
        if key not in merged or merged[key].passed:
            merged[key] = check
    return list(merged.values())


def _unreached(ran: Sequence[Ran], records: Sequence[Record]) -> list[Check]:
    """Return a false check for each assert that no step evaluated, in cells that did not break."""
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
            unreached = _unreached(own, [record for _, record in ran])
            checked = _merged(record for _, record in own)
            evidence = (*checked, *unreached, *_exceptions(own))
        else:
            evidence = tuple(of_checks[claim])
        values = {step.source: record.value for step, record in own if record.value is not None}
        yield ClaimVerdict(
            path=page.path,
            claim=claim,
            statement=_filled(claim.statement, values),
            evidence=evidence,
            digest=digest(page, claim),
            is_true=not of_problems[claim] and (_fails(evidence) if is_skipped else bool(evidence)),
            is_skipped=is_skipped,
            quantifier=universal_word(claim.statement),
            families=tuple(family for _, record in own for family in record.families),
            values=values,
        )


def _by_claim(
    page: Page, things: Iterable[T], line: Callable[[T], int]
) -> defaultdict[Claim | None, list[T]]:
    """Group `things` by the claim in whose span their line stands."""
    found: defaultdict[Claim | None, list[T]] = defaultdict(list)
    for thing in things:
        found[page.claim_of(line(thing))].append(thing)
    return found


def _exceptions(ran: Sequence[Ran]) -> Iterator[Check]:
    """Turn what went wrong in cells that broke into false checks."""
    for _, record in ran:
        for problem in record.problems if record.broke else ():
            yield Check(line=problem.line, kind="exception", text=problem.message, passed=False)


def _fails(evidence: Sequence[Check]) -> bool:
    """Return whether the evidence shows that its claim is false, not merely that it was not asked.

    A name that nobody defined is missing on every version.
    """
    failed = (check for check in evidence if not check.passed and check.found != _NEVER)
    return any(check.kind != "exception" or not check.text.startswith(_SLIPS) for check in failed)


def _unproven(verdict: ClaimVerdict, release: Release | None) -> Iterator[Problem]:
    """Yield what is missing in the evidence of a claim when all of it was executed."""
    claim = verdict.claim
    if not verdict.evidence:
        yield Problem(
            claim.line,
            f"claim {claim.id} has no evidence: nothing is checked "
            "between it and the next claim or heading",
        )
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


def _without_family(verdict: ClaimVerdict) -> Problem | None:
    """Return what is wrong with a claim on all of a kind that has no family, if nothing else is."""
    claim = verdict.claim
    is_excused = claim.universal is not None or verdict.is_skipped or not verdict.is_true
    if verdict.quantifier is None or verdict.families or is_excused:
        return None
    says = f'{claim.id} says "{verdict.quantifier}", and no cell below runs over a family'
    cure = "mark one with :family:, or say why with :universal:"
    return Problem(claim.line, f"{says}: {cure}")


def _filled(statement: str, values: Mapping[str, str]) -> str:
    """Make a sentence that stands alone: with values in their places, and without links."""
    filled = re.sub(
        r"\{value\}`([^`]*)`", lambda role: values.get(role[1], f"`{role[1]}`"), statement
    )
    filled = re.sub(r"\{claim\}(`[^`]*`)", r"\1", filled)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", filled)
