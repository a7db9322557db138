"""Fixtures for tests in several folders."""

import sys
from collections.abc import Iterator
from multiprocessing import get_start_method

import pytest

from tests.apart import RunApart, forking, run_in_a_process
from tests.devtools import Browser, chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start Chromium once for all tests, because a start takes as long as three pages."""
    if sys.platform == "win32":
        pytest.skip("Chromium is led through pipes that it can be given on POSIX alone")
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="session")
def run_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunApart]:
    """Run a program in a separate process that has imported only PyTorch."""
    if get_start_method() == "spawn":
        yield run_in_a_process
    else:
        with forking(tmp_path_factory.mktemp("apart")) as run:
            yield run
