"""The judging of a site, which goes on while Sphinx reads the pages that are judged already."""

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from threading import Thread
from typing import Any

from sphinx.errors import ConfigError

from sphinx_claims._config import Config
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.site import SiteVerdict, judge_page, prove_in, read_pages
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._page import Page


class Judging:
    """The verdicts on a site and on each of its pages, which come in by and by."""

    def __init__(self, config: Config, files: Sequence[Path]) -> None:
        self.seconds = 0.0
        self._site: Future[SiteVerdict] = Future()
        self._workers = Workers(config.preload)
        pages = read_pages(files, config)  # while the workers import what the pages need
        self._pages: dict[str, Future[PageVerdict]] = {page.path: Future() for page in pages}
        for page in pages:
            if not page.steps:
                self._note(judge_page(page, config, self._workers))
        Thread(target=self._judge, args=(config, pages), daemon=True).start()

    def page(self, path: str) -> PageVerdict:
        """Wait for the verdict on a page."""
        page = self._pages[path]
        either: list[Future[Any]] = [page, self._site]
        wait(either, return_when=FIRST_COMPLETED)
        if not page.done():
            self.site()  # which cannot be judged
        return page.result()

    def is_judged(self, path: str) -> bool:
        """Tell whether there is nothing to wait for before a document is read."""
        return path not in self._pages or self._pages[path].done()

    def site(self) -> SiteVerdict:
        """Wait for the verdict on the site."""
        try:
            return self._site.result()
        except (OSError, RuntimeError, ValueError) as error:
            raise ConfigError(str(error)) from error

    def stop(self) -> None:
        """Kill what is being judged: nobody waits for it any more."""
        if not self._site.done():
            self._workers.stop()

    def _judge(self, config: Config, pages: Sequence[Page]) -> None:
        start = time.monotonic()
        try:
            with self._workers:
                site = prove_in(self._workers, config, pages, report=self._note)
            self.seconds = time.monotonic() - start
            self._site.set_result(site)
        except BaseException as error:  # noqa: BLE001 - for whoever waits
            self._site.set_exception(error)

    def _note(self, verdict: PageVerdict) -> None:
        page = self._pages.get(verdict.page.path)
        if page and not page.done():  # a docstring is no page, and what executes nothing is done
            page.set_result(verdict)
