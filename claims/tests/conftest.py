"""Pages are judged in processes forked from one that all tests of this folder share."""

import contextlib
import io
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch
from warnings import catch_warnings

import pytest
from sphinx.application import Sphinx
from sphinx.locale import translators
from sphinx.util.docutils import docutils_namespace

from sphinx_claims._config import Config, read_config
from sphinx_claims._executing import processes
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.prover import judge_page, loaded
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._reading.read import parse_page
from sphinx_claims._versions import Release
from sphinx_claims._vocabulary import speaking
from tests.processes import unmeasured
from tests.sphinx_builds import build as build_with_kept_templates

Judge = Callable[..., PageVerdict]
WorkersFor = Callable[[str], Workers]
COLOUR = r"\x1b\[[0-9;]*m"


@pytest.fixture(scope="session")
def workers_for() -> Iterator[WorkersFor]:
    """Start the processes that pages run in, one with PyTorch for the pages that name it.

    To fork that one takes thrice the time of the other. The coverage of neither is counted: to
    count doubles the time of a page, and the builds of whole sites cover the same lines.
    """
    with contextlib.ExitStack() as stack:
        started: dict[bool, Workers] = {}

        def hand_out(text: str) -> Workers:
            named = "torch" in text
            if named not in started:
                with patch.dict(os.environ, unmeasured(), clear=True):
                    forks = processes.usual_kind() == "fork"
                    running = processes.workers(["torch"] if named and forks else [], None)
                    started[named] = stack.enter_context(running)
            return started[named]

        yield hand_out


@pytest.fixture(scope="session")
def workers(workers_for: WorkersFor) -> Workers:
    """Return the process for pages that have no use for PyTorch."""
    return workers_for("")


@pytest.fixture(scope="session")
def release(workers: Workers) -> Release | None:
    """Return the version of torch, for which a site asks once, and so do the pages of a test."""
    return loaded(workers, Config(root=Path(), package="torch"))


@pytest.fixture
def words_of_torch() -> Iterator[None]:
    """Read pages by the words of this project's own, of which the prover knows none."""
    with speaking(read_config(Path(__file__)).vocabulary):
        yield


@pytest.fixture
def processes_uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count what a test itself covers, and of the processes that it starts nothing."""
    for name in os.environ.keys() - unmeasured().keys():
        monkeypatch.delenv(name)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let what a test starts be interrupted, even if a shell has told pytest to ignore that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def judge(workers_for: WorkersFor, release: Release | None, tmp_path: Path) -> Judge:
    def judged(text: str, timeout: float = 30) -> PageVerdict:
        config = Config(root=tmp_path, timeout=timeout, package="torch")
        return judge_page(parse_page(text, "page.md"), config, workers_for(text), release)

    return judged


class Building:
    """A small site in a folder: `build(index="# Page")` writes its files and builds it in-process.

    Pages run in processes that import nothing first; the ledger has the version of torch.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.html = folder / "_build" / "html"
        self.status = ""
        self.outcome = (0, "")

    def __call__(
        self,
        *,
        conf: str = "",
        toml: str = "",
        jobs: int = 1,
        options: dict[str, Any] | None = None,
        force: bool = False,
        builder: str = "html",
        **pages: str,
    ) -> tuple[int, str]:
        """Return the status and everything that was warned of, without colour."""
        conf = f"extensions = ['sphinx_claims']\nexclude_patterns = ['_*']\n{conf}"
        package = "" if "package" in toml else "package = 'torch'\n"
        toml = f"[tool.claims]\n{package}{toml}"
        texts = {f"{name}.md": text for name, text in pages.items()}
        for name, text in {**texts, "conf.py": conf, "pyproject.toml": toml}.items():
            (self.folder / name).write_text(text)
        status, warnings = io.StringIO(), io.StringIO()
        # Of warnings MyST-NB has some of Sphinx; catalogues would be added to those of other tests.
        with docutils_namespace(), catch_warnings(action="ignore"), patch.dict(translators):
            trees = self.html.with_name("trees")
            where = (self.folder, self.folder, self.html, trees, builder)
            app = Sphinx(*where, status=status, warning=warnings, parallel=jobs, **options or {})
            build_with_kept_templates(app, force_all=force)
        self.status, told = (re.sub(COLOUR, "", text.getvalue()) for text in (status, warnings))
        return app.statuscode, told

    def page(self, name: str = "index") -> str:
        """Return the HTML of a page."""
        return (self.html / f"{name}.html").read_text()

    def ledger(self) -> dict[str, Any]:
        """Return what `claims.json` holds."""
        ledger: dict[str, Any] = json.loads((self.html / "claims.json").read_text())
        return ledger


@pytest.fixture
def build(tmp_path: Path) -> Building:
    return Building(tmp_path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Building]:
    """Build a site once for all tests of a module that do no more than look at it."""
    sites: dict[str, Building] = {}

    def once(**site: Any) -> Building:
        key = repr(site)
        if key not in sites:
            sites[key] = Building(tmp_path_factory.mktemp("site"))
            sites[key].outcome = sites[key](**site)
        return sites[key]

    return once
