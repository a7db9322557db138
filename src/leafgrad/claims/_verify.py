"""The verdict without a site, printed page by page."""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

from leafgrad.claims._config import find_pages, read_config
from leafgrad.claims._ledger import ledger_json
from leafgrad.claims._report import page_line, problem_line, summary
from leafgrad.claims._site import prove


def verify(paths: Sequence[Path], json: Path | None) -> bool:
    """Judge `paths`, or what pyproject.toml names; print the verdict; say if everything is true."""
    start = time.monotonic()
    config = read_config(Path())
    if paths:
        config, files = dataclasses.replace(config, docstrings=()), find_pages(paths)
    else:
        files = config.files()
    if not files:
        message = "there are no pages: name some, or set pages in [tool.leafgrad.claims]"
        raise ValueError(message)
    site = prove(config, files, report=lambda page: print(page_line(page), flush=True))
    for path, problem in site.problems:
        print(problem_line(path, problem))
    if json is not None:
        json.write_text(ledger_json(site, config), encoding="utf-8")
    print(summary(site, time.monotonic() - start))
    return not site.problems
