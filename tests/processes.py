"""What tests that start processes share."""

import os
import sys

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked here")
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="no shell, no signals")


def unmeasured() -> dict[str, str]:
    """Return the environment of a process whose coverage is not counted.

    To count costs up to half of what it runs: it is for what tests in the process itself cover.
    """
    return {name: text for name, text in os.environ.items() if not name.startswith("COVERAGE_")}
