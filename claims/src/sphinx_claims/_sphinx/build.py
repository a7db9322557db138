"""The running build, from which directives, the reader and the checks get verdicts."""

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
from sphinx_claims._translating.translation import Translation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Build:
    """One Sphinx build: the verdict on its site, and the path of each document.

    `seconds` is the time that judging took.
    """

    env: BuildEnvironment
    config: Config
    site: SiteVerdict
    paths: Mapping[str, str]
    seconds: float

    def page(self, docname: str) -> PageVerdict:
        """Return the verdict on a document."""
        return self._pages[self.paths[docname]]

    def verdict(self, path: str, identifier: str) -> str:
        """Return the verdict on a claim of the page `path`, `false` if there is no such claim."""
        return self._words.get((path, identifier), "false")

    def translation_of(self, identifier: str) -> str | None:
        """Return the state of a claim's translation, or None if the site is not translated."""
        words = self._translation.words if self._translation else {}
        return words.get(identifier)

    def sentence(self, claim: Mapping[str, Any]) -> str:
        """Return the translated sentence of a claim in the ledger, or else the original."""
        said: str = claim["sentences"].get(self.env.config.language, claim["statement"])
        return said

    @functools.cached_property
    def ledger(self) -> Mapping[str, Any]:
        """Return the ledger of the site. It is cached, because several pages may show it."""
        return ledger_of(self.site, self.config)

    @functools.cached_property
    def _translation(self) -> Translation | None:
        found = {each.language: each for each in self.site.translations}
        return found.get(self.env.config.language)

    @functools.cached_property
    def _pages(self) -> Mapping[str, PageVerdict]:
        return {page.page.path: page for page in self.site.pages}

    @functools.cached_property
    def _words(self) -> Mapping[tuple[str, str], str]:
        # If two claims share an id, the second one is false, and its word replaces the first one's.
        return {(claim.path, claim.claim.id): claim.word for claim in self.site.claims}


current: ContextVar[Build] = ContextVar("current")
"""The current build. It is global because MyST-NB passes only text to `read_notebook`."""
