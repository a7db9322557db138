"""Execute a page once, and at each of its claims a copy of the process for every mutant."""

import ast
import builtins
import dataclasses
import json
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from sphinx_claims._executing.asserts import checked
from sphinx_claims._executing.execute import PageRun, remember_lines
from sphinx_claims._judging.digest import digest
from sphinx_claims._judging.verdict import judge
from sphinx_claims._mutating.causes import (
    cause_of_code,
    cause_of_fault,
    cause_of_values,
    names_said,
)
from sphinx_claims._mutating.copy import in_copy
from sphinx_claims._mutating.flow import Flow
from sphinx_claims._mutating.mutants import Mutant, mutants, names_needed
from sphinx_claims._mutating.observed import SEEN, Listener, observed
from sphinx_claims._mutating.outcomes import (
    ALIVE,
    MutantOutcome,
    MutatedClaim,
    noticed_elsewhere,
)
from sphinx_claims._mutating.watch import Seen, Watch, with_other_values
from sphinx_claims._page import Cell, Claim, Page, Step
from sphinx_claims._record import Check, Ran, Record
from sphinx_claims.faults import Fault, differences, read_faults, watch

Cause = tuple[str, str]
"""Why a mutant was not noticed, and of which values."""

_MESSAGES = frozenset({"error", "stream"})
_SOME_NUMBER = "0.1"
"""In the place of the numbers of an input, which has many."""


def mutate_page(
    page: Page,
    directory: Path,
    claims: Collection[str],
    seconds: float,
    tally: Path,
    faults: Path | None,
) -> Iterator[MutatedClaim]:
    """Execute `page` in `directory`; mutate `claims` of it, each mutant for at most `seconds`.

    The file `tally` grows by one character for each mutant, and `faults` is a module of faults.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # no copy could use what this process has started
    known, subjects = read_faults(faults)
    os.chdir(directory)
    remember_lines(page)
    page_run = PageRun(page)
    waiting = list(page.steps)
    above: list[Ran] = []
    for claim in page.claims:
        if claim.id in claims:
            span = page.span(claim)
            while waiting[0].line < span.start:
                above.append((waiting[0], page_run.run(waiting.pop(0))))
            steps = [  # a mutant is killed by a check that fails: no family is asked for
                dataclasses.replace(step, family=()) if isinstance(step, Cell) else step
                for step in waiting
                if step.line in span
            ]
            del waiting[: len(steps)]
            evidence = _Evidence(
                path=page.path,
                above=above,
                claim=claim,
                page_run=page_run,
                limit=seconds,
                tally=tally,
                faults=known,
                subjects=subjects,
            )
            yield dataclasses.replace(evidence.mutated(steps), digest=digest(page, claim))
            above += evidence.done


@dataclasses.dataclass(kw_only=True)
class _Evidence:
    """A claim, what was executed above it and, of its evidence, what was executed already."""

    path: str
    above: Sequence[Ran]
    claim: Claim
    page_run: PageRun
    limit: float
    tally: Path
    faults: Sequence[Fault]
    subjects: tuple[type, ...]
    done: list[Ran] = dataclasses.field(default_factory=list)
    watch: Watch | None = None
    flow: Flow = dataclasses.field(init=False)

    def mutated(self, steps: Sequence[Step]) -> MutatedClaim:
        """Execute `steps`, and before each of them all that changes it, in copies."""
        start = time.monotonic()
        control = self._said(lambda: self._end(steps))
        if control != ALIVE:
            return MutatedClaim(
                claim=self.claim, fault=f"fails in a copy ({control.partition(' ')[0]})"
            )
        needed = time.monotonic() - start
        used = self._said(lambda: self._watched(steps)).split("\n")
        self.watch = self._watch(steps)  # which tries many values: it may take longer than mutants
        self.limit = min(self.limit, 1 + 10 * needed)
        self.flow = Flow(steps, vars(sys.modules["__main__"]))
        outcomes = self._with_faults([fault for fault in self.faults if fault.name in used], steps)
        outcomes += [self._with_input(name, steps) for name in self._subjects(steps)]
        for index, changes in enumerate(mutants(steps)):
            outcomes += [self._changed(mutant, steps[index + 1 :]) for mutant in changes]
            self.done.append((steps[index], self.page_run.run(steps[index])))
        if not self._is_true(self.done):
            return MutatedClaim(claim=self.claim, fault="is not true once its mutants were tried")
        falsified = {
            line for mutant in outcomes if mutant.group != "check" for line in mutant.false
        }
        outcomes += with_other_values(self.watch, falsified) if self.watch else ()
        outcomes = list(noticed_elsewhere(outcomes))
        return MutatedClaim(claim=self.claim, outcomes=tuple(outcomes))

    def _watch(self, steps: Sequence[Step]) -> Watch | None:
        """Note what the checks compare; None where they do not hold while they are watched."""
        once = self._seen(lambda: self._seeing(steps))
        tried = self._seen(lambda: self._seeing(steps, tries=True))
        return Watch.of(steps, once, tried)

    def _with_faults(self, faults: Sequence[Fault], steps: Sequence[Step]) -> list[MutantOutcome]:
        found = [self._with_fault(fault, steps) for fault in faults]
        noticed = {
            fault.operation
            for fault, mutant in zip(faults, found, strict=True)
            if mutant.cause not in {"idle", "unseen"}
        }
        return [
            dataclasses.replace(mutant, cause="point")
            if mutant.cause == "idle" and not fault.may_be_right and fault.operation in noticed
            else mutant
            for fault, mutant in zip(faults, found, strict=True)
        ]

    def _with_fault(self, fault: Fault, steps: Sequence[Step]) -> MutantOutcome:
        def planted(then: Callable[[Sequence[Step]], str]) -> str:
            fault.plant()
            return then(steps)

        def unseen(seen: Seen) -> str:
            said = fault.said and re.search(fault.said, self.claim.statement)
            is_idle = fault.operation is not None and not any(seen.get("differences", ()))
            return cause_of_fault(said=bool(said), is_idle=is_idle)

        def cause() -> Cause:
            return self._cause(lambda: planted(self._seeing), unseen)

        end = self._said(lambda: planted(self._end))
        return self._outcome("fault", self.claim.line, f"that {fault.name}", end, cause)

    def _outcome(
        self, group: str, line: int, words: str, end: str, cause: Callable[[], Cause]
    ) -> MutantOutcome:
        word, *lines = end.split()
        why, of = cause() if word == ALIVE else ("", "")
        return MutantOutcome(
            line=line,
            group=group,
            words=words,
            end=word,
            false=tuple(map(int, lines)),
            cause=why,
            of=of,
        )

    def _subjects(self, steps: Sequence[Step]) -> Iterator[str]:
        """Yield the names that `steps` need and under which the page has a subject."""
        namespace = vars(sys.modules["__main__"])
        for name in names_needed(steps):
            if isinstance(namespace.get(name), self.subjects):
                yield name

    def _with_input(self, name: str, steps: Sequence[Step]) -> MutantOutcome:
        """Let the evidence find another value than the one that was made above the claim."""
        other = f"{name} + 1"
        before = Cell(line=self.claim.line, fence=self.claim.line, source=f"{name} = {other}")
        words = f"`{other}` in the place of `{name}`"
        mutant = Mutant(
            line=self.claim.line, group="subject", words=words, step=before, names=(_SOME_NUMBER,)
        )
        return self._changed(mutant, steps)

    def _changed(self, mutant: Mutant, rest: Sequence[Step]) -> MutantOutcome:
        steps = [mutant.step, *rest]
        named = tuple(names_said(self.claim.statement, mutant.names))

        def unseen(_seen: Seen) -> str:
            return cause_of_code(
                feeds=self.flow.feeds(mutant.line),
                said=bool(named),
                number=any(name[:1].isdigit() for name in mutant.names),
            )

        def cause() -> Cause:
            if mutant.group == "check":
                return "check", ""
            return self._cause(lambda: self._seeing(steps), unseen)

        end = self._said(lambda: self._end(steps))
        found = self._outcome(mutant.group, mutant.line, mutant.words, end, cause)
        return dataclasses.replace(found, said=named, is_shown=_only_shows(mutant.step))

    def _cause(self, act: Callable[[], str], unseen: Callable[[Seen], str]) -> Cause:
        """Return why a change was not noticed: by what checks compare once `act` has made it."""
        if self.watch is None:
            return "unknown", ""
        seen = self._seen(act)
        changed = self.watch.changed(seen)
        if changed and self.watch.is_proven and not seen["is_proven"]:
            return "again", ""
        return cause_of_values(changed) if changed else (unseen(seen), "")

    def _seen(self, act: Callable[[], str]) -> Seen:
        try:
            found: Seen = json.loads(self._said(act))
        except ValueError:  # it died, or took too long
            return {}
        return found

    def _seeing(self, steps: Sequence[Step], *, tries: bool = False) -> str:
        """Execute `steps` such that they tell what their checks compare; return that."""
        seen = Listener(tries=tries)
        vars(builtins)[SEEN] = seen
        is_true, done = True, list(self.done)
        for step in steps:
            seeing = observed(step)[0]
            record = self.page_run.run(seeing)
            done.append((seeing, record))
            is_true &= not record.problems and all(check.passed for check in record.checks)
            if isinstance(step, Cell) and (step.raises or step.warns):
                shown = [output for output in record.outputs if output["output_type"] in _MESSAGES]
                seen.note(
                    f"{step.fence}:", [output.get("evalue", output.get("text")) for output in shown]
                )
        said = {"heard": seen.heard, "tried": seen.tried, "is_true": is_true}
        said["is_proven"] = self._is_true(done)
        return json.dumps(said | {"differences": sorted(differences())})

    def _said(self, act: Callable[[], str]) -> str:
        said = in_copy(act, self.limit)
        for descriptor in (1, 2):  # what it wrote there lies in files that all copies have
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
        with self.tally.open("a") as tally:
            tally.write(".")
        return said

    def _watched(self, steps: Sequence[Step]) -> str:
        """Execute `steps` as they are; return the names of the faults that could change them."""
        used = watch(self.faults)
        for step in steps:  # to the end: a warning that is watched looks as if it were another
            self.page_run.run(step)
        return "\n".join(used)

    def _end(self, steps: Sequence[Step]) -> str:
        """Execute `steps` up to where the claim is not true any more; return what ended it."""
        done = list(self.done)
        for step in steps:
            record = self.page_run.run(step)
            done.append((step, record))
            troubled = record.problems or not all(check.passed for check in record.checks)
            if troubled and not self._is_true(done):
                false = sorted({line for _, record in done for line in _false(record)})
                return " ".join(map(str, ["check", *false])) if false else "crash"
        return ALIVE if self._is_true(done) else "crash"

    def _is_true(self, done: Sequence[Ran]) -> bool:
        above, steps = ([step for step, _ in ran] for ran in (self.above, done))
        records = [record for _, record in (*self.above, *done)]
        page = Page(path=self.path, items=(*above, self.claim, *steps))
        return judge(page, records, failure=None, seconds=0.0).claims[0].is_true


def _only_shows(step: Step) -> bool:
    """Return whether a step is a cell that asserts nothing and declares no error or warning."""
    if not isinstance(step, Cell) or step.raises or step.warns:
        return False
    return not any(map(checked, ast.walk(ast.parse(step.source))))


def _false(record: Record) -> Iterator[int]:
    """Yield the lines of the checks that came out false, and not only because of a crash."""
    failed = [check for check in record.checks if not check.passed]
    crashed = record.broke or any(map(_is_stray, failed))
    for check in failed:
        if (
            check.kind in {"assert", "inline"}
            or (check.kind == "example" and not check.found.startswith("it raises"))
            or (check.kind in {"output", "raises", "warns"} and not crashed)
        ):
            yield check.line


def _is_stray(check: Check) -> bool:
    """Return whether a cell raised an exception of quite another type than it declares."""
    declared = check.text.partition(":")[0].strip().rpartition(".")[2]
    return check.kind == "raises" and not check.found.startswith(("nothing", declared))
