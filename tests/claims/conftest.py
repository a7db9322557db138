"""Pages are judged in processes forked from one that all tests of this folder share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leafgrad.claims._config import Config
from leafgrad.claims._read import parse_page
from leafgrad.claims._site import judge_page
from leafgrad.claims._verdict import PageVerdict
from leafgrad.claims._workers import Workers

Judge = Callable[..., PageVerdict]


@pytest.fixture(scope="session")
def workers() -> Iterator[Workers]:
    with Workers(["torch"]) as running:
        yield running


@pytest.fixture
def judge(workers: Workers, tmp_path: Path) -> Judge:
    def judged(text: str, timeout: float = 30) -> PageVerdict:
        config = Config(root=tmp_path, timeout=timeout)
        return judge_page(parse_page(text, "page.md"), config, workers)

    return judged
