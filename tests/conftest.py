"""What tests of several folders stand on."""

from collections.abc import Iterator

import pytest

from tests.devtools import Browser, chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start Chromium once for all tests: three times the cost of a page in it."""
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser
