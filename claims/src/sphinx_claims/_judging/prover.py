"""Execute and judge pages, each in a separate process."""

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sphinx_claims._config import TABLE, Config
from sphinx_claims._executing.docstrings import find_docstrings
from sphinx_claims._executing.execute import execute_page
from sphinx_claims._executing.job import loaded_version
from sphinx_claims._executing.raised import describe
from sphinx_claims._executing.spawned import workers as started
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.history import read_history
from sphinx_claims._judging.pages import page_name, read_pages, with_settings
from sphinx_claims._judging.site import SiteVerdict
from sphinx_claims._judging.verdict import PageVerdict, judge
from sphinx_claims._page import Page, Problem
from sphinx_claims._translating.translation import read_translations
from sphinx_claims._versions import Release

Report = Callable[[PageVerdict], None]


class Prover(contextlib.ExitStack):
    """Reads and judges pages repeatedly, with the same worker processes.

    It remembers the ids of claims, so that a duplicate id on another page is a problem.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        self._taken: dict[str, str] = {}

    @functools.cached_property
    def _workers(self) -> Workers:
        return self.enter_context(started(self._config.preload, self._config.processes))

    def read(self, files: Sequence[Path]) -> list[Page]:
        """Read pages, some of which may have been read before."""
        names = {page_name(file, self._config.root) for file in files}
        others = self._taken.items()
        self._taken = {key: at for key, at in others if at.rpartition(":")[0] not in names}
        return read_pages(files, self._config, self._taken)

    def judge(self, pages: Sequence[Page], report: Report = lambda _: None) -> SiteVerdict:
        """Execute and judge `pages`. Call `report` with the verdict on each of them."""
        config = dataclasses.replace(self._config, docstrings=(), versions=None)
        return prove_in(self._workers, config, pages, report)

    def judge_all(self, pages: Sequence[Page], report: Report) -> SiteVerdict:
        """Execute and judge `pages` and all docstrings. Call `report` with the verdict on each."""
        return prove_in(self._workers, self._config, pages, report)


def prove(config: Config, files: Sequence[Path], report: Report) -> SiteVerdict:
    """Execute and judge `files` and the docstrings of `config`. Return the verdict on the site.

    Call `report` with the verdict on each page.
    """
    with started(config.preload, config.processes) as workers:
        return prove_in(workers, config, read_pages(files, config), report)


def prove_in(
    workers: Workers, config: Config, pages: Sequence[Page], report: Report
) -> SiteVerdict:
    """Execute and judge `pages` and the docstrings of `config` in processes of `workers`.

    Call `report` with the verdict on each page. Return the verdict on the site.
    """
    release = find_release(workers, config)
    documented = (_docstrings(module, config, workers) for module in config.docstrings)
    docstrings = (with_settings(page, config) for found in documented for page in found)
    pages = [*dict.fromkeys((*pages, *docstrings))]  # modules may export the same function
    judged = functools.partial(judge_page, config=config, workers=workers, release=release)
    verdicts = []
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        try:
            for verdict in threads.map(judged, pages):
                report(verdict)
                verdicts.append(verdict)
        except BaseException:  # Ctrl-C, or standard output is closed
            workers.stop()
            raise
    translations = read_translations(config, pages)
    problems = [(verdict.page.path, found) for verdict in verdicts for found in verdict.problems]
    history = read_history(config)
    site = SiteVerdict(
        pages=tuple(verdicts),
        problems=tuple(problems),
        history=history,
        release=release,
        translations=translations,
    )
    untrue = (problem for translation in site.translations for problem in translation.problems)
    return site.with_problems((*history.broken(), *untrue))


def judge_page(
    page: Page, config: Config, workers: Workers, release: Release | None = None
) -> PageVerdict:
    """Execute a page in a separate process. Return the verdict on it for this `release`.

    The release is that of the package; None if no package is configured.
    """
    start = time.monotonic()
    if not page.steps:
        return judge(page, (), failure=None, seconds=0.0)
    folder = (config.root / page.path).parent
    outcome = workers.run(execute_page, page, folder, config.shown_with, seconds=config.timeout)
    seconds = time.monotonic() - start
    release = release or find_release(workers, config)
    found = outcome.messages, outcome.failure
    try:
        return judge(page, *found, seconds, release)
    except Exception as error:  # noqa: BLE001 - the other pages are still judged
        problem = Problem(1, f"the prover failed on this page: {describe(error)}")
        failed = dataclasses.replace(page, items=(), problems=(*page.problems, problem))
        return judge(failed, (), failure=None, seconds=seconds)


def find_release(workers: Workers, config: Config) -> Release | None:
    """Return the version of the configured package that the processes of `workers` import.

    Return None if no package is configured.
    """
    if config.package is None:
        return None
    outcome = workers.run(loaded_version, config.package, seconds=config.timeout)
    if not outcome.messages:
        why = outcome.failure or f"{config.package} has none"
        raise RuntimeError(f"package in {TABLE} must have a version: {why}")
    return Release(config.package, outcome.messages[0])


def _docstrings(module: str, config: Config, workers: Workers) -> Sequence[Page]:
    outcome = workers.run(find_docstrings, module, config.root, seconds=config.timeout)
    if outcome.failure is None:
        return outcome.messages
    problem = Problem(1, f"the docstrings of {module} cannot be read: {outcome.failure}")
    return [Page(path=module, items=(), problems=(problem,))]
