"""Build the ledger: every claim with its sentence, place, evidence and verdict, as JSON types."""

import json
import platform
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from sphinx_claims._config import Config
from sphinx_claims._judging.report import RedLine, red_lines
from sphinx_claims._judging.site import SiteVerdict
from sphinx_claims._judging.verdict import ClaimVerdict
from sphinx_claims._page import Escape
from sphinx_claims._record import Check

SCHEMA = 2
"""The version of the ledger's format; the manual describes it."""


def ledger_of(site: SiteVerdict, config: Config) -> dict[str, Any]:
    """Return the ledger of a judged site.

    The keys:
    - `problems`: the problems outside claims; each claim lists its own.
    - `built`: the documents of a built site.
    - `excluded`: the Markdown files that were neither built nor judged.
    - `escapes`: code that the pages show but do not execute.
    - the name of the package, if one is configured: its version.
    - `versions`: the stored runs on other versions of the package.
    - `translations`: for each language, the number of claims in each state of translation. Each
      claim also has its own state, and its translations under `sentences`.
    """
    red, history = list(red_lines(site)), site.history
    release = {site.release.package: site.release.version} if site.release else {}
    return {
        "schema": SCHEMA,
        "sphinx-claims": metadata.version("sphinx-claims"),
        "package": config.package,
        **release,
        "python": platform.python_version(),
        "documents": dict(config.documents),
        "built": list(site.built),
        "excluded": list(site.excluded),
        "escapes": [
            {"page": page.page.path, "line": escape.line, "because": escape.because}
            for page in site.pages
            for escape in page.page.of(Escape)
        ],
        "problems": [
            {"page": line.path, "line": line.line, "message": line.found}
            for line in red
            if line.claim is None
        ],
        "versions": [run.totals(site.claims, config.package) for run in history.runs],
        "translations": {each.language: each.totals for each in site.translations},
        "claims": [_claim(verdict, red, site) for verdict in site.claims],
    }


def ledger_json(site: SiteVerdict, config: Config) -> str:
    """Return the ledger of a judged site as JSON text, the content of `claims.json`."""
    return json.dumps(ledger_of(site, config), ensure_ascii=False, separators=(",", ":")) + "\n"


def _claim(verdict: ClaimVerdict, red: Iterable[RedLine], site: SiteVerdict) -> dict[str, Any]:
    history, identifier = site.history, verdict.claim.id
    own = [line for line in red if (line.path, line.claim) == (verdict.path, identifier)]
    return {
        "id": identifier,
        "statement": verdict.statement,
        "sentences": {
            each.language: verdict.in_full(each.sentences[identifier])
            for each in site.translations
            if identifier in each.sentences
        },
        "translations": {each.language: each.words[identifier] for each in site.translations},
        "page": verdict.path,
        "line": verdict.claim.line,
        "verdict": verdict.word,
        "problems": [{"line": line.line, "message": line.found} for line in own],
        "digest": verdict.digest,
        "kind": verdict.claim.kind,
        "scope": list(verdict.claim.scope),
        "outside": sorted(verdict.claim.outside),
        "checked": verdict.digest in verdict.claim.digests,
        "since": verdict.claim.since,
        "until": verdict.claim.until,
        "versions": {run.version: run.word(verdict) for run in history.runs},
        "sources": list(verdict.claim.sources),
        "evidence": [_check(check) for check in verdict.evidence],
    }


def _check(check: Check) -> dict[str, Any]:
    return {
        "line": check.place,
        "kind": check.kind,
        "text": " -> ".join(filter(None, (check.text, check.expected.strip()))),
        "verdict": "true" if check.passed else "false",
    }
