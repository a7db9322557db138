"""What tests that start processes share."""

import os
import sys
from pathlib import Path

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked here")
needs_proc = pytest.mark.skipif(
    not (Path("/proc/self").exists() and hasattr(os, "killpg")),
    reason="nothing tells who still runs",
)
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="no shell, no signals")


def link(file: Path, target: str) -> None:
    """Make a link, and skip the test where one has no right to."""
    try:
        file.symlink_to(target)
    except OSError as error:
        pytest.skip(f"no links can be made here: {error}")
