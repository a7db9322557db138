"""The ledger beside the pages of a site, and no page beside it that the site no longer has."""

import glob
import json
from collections.abc import Iterator
from pathlib import Path

from sphinx.builders import Builder
from sphinx.builders.html import StandaloneHTMLBuilder

from sphinx_claims._config import Config
from sphinx_claims._judging.ledger import ledger_json
from sphinx_claims._judging.site import SiteVerdict


def publish_ledger(builder: Builder, site: SiteVerdict, config: Config) -> None:
    """Write `claims.json`, and remove the pages that only the one before it knew."""
    ledger = Path(builder.outdir, "claims.json")
    for gone in _built_before(ledger).difference(site.built):
        for file in _written(builder, gone):
            file.unlink(missing_ok=True)
    ledger.write_text(ledger_json(site, config), encoding="utf-8")


def _built_before(ledger: Path) -> set[str]:
    try:
        return set(json.loads(ledger.read_text(encoding="utf-8"))["built"])
    except (FileNotFoundError, ValueError, KeyError):  # the first build, or no ledger of ours
        return set()


def _written(builder: Builder, docname: str) -> Iterator[Path]:
    """Yield the files that a build wrote of a page: itself, and its source."""
    if isinstance(builder, StandaloneHTMLBuilder):
        yield builder.get_output_path(docname)
        yield from Path(builder.outdir, "_sources").glob(f"{glob.escape(docname)}.*")
