"""Execute a page once, and at each of its claims a copy of the process for every mutant."""

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from sphinx_claims._executing.execute import PageRun, remember_lines
from sphinx_claims._judging.digest import digest
from sphinx_claims._judging.verdict import judge
from sphinx_claims._mutating.copy import in_copy
from sphinx_claims._mutating.mutants import Mutant, mutants, names_needed
from sphinx_claims._mutating.outcomes import ALIVE, MutantOutcome, MutatedClaim
from sphinx_claims._page import Cell, Claim, Page, Step
from sphinx_claims._record import Check, Record
from sphinx_claims.faults import Fault, read_faults, watch

Ran = tuple[Step, Record]


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
    page_run = PageRun(page.path)
    waiting = list(page.steps)
    above: list[Ran] = []
    for claim in page.claims:
        if claim.id in claims:
            span = page.span(claim)
            while waiting[0].line < span.start:
                above.append((waiting[0], page_run.run(waiting.pop(0))))
            steps = [_without_family(step) for step in waiting if step.line in span]
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

    def mutated(self, steps: Sequence[Step]) -> MutatedClaim:
        """Execute `steps`, and before each of them all that changes it, in copies."""
        start = time.monotonic()
        control = self._said(lambda: self._end(steps))
        if control != ALIVE:
            return MutatedClaim(claim=self.claim, fault=f"fails in a copy ({control})")
        self.limit = min(self.limit, 1 + 10 * (time.monotonic() - start))
        used = self._said(lambda: self._watched(steps)).split("\n")
        outcomes = [self._with_fault(fault, steps) for fault in self.faults if fault.name in used]
        outcomes += [self._with_input(name, steps) for name in self._subjects(steps)]
        for index, changes in enumerate(mutants(steps)):
            outcomes += [self._changed(mutant, steps[index + 1 :]) for mutant in changes]
            self.done.append((steps[index], self.page_run.run(steps[index])))
        if not self._is_true(self.done):
            return MutatedClaim(claim=self.claim, fault="is not true once its mutants were tried")
        return MutatedClaim(claim=self.claim, outcomes=tuple(outcomes))

    def _with_fault(self, fault: Fault, steps: Sequence[Step]) -> MutantOutcome:
        def end() -> str:
            fault.plant()
            return self._end(steps)

        words = f"that {fault.name}"
        return MutantOutcome(line=self.claim.line, group="fault", words=words, end=self._said(end))

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
        end = self._said(lambda: self._end([before, *steps]))
        words = f"`{other}` in the place of `{name}`"
        return MutantOutcome(line=self.claim.line, group="subject", words=words, end=end)

    def _changed(self, mutant: Mutant, rest: Sequence[Step]) -> MutantOutcome:
        end = self._said(lambda: self._end([mutant.step, *rest]))
        return MutantOutcome(line=mutant.line, group=mutant.group, words=mutant.words, end=end)

    def _said(self, act: Callable[[], str]) -> str:
        said = in_copy(act, self.limit)
        _forget_output()
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
                return "check" if any(_fails(record) for _, record in done) else "crash"
        return ALIVE if self._is_true(done) else "crash"

    def _is_true(self, done: Sequence[Ran]) -> bool:
        above, steps = ([step for step, _ in ran] for ran in (self.above, done))
        records = [record for _, record in (*self.above, *done)]
        page = Page(path=self.path, items=(*above, self.claim, *steps))
        return judge(page, records, failure=None, seconds=0.0).claims[0].is_true


def _without_family(step: Step) -> Step:
    """Return a step that is asked for its checks alone: a mutant is killed by one that fails."""
    return dataclasses.replace(step, family=()) if isinstance(step, Cell) else step


def _fails(record: Record) -> bool:
    """Tell whether a check came out false, and not only because something had crashed."""
    failed = [check for check in record.checks if not check.passed]
    crashed = record.broke or any(_is_stray(check) for check in failed)
    return any(
        check.kind in {"assert", "inline"}
        or (check.kind == "example" and not check.found.startswith("it raises"))
        or (check.kind in {"output", "raises", "warns"} and not crashed)
        for check in failed
    )


def _is_stray(check: Check) -> bool:
    """Tell whether a cell raised an exception of quite another type than it declares."""
    declared = check.text.partition(":")[0].strip().rpartition(".")[2]
    return check.kind == "raises" and not check.found.startswith(("nothing", declared))


def _forget_output() -> None:
    """Drop what a copy has written behind Python's back: the files beneath are those of all."""
    for descriptor in (1, 2):
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.ftruncate(descriptor, 0)
