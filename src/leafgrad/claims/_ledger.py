"""The ledger: every claim with its sentence, place, evidence and verdict, as JSON types."""

import json
from importlib import metadata
from typing import Any

from leafgrad.claims._config import Config
from leafgrad.claims._record import Check
from leafgrad.claims._site import SiteVerdict
from leafgrad.claims._verdict import ClaimVerdict


def ledger_of(site: SiteVerdict, config: Config) -> dict[str, Any]:
    """Return the ledger of a judged site."""
    return {
        "torch": _version("torch"),
        "documents": dict(config.documents),
        "claims": [_claim(verdict) for verdict in site.claims],
    }


def ledger_json(site: SiteVerdict, config: Config) -> str:
    """Return the text of `claims.json`."""
    return json.dumps(ledger_of(site, config), indent=1, ensure_ascii=False) + "\n"


def _claim(verdict: ClaimVerdict) -> dict[str, Any]:
    return {
        "id": verdict.claim.id,
        "statement": verdict.statement,
        "page": verdict.path,
        "line": verdict.claim.line,
        "verdict": word(is_true=verdict.is_true),
        "sources": list(verdict.claim.sources),
        "evidence": [_check(check) for check in verdict.evidence],
    }


def _check(check: Check) -> dict[str, Any]:
    return {
        "line": check.line,
        "kind": check.kind,
        "text": check.text,
        "verdict": word(is_true=check.passed),
    }


def word(*, is_true: bool) -> str:
    """Return the word that the ledger has for a truth value."""
    return "true" if is_true else "false"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
