"""Write a verdict as lines of text."""

import dataclasses
import itertools
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from sphinx_claims._config import relative_path
from sphinx_claims._judging.kinds import BLIND
from sphinx_claims._judging.site import SiteVerdict
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._page import KINDS, Escape

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


_SENTENCE = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class RedLine:
    """A problem on a line of a page, with the id of the claim that it refutes, or None.

    `found` is the message. `sentence` is the sentence of the claim; only the last problem of a
    claim has it.
    """

    path: str
    line: int
    claim: str | None
    found: str
    sentence: str = ""

    @property
    def text(self) -> str:
        """Return the message with the id of the claim, and with the sentence if there is one."""
        named = self.claim is None or self.claim in self.found
        told = self.found if named else f"{self.claim}: {self.found}"
        return f'{told}\n    not proven: "{self.sentence}"' if self.sentence else told

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def red_lines(site: SiteVerdict) -> Iterator[RedLine]:
    """Yield a `RedLine` for each problem of the site, in the order of the pages."""
    whose = ((site.claim_at(path, found.line), path, found) for path, found in site.problems)
    for claim, group in itertools.groupby(whose, key=lambda red: red[0]):
        name = claim.claim.id if claim else None
        statement = claim.statement if claim else ""
        *reds, last = [
            RedLine(path=path, line=found.line, claim=name, found=found.message)
            for _, path, found in group
        ]
        yield from reds
        sentence = textwrap.shorten(statement, _SENTENCE, placeholder=" ...")
        yield dataclasses.replace(last, sentence=sentence)


def page_line(verdict: PageVerdict) -> str:
    """Return the line that `claims verify` prints for a page: verdict, counts and time."""
    mark = "false" if verdict.problems else "true"
    page = verdict.page
    is_page = page.path.endswith(".md") or not page.items
    # A file may contain several docstrings, so add the line.
    place = page.path if is_page else f"{page.path}:{page.items[0].line}"
    counts = f"{count_of(len(verdict.claims), 'claim')}, {count_of(len(verdict.checks), 'check')}"
    return f"{mark:5}  {place}  ({counts}, {verdict.seconds:.1f} s)"


def summary(site: SiteVerdict, seconds: float) -> str:
    """Return the last line of the report: counts of pages, claims, checks and problems."""
    checks = sum(len(page.checks) for page in site.pages)
    pages, claims = count_of(len(site.pages), "page"), count_of(len(site.claims), "claim")
    verdict = count_of(len(site.problems), "problem") if site.problems else "all true"
    return f"{pages}, {claims}, {count_of(checks, 'check')}: {verdict} ({seconds:.1f} s)"


def shown_line(site: SiteVerdict) -> str | None:
    """Return the report line that counts plain Python fences, None if there are none.

    These fences are shown but not executed.
    """
    shown = [e for page in site.pages for e in page.page.of(Escape) if not e.because]
    if not shown:
        return None
    return f"shown and not executed: {count_of(len(shown), 'piece')} of Python (see python_fences)"


def kinds_line(site: SiteVerdict) -> str | None:
    """Return the report line that counts claims by kind, or None if no claim has a kind.

    It also counts the claims without a kind and those without a blind check (see `Cell`) that need
    one.
    """
    claims = [verdict.claim for verdict in site.claims]
    unchecked = sum(claim.kind in BLIND and not claim.digests for claim in claims)
    kinds = [claim.kind for claim in claims]
    told = [count_of(kinds.count(kind), kind) for kind in KINDS]
    told += [f"{kinds.count(None)} without a kind", f"{unchecked} without a blind check"]
    return ", ".join(told) if any(kinds) else None


def excluded_line(site: SiteVerdict) -> str | None:
    """Return the report line that lists pages that are not judged, or None if there are none."""
    if not site.excluded:
        return None
    names = textwrap.shorten(", ".join(site.excluded), _SENTENCE, placeholder=" ...")
    return f"excluded, so nobody judges {count_of(len(site.excluded), 'Markdown file')}: {names}"


def count_of(number: int, noun: str) -> str:
    """Return `number` with its noun, in the plural unless the number is 1."""
    return f"{number} {noun}" + "s" * (number != 1)


def annotations(red: Iterable[RedLine], root: Path) -> Iterator[str]:
    """On GitHub Actions, yield a command for each problem in `red` that annotates its line.

    The files are under `root`. Elsewhere, yield nothing. The format:
    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    workspace = os.environ.get("GITHUB_WORKSPACE", ".")
    for line in red:
        file = relative_path(workspace, root / line.path)
        place = f"file={_escape(file, _PROPERTY)},line={line.line}"
        title = f"title={_escape(line.claim or 'not true', _PROPERTY)}"
        yield f"::error {place},{title}::{_escape(line.text, _DATA)}"


def _escape(text: str, escapes: Mapping[str, str]) -> str:
    return text.translate({ord(character): code for character, code in escapes.items()})
