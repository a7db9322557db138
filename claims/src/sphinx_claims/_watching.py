"""`claims watch`: judge what was saved, as soon as it was."""

import hashlib
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import watchfiles

from sphinx_claims._judging.pages import page_name
from sphinx_claims._judging.prover import Prover
from sphinx_claims._judging.report import summary
from sphinx_claims._verify import asked, tell_page, tell_red

_PAUSE = 50
"""Milliseconds without a change after which what was saved is judged."""

_PASSED_OVER = {"__pycache__", "_build", "build", "dist", "node_modules", "site-packages"}
_ENVIRONMENT = "pyvenv.cfg"
_MADE_ON_THE_WAY = {".bak", ".log", ".orig", ".pyc", ".swp", ".tmp"}


def watch(paths: Sequence[Path], saved: Iterable[set[Path]] | None = None) -> None:
    """Judge `paths`, or what pyproject.toml names, and again what has changed."""
    with Watcher(paths) as watcher:
        for files in watcher.saved() if saved is None else saved:
            watcher.judge(files)


class Watcher:
    """Knows the pages and what they were judged with, and judges what was saved since.

    A page is judged again when it was saved. When any other file was, or none is known, there is
    no telling what it means: all pages are judged again, by a process that has imported nothing.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._config, files = asked(paths)
        self._prover: Prover | None = None
        self._pages = frozenset(file.resolve() for file in files)
        self._digests: dict[Path, str | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._forget()

    def saved(self) -> Iterator[set[Path]]:
        """Yield no file once all are watched, and then those that were saved, until Control-C.

        Pages that stand elsewhere are watched through their folder: an editor that renames its
        file over a page leaves nothing of the page to watch.
        """
        roots = {self._config.root, *(path.resolve() for path in self._paths if path.is_dir())}
        elsewhere = {page.parent for page in self._pages if not _inside(page, roots)}
        is_first = True
        for changes in watchfiles.watch(
            *roots,
            *elsewhere,
            watch_filter=None,
            step=_PAUSE,
            rust_timeout=_PAUSE,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        ):
            files = {
                file
                for file in _files(changes)
                if file in self._pages or any(_matters(file, root) for root in _inside(file, roots))
            }
            if files or is_first:
                yield files
            is_first = False

    def judge(self, saved: set[Path]) -> None:
        """Judge what was saved; everything at first, and after an error."""
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
        """Return whether a file holds anything else than before, as far as that is known."""
        known = file in self._digests
        before, self._digests[file] = self._digests.get(file), _digest(file)
        return not (known and before == self._digests[file])

    def _forget(self) -> None:
        if self._prover is not None:
            self._prover.close()
            self._prover = None


def _files(changes: set[watchfiles.main.FileChange]) -> Iterator[Path]:
    """Yield the files that changed, with those of a new folder, which came before it was watched.

    What came and went again, as a page's own temporary file, did not change.
    """
    for change, name in changes:
        file, is_new = Path(name), (watchfiles.Change.added, name) in changes
        if file.is_dir():
            yield from file.rglob("*") if change is watchfiles.Change.added else ()
        elif file.exists() or not is_new:
            yield file


def _inside(file: Path, roots: Iterable[Path]) -> list[Path]:
    return [root for root in roots if file.is_relative_to(root)]


def _matters(file: Path, root: Path) -> bool:
    """Return whether a file under `root` can matter to a page.

    Hidden files, environments, what a build made and what an editor writes on its way cannot. A
    name without a suffix that is gone may have been a folder of files that do.
    """
    *folders, name = file.relative_to(root).parts
    if any(part.startswith(".") for part in (*folders, name)) or _PASSED_OVER & {*folders}:
        return False
    above = (parent for parent in file.parents if parent.is_relative_to(root))
    if any((parent / _ENVIRONMENT).exists() for parent in above):
        return False
    if not file.suffix:
        return not file.exists()
    return bool(re.fullmatch(r"\.\w+", file.suffix)) and file.suffix not in _MADE_ON_THE_WAY


def _digest(file: Path) -> str | None:
    """Return a hash of what a file holds; None where it is gone."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None
