"""`claims mutate`: which claims cannot fail, printed page by page."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

from sphinx_claims._config import TABLE, Config
from sphinx_claims._executing.processes import workers as started
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.pages import read_pages
from sphinx_claims._judging.prover import judge_page, loaded
from sphinx_claims._mutating.mutate import mutate_page
from sphinx_claims._mutating.outcomes import (
    MutatedPage,
    as_text,
    causes,
    page_line,
    summary,
    surviving,
)
from sphinx_claims._page import Page, Problem
from sphinx_claims._verify import asked
from sphinx_claims._versions import Release

_TICK = 0.2
_FOREVER = 1e6
"""Each mutant has a time limit; their number has none."""


def mutate(paths: Sequence[Path], file: Path | None, *, survivors: bool) -> bool:
    """Mutate the claims of `paths`, or of what pyproject.toml names; say if all can fail."""
    start = time.monotonic()
    config, files = asked(paths)
    pages = []
    for page in mutated_pages(config, files, _counted):
        print(page_line(page), flush=True)
        pages.append(page)
    pages.sort(key=lambda page: page.path)
    claims = [(page.path, claim) for page in pages for claim in page.claims]
    for path, claim in claims:
        _print_lines([(path, found) for found in (claim.survivors if survivors else claim.gaps)])
    for line in causes(pages) if survivors else ():
        print(line)
    problems = list(surviving(pages, config, whole=not paths))
    _print_lines(problems)
    if file is not None:
        file.write_text(as_text(claim for _, claim in claims), encoding="utf-8")
    print(summary(pages, len(problems), time.monotonic() - start))
    return not problems


def mutated_pages(
    config: Config, files: Sequence[Path], counted: Callable[[int], object]
) -> Iterator[MutatedPage]:
    """Mutate the pages that hold claims, the longest first; yield each when it is done.

    All the while, `counted` is told how many mutants there were.
    """
    if not hasattr(os, "fork"):
        raise RuntimeError("mutants are forked processes: use Linux, macOS or WSL")
    if (file := _faults(config)) and not file.is_file():
        raise ValueError(f"faults in {TABLE} must be a file, and {config.faults} is none")
    pages = [page for page in read_pages(files, config) if page.claims]
    pages.sort(key=lambda page: len(page.steps), reverse=True)
    job = mutate_page.__module__  # to import it takes longer than a dozen mutants
    with (
        tempfile.NamedTemporaryFile() as tally,
        started((job, *config.preload), config.processes) as workers,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        made = Path(tally.name)
        release = loaded(workers, config) if pages else None
        running = {pool.submit(_mutated, page, config, workers, release, made) for page in pages}
        while running:
            done, running = wait(running, _TICK, FIRST_COMPLETED)
            counted(made.stat().st_size)
            yield from (page.result() for page in done)


def _mutated(
    page: Page, config: Config, workers: Workers, release: Release | None, made: Path
) -> MutatedPage:
    start = time.monotonic()
    verdict = judge_page(page, config, workers, release)
    if verdict.problems:
        first = verdict.problems[0]
        message = f"prove the page first, it is not true: {first.message}"
        return MutatedPage(path=page.path, problems=(Problem(first.line, message),))
    folder = (config.root / page.path).parent
    true = frozenset(claim.claim.id for claim in verdict.claims if not claim.is_skipped)
    limit = 1 + 10 * verdict.seconds
    outcome = workers.run(
        mutate_page, page, folder, true, limit, made, _faults(config), seconds=_FOREVER
    )
    failed = () if outcome.failure is None else (Problem(1, f"no mutants: {outcome.failure}"),)
    return MutatedPage(
        path=page.path,
        claims=outcome.messages,
        problems=failed,
        seconds=time.monotonic() - start,
    )


def _faults(config: Config) -> Path | None:
    return None if config.faults is None else config.root / config.faults


def _counted(number: int) -> None:
    if sys.stdout.isatty():
        print(f"{number} mutants", end="\r", flush=True)


def _print_lines(found: Sequence[tuple[str, Problem]]) -> None:
    for path, problem in found:
        print(f"{path}:{problem.line}: {problem.message}")
