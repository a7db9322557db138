"""What tests of several folders stand on."""

import os
import sys
from collections.abc import Iterator

import pytest

from tests.devtools import Browser, chromium
from tests.processes import RunApart, forking, run_in_a_process


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start Chromium once for all tests: three times the cost of a page in it."""
    if sys.platform == "win32":
        pytest.skip("Chromium is led through pipes that it can be given on POSIX alone")
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="session")
def run_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunApart]:
    """Run a program in a process of its own, which has imported nothing but PyTorch."""
    if hasattr(os, "fork"):
        with forking(tmp_path_factory.mktemp("apart")) as run:
            yield run
    else:
        yield run_in_a_process
