"""The build that is running: what its directives, its reader and its checks look verdicts up in."""

import dataclasses
import functools
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from sphinx.environment import BuildEnvironment

from sphinx_claims._config import Config
from sphinx_claims._judging.ledger import ledger_of
from sphinx_claims._judging.site import SiteVerdict
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._page import Problem
from sphinx_claims._sphinx.judging import Judging


@dataclasses.dataclass(frozen=True, kw_only=True)
class Build:
    """One Sphinx build: its verdict, as far as it is known, and the path of each document.

    `excluded` names the Markdown files that are neither built nor judged, and `found` is what
    only the pages as read show.
    """

    env: BuildEnvironment
    config: Config
    judging: Judging
    paths: Mapping[str, str]
    excluded: tuple[str, ...]
    found: tuple[tuple[str, Problem], ...] = ()

    def page(self, docname: str) -> PageVerdict:
        """Return the verdict on a document."""
        return self.judging.page(self.paths[docname])

    def verdict(self, path: str, identifier: str) -> str:
        """Return the word for a claim: `false` where the page `path` does not hold it."""
        return self._words.get((path, identifier), "false")

    @functools.cached_property
    def site(self) -> SiteVerdict:
        """The verdict on the site, once all of it is judged."""
        site = self.judging.site().with_problems(self.found)
        return dataclasses.replace(site, built=tuple(self.paths), excluded=self.excluded)

    @functools.cached_property
    def ledger(self) -> Mapping[str, Any]:
        """The ledger of the site, which several pages may show."""
        return ledger_of(self.site, self.config)

    @functools.cached_property
    def _words(self) -> Mapping[tuple[str, str], str]:
        # Of two on a page the second is false: it has taken the id of the first.
        return {(claim.path, claim.claim.id): claim.word for claim in self.site.claims}


current: ContextVar[Build] = ContextVar("current")
"""MyST-NB hands a reader nothing but text: this tells it of which build and page."""
