"""Judge pages one after the other, in processes forked from one that is started when needed."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from sphinx_claims._config import Config
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.anchors import claim_anchor
from sphinx_claims._judging.site import SiteVerdict, page_name, prove_in, read_pages
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._page import Page

Report = Callable[[PageVerdict], None]


def _ignore(_verdict: PageVerdict) -> None:
    pass


class Prover(contextlib.ExitStack):
    """A context that remembers which ids its pages took, and keeps what their processes import."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        self._taken: dict[str, str] = {}
        self._ids: dict[Path, frozenset[str]] = {}

    @functools.cached_property
    def _workers(self) -> Workers:
        return self.enter_context(Workers(self._config.preload))

    def read(self, files: Collection[Path], gone: Collection[Path] = ()) -> list[Page]:
        """Read pages, for the first time or again, and those that an id is free for again."""
        freed = self._free([*files, *gone])
        pages = self._read(files)
        freed -= self._taken.keys()
        waiting = [file for file, ids in self._ids.items() if file not in files and ids & freed]
        return [*pages, *self._read(waiting)]

    def _free(self, files: Sequence[Path]) -> set[str]:
        """Forget all that is known of some pages; return the ids that they had taken."""
        names = {page_name(file, self._config.root) for file in files}
        ids = {taken for taken, place in self._taken.items() if place.rpartition(":")[0] in names}
        for identifier in ids:
            del self._taken[identifier]
        for file in files:
            self._ids.pop(file, None)
        return ids

    def _read(self, files: Collection[Path]) -> list[Page]:
        pages = read_pages(list(files), self._config, self._taken)
        for file, page in zip(files, pages, strict=True):
            ids = (claim.id for claim in page.claims)
            self._ids[file] = frozenset(key for name in ids for key in (name, claim_anchor(name)))
        return pages

    def judge(self, pages: Sequence[Page], report: Report = _ignore) -> SiteVerdict:
        """Execute and judge pages; `report` each."""
        config = dataclasses.replace(self._config, docstrings=(), versions=None)
        return prove_in(self._workers, config, pages, report)

    def judge_all(self, pages: Sequence[Page], report: Report) -> SiteVerdict:
        """Execute and judge pages and all docstrings; `report` each."""
        return prove_in(self._workers, self._config, pages, report)
