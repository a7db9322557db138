"""The build that is running: what its directives, its reader and its census look verdicts up in."""

import dataclasses
from collections.abc import Mapping
from contextvars import ContextVar

from sphinx.environment import BuildEnvironment

from leafgrad.claims._config import Config
from leafgrad.claims._site import SiteVerdict
from leafgrad.claims._verdict import ClaimVerdict, PageVerdict


@dataclasses.dataclass(frozen=True, kw_only=True)
class Build:
    """One Sphinx build: its verdicts, and the name under which it reports each document."""

    env: BuildEnvironment
    config: Config
    site: SiteVerdict
    paths: Mapping[str, str]

    def page(self, docname: str) -> PageVerdict:
        """Return the verdict on a document."""
        return next(page for page in self.site.pages if page.page.path == self.paths[docname])

    def claim(self, identifier: str) -> ClaimVerdict | None:
        """Return the verdict on a claim; None where no page holds it."""
        claims = (claim for claim in self.site.claims if claim.claim.id == identifier)
        return next(claims, None)


current: ContextVar[Build] = ContextVar("current")
"""MyST-NB hands a reader nothing but text: this tells it of which build and page."""
