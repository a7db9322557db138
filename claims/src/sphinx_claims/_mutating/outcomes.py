"""What became of the mutants of each claim, and whether the claim can fail at all."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from sphinx_claims._config import TABLE, Config
from sphinx_claims._judging.report import counted
from sphinx_claims._mutating.causes import CAUSES, sort_of, things_of
from sphinx_claims._page import Claim, Problem

OF_SUBJECT = frozenset({"fault", "subject"})
"""The groups of mutants that change what a claim is about."""

ALIVE = "alive"
"""How a mutant ends when the claim stays true; else: check, crash, died or time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MutantOutcome:
    """One mutant in words, of the group check, subject, fault or value, and how it ended.

    `false` are the lines of the checks that noticed it, and `cause` is why none did, by the values
    `of` what they compare. What it changes of all that the sentence names is `said`, and
    `is_shown` what stands in a cell without a check of its own.
    """

    line: int
    group: str
    words: str
    end: str
    false: tuple[int, ...] = ()
    cause: str = ""
    of: str = ""
    said: tuple[str, ...] = ()
    is_shown: bool = False

    @property
    def survived(self) -> bool:
        """Whether the claim is true in spite of it."""
        return self.end == ALIVE

    @property
    def sort(self) -> str:
        """Whether it is killed, or else equivalent, outside of what is claimed, or a gap."""
        return sort_of(self.cause) if self.survived else "killed"

    @property
    def why(self) -> str:
        """Why no check noticed it."""
        return CAUSES[self.cause][1] + (f" of {self.of}" if self.of else "")


def noticed_elsewhere(outcomes: Sequence[MutantOutcome]) -> Iterator[MutantOutcome]:
    """Yield the outcomes, with another cause for what needs to be noticed in one place only.

    That is a number of the sentence, and what is named in a cell that shows and does not check.
    """
    noticed = {
        thing
        for mutant in outcomes
        if mutant.group == "subject" and mutant.end == "check"
        for thing in things_of(mutant.said)
    }
    for mutant in outcomes:
        things = things_of(mutant.said)
        is_enough = mutant.is_shown or not any(isinstance(thing, str) for thing in things)
        if mutant.cause == "named" and is_enough and things and things <= noticed:
            yield dataclasses.replace(mutant, cause="elsewhere")
        else:
            yield mutant


@dataclasses.dataclass(frozen=True, kw_only=True)
class MutatedClaim:
    """One claim and the outcomes of its mutants; `fault` is what keeps it from having any."""

    claim: Claim
    digest: str = ""
    fault: str | None = None
    outcomes: tuple[MutantOutcome, ...] = ()

    @property
    def killed(self) -> int:
        """How many of the mutants did not survive."""
        return sum(not mutant.survived for mutant in self.outcomes)

    @property
    def can_fail(self) -> bool:
        """Whether some change of its subject makes one of its checks fail."""
        return any(mutant.group in OF_SUBJECT and mutant.end == "check" for mutant in self.outcomes)

    def count(self, sort: str) -> int:
        """Count the mutants of a sort."""
        return sum(mutant.sort == sort for mutant in self.outcomes)

    @property
    def survivors(self) -> Iterator[Problem]:
        """The changes that it does not notice, each with its cause."""
        for mutant in self.outcomes:
            if mutant.survived and mutant.group != "check":
                told = f"{mutant.words} ({mutant.sort}: {mutant.why})"
                found = f"claim {self.claim.id} does not notice {told}"
                yield Problem(mutant.line, found)

    @property
    def gaps(self) -> Iterator[Problem]:
        """The changes that it ought to notice and does not, with the reason if it has one."""
        reason = self.claim.unnoticed
        end = "" if reason is None else f" (unnoticed: {reason})"
        return (
            Problem(mutant.line, f"gap in claim {self.claim.id}: {mutant.words}: {mutant.why}{end}")
            for mutant in self.outcomes
            if mutant.sort == "gap" and mutant.group != "check"
        )

    @property
    def unnoticed(self) -> Iterator[tuple[int, str]]:
        """Its gaps in words, each with its distance from the line of the claim."""
        for mutant in self.outcomes:
            if mutant.sort == "gap":
                yield mutant.line - self.claim.line, f"{mutant.words}: {mutant.why}"

    @property
    def problems(self) -> Iterator[Problem]:
        """Each check that cannot fail, and whether none notices what the claim is about."""
        name = f"claim {self.claim.id}"
        if self.fault is not None:
            yield Problem(self.claim.line, f"{name} cannot be mutated: its evidence {self.fault}")
            return
        for mutant in self.outcomes:
            if mutant.survived and mutant.group == "check":
                yield Problem(mutant.line, f"{name} has a check that cannot fail: {mutant.words}")
        if not self.can_fail:
            made = sum(mutant.group in OF_SUBJECT for mutant in self.outcomes)
            message = f"{name} cannot fail: no check notices any of {made} changes of its subject"
            yield Problem(self.claim.line, message)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MutatedPage:
    """The mutated claims of a page, and what kept it from being mutated."""

    path: str
    claims: tuple[MutatedClaim, ...] = ()
    problems: tuple[Problem, ...] = ()
    seconds: float = 0.0


def surviving(
    pages: Sequence[MutatedPage], config: Config, *, whole: bool
) -> Iterator[tuple[str, Problem]]:
    """Yield what is wrong with claims, but for those that `config` allows; `whole`: of a site."""
    for page in pages:
        yield from ((page.path, problem) for problem in page.problems)
        for claim in page.claims:
            found = tuple(claim.problems)
            if claim.claim.id in config.survivors:
                unneeded = (
                    f"claim {claim.claim.id} can fail: survivors in {TABLE} need not allow it"
                )
                found = () if found else (Problem(claim.claim.line, unneeded),)
            yield from ((page.path, problem) for problem in found)
    known = {claim.claim.id for page in pages for claim in page.claims}
    for unknown in sorted(set(config.survivors) - known) if whole else ():
        message = f"survivors in {TABLE} allows claim {unknown}, which is on no true page"
        yield "pyproject.toml", Problem(1, message)


def as_text(claims: Iterable[MutatedClaim]) -> str:
    """Return the text of the file from which the ledger learns how many were killed."""
    counts = {
        claim.claim.id: {
            "digest": claim.digest,
            "made": len(claim.outcomes),
            "killed": claim.killed,
            "equivalent": claim.count("equivalent"),
            "outside": claim.count("outside"),
            "gaps": claim.count("gap"),
            **({"unnoticed": unnoticed} if (unnoticed := [*claim.unnoticed]) else {}),
            "can_fail": claim.can_fail,
        }
        for claim in claims
    }
    return json.dumps(counts, indent=1) + "\n"


def page_line(page: MutatedPage) -> str:
    """Return the line that tells of one mutated page."""
    if page.problems:
        return f"false     {page.path}"
    word = "survived" if any([*claim.problems] for claim in page.claims) else "killed"
    return f"{word:8}  {page.path}  ({_counts([page])}, {page.seconds:.1f} s)"


def summary(pages: Sequence[MutatedPage], problems: int, seconds: float) -> str:
    """Return the last line: how much there was, and how much of it cannot fail."""
    verdict = counted(problems, "problem") if problems else "all can fail"
    return f"{counted(len(pages), 'page')}, {_counts(pages)}: {verdict} ({seconds:.1f} s)"


def causes(pages: Iterable[MutatedPage]) -> Iterator[str]:
    """Yield a line for each cause for which mutants survived, and how many did."""
    outcomes = [mutant for page in pages for claim in page.claims for mutant in claim.outcomes]
    found = Counter(mutant.cause for mutant in outcomes if mutant.survived)
    for cause, (sort, why) in CAUSES.items():
        if found[cause]:
            yield f"{found[cause]:5} {sort}: {why}"


def _counts(pages: Sequence[MutatedPage]) -> str:
    claims = [claim for page in pages for claim in page.claims]
    killed, made = (
        sum(claim.killed for claim in claims),
        sum(len(claim.outcomes) for claim in claims),
    )
    gaps = sum(claim.count("gap") for claim in claims)
    told = f"{counted(len(claims), 'claim')}, {killed} of {made} mutants killed"
    return f"{told}, {counted(gaps, 'gap')}"
