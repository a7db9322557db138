"""Helpers for tests that start processes."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked here")
needs_proc = pytest.mark.skipif(
    not (Path("/proc/self").exists() and hasattr(os, "killpg")),
    reason="nothing tells who still runs",
)
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="no shell, no signals")


def link(file: Path, target: str) -> None:
    """Create a symbolic link to `target`, or skip the test if the system does not allow it."""
    try:
        file.symlink_to(target)
    except OSError as error:
        pytest.skip(f"no links can be made here: {error}")


def wait(happens: Callable[[], object]) -> None:
    """Wait for something, and fail after a minute."""
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(process: int | str) -> bool:
    """Return whether a process is running.

    `process` is its number, or the text of `/proc/self/stat` in that process.
    """
    begun = str(process).rpartition(")")[2].split()
    try:
        stat = Path("/proc", str(process).split()[0], "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    state, *fields = stat.rpartition(")")[2].split()
    # A process id can be reused, but not with the same start time.
    return state != "Z" and begun[19:20] in ([], [fields[18]])
