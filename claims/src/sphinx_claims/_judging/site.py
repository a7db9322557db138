"""Prove a whole site: every page and docstring, each in a process of its own."""

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from sphinx_claims._config import TABLE, Config
from sphinx_claims._executing.docstrings import find_docstrings
from sphinx_claims._executing.execute import execute_page
from sphinx_claims._executing.package import loaded_version
from sphinx_claims._executing.processes import workers as started
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.anchors import claim_anchor
from sphinx_claims._judging.matrix import judged_nowhere, vanished
from sphinx_claims._judging.threads import in_threads
from sphinx_claims._judging.verdict import ClaimVerdict, PageVerdict, judge
from sphinx_claims._page import Claim, Page, Problem
from sphinx_claims._reading.include import unjudged
from sphinx_claims._reading.read import read_page
from sphinx_claims._versions import Release


@dataclasses.dataclass(frozen=True, kw_only=True)
class SiteVerdict:
    """The verdict on every page, and every line of the site that is not true, with its page.

    `built` names the documents of a site that was built, and `excluded` the Markdown files beside
    them that are neither built nor judged.
    """

    pages: tuple[PageVerdict, ...]
    problems: tuple[tuple[str, Problem], ...]
    release: Release | None = None
    built: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def claims(self) -> tuple[ClaimVerdict, ...]:
        """Every claim of the site, in the order of its pages."""
        return tuple(claim for page in self.pages for claim in page.claims)

    def claim_at(self, path: str, line: int) -> ClaimVerdict | None:
        """Return the claim whose sentence or evidence stands on a line; None where none does."""
        for page in self.pages:
            claim = page.page.claim_of(line) if page.page.path == path else None
            if claim is not None:
                return next(verdict for verdict in page.claims if verdict.claim.line == claim.line)
        return None

    def with_problems(self, found: Iterable[tuple[str, Problem]]) -> Self:
        """Add what else was found: a claim where a problem stands is not true."""
        places = {page.page.path: index for index, page in enumerate(self.pages)}
        problems = sorted(
            dict.fromkeys((*self.problems, *found)),
            key=lambda red: (places.get(red[0], len(places)), red[1].line),
        )
        claims = (self.claim_at(path, problem.line) for path, problem in problems)
        refuted = {(claim.path, claim.claim.line) for claim in claims if claim is not None}
        pages = tuple(_refuted(page, refuted) for page in self.pages)
        return dataclasses.replace(self, pages=pages, problems=tuple(problems))


def prove(
    config: Config, files: Sequence[Path], report: Callable[[PageVerdict], None]
) -> SiteVerdict:
    """Execute and judge `files` and the docstrings of `config`; `report` each page when judged."""
    with started(config.preload, config.processes) as workers:
        return prove_in(workers, config, read_pages(files, config), report)


def prove_in(
    workers: Workers,
    config: Config,
    pages: Sequence[Page],
    report: Callable[[PageVerdict], None],
) -> SiteVerdict:
    """Execute and judge `pages` and the docstrings of `config` in processes that `workers` fork."""
    release = loaded(workers, config)
    documented = (_docstrings(module, config, workers) for module in config.docstrings)
    pages = [*pages, *itertools.chain.from_iterable(documented)]
    judged = partial(judge_page, config=config, workers=workers, release=release)
    verdicts = []
    try:
        for verdict in in_threads(judged, pages):
            report(verdict)
            verdicts.append(verdict)
    except BaseException:  # Ctrl-C, or nobody is there to report to
        workers.stop()
        raise
    problems = [(verdict.page.path, found) for verdict in verdicts for found in verdict.problems]
    site = SiteVerdict(pages=tuple(verdicts), problems=tuple(problems), release=release)
    unjudged = (*vanished(site.claims, config), *judged_nowhere(site.claims, config, release))
    return site.with_problems((*_passed_over(site), *unjudged))


def read_pages(
    files: Sequence[Path], config: Config, taken: dict[str, str] | None = None
) -> list[Page]:
    """Read pages; a claim whose id or sources do not fit is a problem of its page.

    `taken` holds the places of the ids that were read before, and is added to.
    """
    taken = {} if taken is None else taken
    pages = [_fitting(_read(file, config.root), taken, config) for file in files]
    return [_whole(page, files, config) if page.includes else page for page in pages]


def judge_page(
    page: Page, config: Config, workers: Workers, release: Release | None = None
) -> PageVerdict:
    """Execute one page in a process of its own and judge it by what holds on this `release`."""
    start = time.monotonic()
    if not page.steps:
        return judge(page, (), failure=None, seconds=0.0, universal=config.universal)
    folder = (config.root / page.path).parent
    outcome = workers.run(execute_page, page, folder, seconds=config.timeout)
    seconds = time.monotonic() - start
    release = release or loaded(workers, config)
    found = outcome.messages, outcome.failure
    return judge(page, *found, seconds, release, universal=config.universal)


def loaded(workers: Workers, config: Config) -> Release | None:
    """Return the release that the processes of `workers` have of the package of `config`."""
    if config.package is None:
        return None
    outcome = workers.run(loaded_version, config.package, seconds=config.timeout)
    if not outcome.messages:
        why = outcome.failure or f"{config.package} has none"
        raise RuntimeError(f"package in {TABLE} must have a version: {why}")
    return Release(config.package, outcome.messages[0])


def page_name(file: Path, root: Path) -> str:
    """Return the name under which the page in `file` is reported."""
    return Path(os.path.relpath(file.resolve(), root)).as_posix()


def _refuted(page: PageVerdict, refuted: set[tuple[str, int]]) -> PageVerdict:
    claims = tuple(
        dataclasses.replace(claim, is_true=False)
        if (claim.path, claim.claim.line) in refuted
        else claim
        for claim in page.claims
    )
    return dataclasses.replace(page, claims=claims)


def _passed_over(site: SiteVerdict) -> Iterator[tuple[str, Problem]]:
    """Yield the claims that are not true though nothing red stands there: nobody came so far."""
    red = {site.claim_at(path, problem.line) for path, problem in site.problems}
    for claim in site.claims:
        if not claim.is_true and claim not in red:
            message = f"claim {claim.claim.id} is not proven: the page stopped before its evidence"
            yield claim.path, Problem(claim.claim.line, message)


def _read(file: Path, root: Path) -> Page:
    path = page_name(file, root)
    try:
        return read_page(file, path)
    except OSError as error:
        problem = Problem(1, f"a page must be readable: {error.strerror}")
        return Page(path=path, items=(), problems=(problem,))


def _fitting(page: Page, taken: dict[str, str], config: Config) -> Page:
    """Add to the problems of `page` what is wrong with its claims beside those read before."""
    found = [problem for claim in page.claims for problem in _misfits(page, claim, taken, config)]
    return dataclasses.replace(page, problems=(*page.problems, *found))


def _whole(page: Page, files: Sequence[Path], config: Config) -> Page:
    """Add to the problems of `page` the files that it includes and nobody judges."""
    judged = frozenset(file.resolve() for file in (*files, *config.files()))
    return dataclasses.replace(page, problems=(*page.problems, *unjudged(page, judged)))


def _misfits(page: Page, claim: Claim, taken: dict[str, str], config: Config) -> Iterator[Problem]:
    here = f"{page.path}:{claim.line}"
    first = taken.setdefault(claim.id, here)
    if first != here:
        yield Problem(claim.line, f"claim {claim.id} stands at {first} already")
    elif taken.setdefault(claim_anchor(claim.id), here) != here:
        yield Problem(claim.line, _alike(claim, taken))
    if config.package is None and (claim.since or claim.until):
        rule = "the versions of a claim are those of a package"
        yield Problem(claim.line, f"{rule}: set package in {TABLE} to its name")
    for source in claim.sources:
        document = source.split()[0]
        if document not in config.documents:
            known = ", ".join(config.documents) or "none"
            rule = f"a source begins with a document that pyproject.toml names ({known})"
            yield Problem(claim.line, f"{rule}, not {document!r}")


def _alike(claim: Claim, taken: dict[str, str]) -> str:
    anchor = claim_anchor(claim.id)
    return (
        f"the ids of claims must differ in more than case and marks: "
        f"{claim.id} has the anchor #{anchor} of the claim at {taken[anchor]}: rename one"
    )


def _docstrings(module: str, config: Config, workers: Workers) -> Sequence[Page]:
    outcome = workers.run(find_docstrings, module, config.root, seconds=config.timeout)
    if outcome.failure is None:
        return outcome.messages
    problem = Problem(1, f"the docstrings of {module} cannot be read: {outcome.failure}")
    return [Page(path=module, items=(), problems=(problem,))]
