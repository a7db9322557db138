"""`claims watch`: judge what was saved, as soon as it was."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

from sphinx_claims._judging.prover import Prover
from sphinx_claims._judging.report import summary
from sphinx_claims._judging.site import page_name
from sphinx_claims._saved import Stamp, digest, stamps
from sphinx_claims._verify import asked, tell_page, tell_red

_PERIOD, _MOST = 0.05, 0.01
"""Seconds between two looks, and the part of a processor that looking may take."""


def watch(paths: Sequence[Path], looks: Iterable[object] | None = None) -> None:
    """Judge `paths`, or what pyproject.toml names, and again what has changed at each look."""
    with Watcher(paths) as watcher:
        for _ in watcher.looks() if looks is None else looks:
            watcher.look()


class Watcher:
    """Knows when everything was saved, and judges what was saved since.

    A page is judged again when it was saved. When any other file was, or none is known, there is
    no telling what it means: all pages are judged again, by a process that has imported nothing.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._config, files = asked(paths)
        self._prover: Prover | None = None
        self._pages = frozenset(file.resolve() for file in files)
        self._seen: dict[Path, Stamp] = {}
        self._digests: dict[Path, str | None] = {}
        self._cost = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._forget()

    def looks(self) -> Iterator[None]:
        """Yield whenever it is time to look."""
        while True:
            yield
            time.sleep(max(_PERIOD, self._cost / _MOST))

    def look(self) -> None:
        """Judge what was saved since the last look."""
        folders = [path.resolve() for path in self._paths if path.is_dir()]
        start = time.thread_time()
        now = stamps({self._config.root, *folders}, self._pages)
        self._cost = time.thread_time() - start
        saved = {file for file in now.keys() | self._seen if now.get(file) != self._seen.get(file)}
        self._seen = now
        if saved:
            try:
                self._judge(saved)
            except (OSError, RuntimeError, ValueError) as error:
                print(f"error: {error}", file=sys.stderr)
                self._forget()

    def _judge(self, saved: set[Path]) -> None:
        files = self._files()
        pages = frozenset(file.resolve() for file in files)
        others, gone = saved - pages - self._pages, self._pages - pages
        for page in sorted(gone):
            print(f"gone   {page_name(page, self._config.root)}", flush=True)
        self._pages = pages
        if self._prover is None or [file for file in others if self._is_changed(file)]:
            self._judge_all(files)
        elif read := self._prover.read(sorted(saved & pages), gone):
            tell_red(self._prover.judge(read, tell_page), self._config)

    def _files(self) -> list[Path]:
        """List the pages that are there now: one may just be gone, and come back."""
        there = [path for path in self._paths if path.exists()]
        self._config, files = asked(there) if there or not self._paths else (self._config, [])
        return files

    def _judge_all(self, files: Sequence[Path]) -> None:
        start = time.monotonic()
        self._forget()
        self._prover = Prover(self._config)
        site = self._prover.judge_all(self._prover.read([*map(Path.resolve, files)]), tell_page)
        tell_red(site, self._config)
        print(summary(site, time.monotonic() - start), flush=True)

    def _is_changed(self, file: Path) -> bool:
        """Tell whether a file holds anything else than before, as far as that is known."""
        known = file in self._digests
        before, self._digests[file] = self._digests.get(file), digest(file)
        return not (known and before == self._digests[file])

    def _forget(self) -> None:
        if self._prover is not None:
            self._prover.close()
            self._prover = None
