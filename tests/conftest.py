"""What tests of several folders stand on."""

import sys
from collections.abc import Iterator

import pytest

from tests.devtools import Browser, chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start Chromium once for all tests: three times the cost of a page in it."""
    if sys.platform == "win32":
        pytest.skip("Chromium is led through pipes that it can be given on POSIX alone")
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser
