"""Which files a project has, and when each was saved."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

Stamp = tuple[int, int, int]
"""Time, size and identity of a file: one that was saved has another."""

_PASSED_OVER = {"__pycache__", "_build", "build", "dist", "node_modules", "site-packages"}
_ENVIRONMENT = "pyvenv.cfg"
_MADE_ON_THE_WAY = {".bak", ".log", ".orig", ".pyc", ".swp", ".tmp"}


def stamps(folders: Iterable[Path], files: Iterable[Path]) -> dict[Path, Stamp]:
    """Return the stamps of `files` and of what stands in `folders` and can matter to a page.

    Hidden files, environments, what a build made and what an editor writes on its way are left out.
    """
    found: dict[Path, Stamp] = {}
    waiting = [os.fspath(folder) for folder in folders]
    while waiting:
        for entry in _entries(waiting.pop()):
            if not entry.is_dir(follow_symlinks=False):
                found.update(_stamped(Path(entry.path)))
            elif entry.name not in _PASSED_OVER:
                waiting.append(entry.path)
    for file in files:
        found.update(_stamped(file))
    return found


def digest(file: Path) -> str | None:
    """Return a hash of what a file holds; None where it is gone."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def _entries(folder: str) -> Iterator["os.DirEntry[str]"]:
    """Yield what a folder holds; nothing of one that is gone, hidden from us, or an environment."""
    try:
        entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
    except OSError:
        return
    if not any(entry.name == _ENVIRONMENT for entry in entries):
        yield from (entry for entry in entries if entry.is_dir() or _matters(entry.name))


def _matters(name: str) -> bool:
    suffix = Path(name).suffix
    return bool(re.fullmatch(r"\.\w+", suffix)) and suffix not in _MADE_ON_THE_WAY


def _stamped(file: Path) -> dict[Path, Stamp]:
    try:
        status = file.stat()
    except OSError:  # gone by now
        return {}
    return {file: (status.st_mtime_ns, status.st_size, status.st_ino)}
