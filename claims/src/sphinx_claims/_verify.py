"""`claims verify`: judge pages without building a site, and print a verdict for each."""

import dataclasses
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sphinx_claims._config import Config, find_pages, read_config
from sphinx_claims._judging.index import read_index
from sphinx_claims._judging.ledger import ledger_json
from sphinx_claims._judging.pages import page_name
from sphinx_claims._judging.prover import prove
from sphinx_claims._judging.report import (
    annotations,
    excluded_line,
    kinds_line,
    page_line,
    red_lines,
    shown_line,
    summary,
)
from sphinx_claims._judging.site import SiteVerdict
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._update import update_outputs

_COLOURS = {"true": 32, "false": 31}


def verify(paths: Sequence[Path], json: Path | None, *, update: bool = False) -> bool:
    """Judge `paths`, or the pages in pyproject.toml. Return whether everything is true.

    Print the verdicts and the problems. Write the ledger to the file `json` if it is given. With
    `update`, rewrite outdated outputs, print the diffs, and count these outputs as true.
    """
    start = time.monotonic()
    if json is not None:
        json.write_text("")  # an old ledger must not outlive a failed run
    config, files = requested_pages(paths)
    if paths and not files:
        names = ", ".join(map(str, paths))
        raise ValueError(f"there is no page in {names}: a page is Markdown (.md)")
    site = prove(config, files, report=print_page)
    if update:
        diffs, updated = update_outputs(site, config.root)
        for diff in diffs:
            print(diff)
        left = ((path, p) for path, p in site.problems if (path, p.line) not in updated)
        site = dataclasses.replace(site, problems=tuple(left))
    print_red_lines(site, config)
    if json is not None:
        json.write_text(ledger_json(site, config), encoding="utf-8")
    if not paths:
        beside = tuple(page_name(file, config.root) for file in config.beside())
        site = dataclasses.replace(site, excluded=beside)
    for line in filter(None, (excluded_line(site), shown_line(site), kinds_line(site))):
        print(line)
    print(summary(site, time.monotonic() - start))
    return not site.problems


def requested_pages(paths: Sequence[Path]) -> tuple[Config, list[Path]]:
    """Return the settings and the pages to judge: `paths`, or else those in pyproject.toml.

    Pages with blind checks of the claims on `paths` are included. Raise an error if there is
    nothing to judge.
    """
    config = read_config(Path())
    if paths:
        named = {file.resolve(): file for file in find_pages(paths)}
        index = read_index([*named, *config.files()])
        own = (claim for claim, file in index.files.items() if file in named)
        blind = {file for claim in own for file in index.checked_on.get(claim, ())}
        config = dataclasses.replace(config, docstrings=(), versions=None)
        return config, [*named.values(), *sorted(blind - named.keys())]
    files = config.files()
    if not files and not config.docstrings:
        message = (
            "there is nothing to judge: name pages, or set pages or docstrings in [tool.claims]"
        )
        raise ValueError(message)
    return config, files


def print_page(verdict: PageVerdict) -> None:
    """Print a line with the verdict on a page. On a terminal, the first word is coloured."""
    line = page_line(verdict)
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        line = re.sub(r"^\w+", lambda word: f"\x1b[{_COLOURS[word[0]]}m{word[0]}\x1b[0m", line)
    print(line, flush=True)


def print_red_lines(site: SiteVerdict, config: Config) -> None:
    """Print all problems of a site. On GitHub Actions, print annotations too."""
    red = list(red_lines(site))
    for line in (*red, *annotations(red, config.root)):
        print(line)
