"""The verdict on a whole site: on all of its pages."""

import dataclasses
from collections.abc import Iterable
from typing import Self

from sphinx_claims._judging.history import History
from sphinx_claims._judging.verdict import ClaimVerdict, PageVerdict
from sphinx_claims._page import Problem
from sphinx_claims._translating.translation import Translation
from sphinx_claims._versions import Release


@dataclasses.dataclass(frozen=True, kw_only=True)
class SiteVerdict:
    """The verdicts on all pages, and all problems of the site with the paths of their pages.

    - `history`: the verdicts of earlier runs.
    - `translations`: the claims in other languages.
    - `built`: the documents of a built site.
    - `excluded`: the Markdown files that were neither built nor judged.
    """

    pages: tuple[PageVerdict, ...]
    problems: tuple[tuple[str, Problem], ...]
    history: History
    release: Release | None = None
    translations: tuple[Translation, ...] = ()
    built: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def claims(self) -> tuple[ClaimVerdict, ...]:
        """Return every claim of the site, in the order of its pages."""
        return tuple(claim for page in self.pages for claim in page.claims)

    def claim_at(self, path: str, line: int) -> ClaimVerdict | None:
        """Return the verdict on the claim whose sentence or evidence contains a line, or None.

        `path` is the path of the page.
        """
        for page in self.pages:
            claim = page.page.claim_of(line) if page.page.path == path else None
            if claim is not None:
                return next(verdict for verdict in page.claims if verdict.claim.line == claim.line)
        return None

    def with_problems(self, found: Iterable[tuple[str, Problem]]) -> Self:
        """Return a copy of the verdict with more problems. A claim with a problem becomes false.

        `found` contains these problems, each with the path of its page.
        """
        places = {page.page.path: index for index, page in enumerate(self.pages)}
        problems = sorted(
            dict.fromkeys((*self.problems, *found)),
            key=lambda red: (places.get(red[0], len(places)), red[1].line),
        )
        claims = (self.claim_at(path, problem.line) for path, problem in problems)
        refuted = {(claim.path, claim.claim.line) for claim in claims if claim is not None}
        pages = tuple(
            dataclasses.replace(
                page,
                claims=tuple(
                    dataclasses.replace(claim, is_true=False)
                    if (claim.path, claim.claim.line) in refuted
                    else claim
                    for claim in page.claims
                ),
            )
            for page in self.pages
        )
        return dataclasses.replace(self, pages=pages, problems=tuple(problems))
