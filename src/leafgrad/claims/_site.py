"""Prove a whole site: every page and docstring, each in a process of its own."""

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from leafgrad.claims._config import Config
from leafgrad.claims._docstrings import find_docstrings
from leafgrad.claims._execute import execute_page
from leafgrad.claims._page import Page, Problem
from leafgrad.claims._read import read_page
from leafgrad.claims._verdict import ClaimVerdict, PageVerdict, judge
from leafgrad.claims._workers import Workers


@dataclasses.dataclass(frozen=True, kw_only=True)
class SiteVerdict:
    """The verdict on every page, and every line of the site that is not true, with its page."""

    pages: tuple[PageVerdict, ...]
    problems: tuple[tuple[str, Problem], ...]

    @property
    def claims(self) -> tuple[ClaimVerdict, ...]:
        """Every claim of the site, in the order of its pages."""
        return tuple(claim for page in self.pages for claim in page.claims)


def prove(
    config: Config, files: Sequence[Path], report: Callable[[PageVerdict], None]
) -> SiteVerdict:
    """Execute and judge `files` and the docstrings of `config`; `report` each page when judged."""
    with Workers(config.preload) as workers, ThreadPoolExecutor(os.cpu_count()) as pool:
        pages = [read_page(file, page_name(file, config.root)) for file in files]
        for module in config.docstrings:
            pages += _docstrings(module, config, workers)
        verdicts = []
        for verdict in pool.map(partial(judge_page, config=config, workers=workers), pages):
            report(verdict)
            verdicts.append(verdict)
    problems = [(verdict.page.path, found) for verdict in verdicts for found in verdict.problems]
    site = SiteVerdict(pages=tuple(verdicts), problems=tuple(problems))
    across = (*_taken_twice(site.claims), *_unknown_sources(site.claims, config))
    return dataclasses.replace(site, problems=(*problems, *across))


def judge_page(page: Page, config: Config, workers: Workers) -> PageVerdict:
    """Execute one page in a process of its own and judge it."""
    start = time.monotonic()
    if not page.steps:
        return judge(page, records=(), failure=None, seconds=0.0)
    folder = (config.root / page.path).parent
    outcome = workers.run(execute_page, page, folder, seconds=config.timeout)
    return judge(page, outcome.messages, outcome.failure, time.monotonic() - start)


def _docstrings(module: str, config: Config, workers: Workers) -> Sequence[Page]:
    outcome = workers.run(find_docstrings, module, config.root, seconds=config.timeout)
    if outcome.failure is None:
        return outcome.messages
    problem = Problem(1, f"the docstrings of {module} cannot be read: {outcome.failure}")
    return [Page(path=module, items=(), problems=(problem,))]


def _taken_twice(claims: Sequence[ClaimVerdict]) -> Iterator[tuple[str, Problem]]:
    first: dict[str, ClaimVerdict] = {}
    for verdict in claims:
        claim, other = verdict.claim, first.setdefault(verdict.claim.id, verdict)
        if other is not verdict:
            place = f"{other.path}:{other.claim.line}"
            yield verdict.path, Problem(claim.line, f"claim {claim.id} stands at {place} already")


def _unknown_sources(
    claims: Sequence[ClaimVerdict], config: Config
) -> Iterator[tuple[str, Problem]]:
    for verdict in claims:
        for source in verdict.claim.sources:
            document = source.split()[0]
            if document not in config.documents:
                known = ", ".join(config.documents) or "none"
                rule = f"a source begins with a document that pyproject.toml names ({known})"
                yield verdict.path, Problem(verdict.claim.line, f"{rule}, not {document!r}")


def page_name(file: Path, root: Path) -> str:
    """Return the name under which the page in `file` is reported."""
    return Path(os.path.relpath(file.resolve(), root)).as_posix()
