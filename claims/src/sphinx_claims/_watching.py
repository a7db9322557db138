"""`claims watch`: judge pages whenever they are saved."""

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import watchfiles

from sphinx_claims._judging.prover import Prover
from sphinx_claims._judging.report import summary
from sphinx_claims._verify import print_page, print_red_lines, requested_pages

_PAUSE = 50
"""Milliseconds without a change after which a saved file is judged."""


def watch(paths: Sequence[Path], saved: Iterable[set[Path]] | None = None) -> None:
    """Judge `paths`, or the pages in pyproject.toml, and again after each save, until Ctrl-C.

    `saved` yields the saved files; by default they are watched.
    """
    with Watcher(paths) as watcher:
        watcher.judge(set())
        for files in watcher.saved() if saved is None else saved:
            watcher.judge(files)


class Watcher:
    """Judges pages after they are saved. After any other change, judges all pages again."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._config, files = requested_pages(paths)
        self._prover: Prover | None = None
        self._folders = {self._config.root, *(file.resolve().parent for file in files)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._forget()

    def saved(self) -> Iterable[set[Path]]:
        """Yield the set of saved Python, Markdown and TOML files, after each save."""
        kinds = watchfiles.PythonFilter(extra_extensions=(".md", ".toml"))
        for changes in watchfiles.watch(*self._folders, watch_filter=kinds, step=_PAUSE):
            yield {Path(name).resolve() for _, name in changes}

    def judge(self, saved: set[Path]) -> None:
        """Judge the saved pages. The first time and after an error, judge all pages."""
        try:
            self._judge(saved)
        except (OSError, RuntimeError, ValueError) as error:
            print(f"error: {error}", file=sys.stderr)
            self._forget()

    def _judge(self, saved: set[Path]) -> None:
        there = [path for path in self._paths if path.exists()]
        self._config, files = (
            requested_pages(there) if there or not self._paths else (self._config, [])
        )
        pages = [file.resolve() for file in files]
        if self._prover is not None and saved and saved <= {*pages}:
            read = self._prover.read(sorted(saved))
            print_red_lines(self._prover.judge(read, print_page), self._config)
            return
        start = time.monotonic()
        self._forget()
        self._prover = Prover(self._config)
        site = self._prover.judge_all(self._prover.read(pages), print_page)
        print_red_lines(site, self._config)
        print(summary(site, time.monotonic() - start), flush=True)

    def _forget(self) -> None:
        if self._prover is not None:
            self._prover.close()
            self._prover = None
