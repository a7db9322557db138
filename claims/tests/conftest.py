"""Fixtures that judge pages in processes forked from one process, which all tests here share."""

import contextlib
import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch
from warnings import catch_warnings

import pytest
from sphinx.application import Sphinx
from sphinx.locale import translators
from sphinx.util.docutils import docutils_namespace

from sphinx_claims.__main__ import main
from tests.proving import (
    Config,
    Judge,
    PageVerdict,
    Release,
    Workers,
    WorkersFor,
    find_release,
    judge_page,
    parse_page,
    usual_kind,
)
from tests.proving import workers as new_workers
from tests.sphinx_builds import build as build_with_kept_templates

Claims = Callable[..., "Run"]
COLOUR = r"\x1b\[[0-9;]*m"
ENVIRONMENT = {**os.environ}
"""As it is before any test has changed it."""
IMPORTS_TORCH = re.compile(r"\b(from|import) .*\btorch\b")


@contextlib.contextmanager
def handing_out(environment: Mapping[str, str]) -> Iterator[WorkersFor]:
    """Start the processes that pages run in, one with PyTorch for the pages that import it.

    Forking that one takes three times as long as forking the other.
    """
    with contextlib.ExitStack() as stack:
        started: dict[bool, Workers] = {}

        def hand_out(text: str) -> Workers:
            is_imported = IMPORTS_TORCH.search(text) is not None
            if is_imported not in started:
                modules = ["torch"] if is_imported else []
                with patch.dict(os.environ, environment, clear=True):
                    forks = usual_kind() == "fork"
                    running = new_workers(modules if forks else [], None)
                    started[is_imported] = stack.enter_context(running)
            return started[is_imported]

        yield hand_out


@pytest.fixture(scope="session")
def workers_for() -> Iterator[WorkersFor]:
    """Start the processes that all tests share."""
    with handing_out(ENVIRONMENT) as hand_out:
        yield hand_out


def sharing(workers: Workers) -> Callable[..., contextlib.AbstractContextManager[Workers]]:
    """Return a replacement for `started` that returns `workers` instead of starting processes.

    It starts new ones if they must import other modules, be of another kind or have another path.
    """

    def started(
        preload: Sequence[str], kind: str | None
    ) -> contextlib.AbstractContextManager[Workers]:
        is_elsewhere = os.environ.get("PYTHONPATH") != ENVIRONMENT.get("PYTHONPATH")
        if kind or is_elsewhere or preload:
            return new_workers(preload, kind)
        return contextlib.nullcontext(workers)

    return started


@pytest.fixture
def shared_processes(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make commands share one process, because starting one takes longer than their work."""
    share(workers, monkeypatch)


def share(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the prover use `workers` instead of new processes (see `sharing`)."""
    monkeypatch.setattr("sphinx_claims._judging.prover.started", sharing(workers))


@pytest.fixture(scope="session")
def workers(workers_for: WorkersFor) -> Workers:
    """Return the process for pages that do not import PyTorch."""
    return workers_for("")


@pytest.fixture(scope="session")
def release(workers: Workers) -> Release | None:
    """Return the version of torch, which is determined once for all tests."""
    return find_release(workers, Config(root=Path(), package="torch"))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Make processes that a test starts interruptible, even if pytest itself is not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def judge(workers_for: WorkersFor, release: Release | None, tmp_path: Path) -> Judge:
    def judged(text: str, timeout: float = 30) -> PageVerdict:
        config = Config(root=tmp_path, timeout=timeout, package="torch")
        return judge_page(parse_page(text, "page.md"), config, workers_for(text), release)

    return judged


class Run(NamedTuple):
    """The exit status of a command, and the lines that it printed; those of stderr are last."""

    status: int
    lines: list[str]
    text: str


@pytest.fixture
def claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, workers: Workers
) -> Claims:
    """Write files and the table into an empty folder, and run `claims` there."""
    share(workers, monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))

    def run(*arguments: str, toml: str | None = None, **files: str) -> Run:
        if toml is not None:
            Path("pyproject.toml").write_text(f"[tool.claims]\n{toml}")
        for name, text in files.items():
            Path(name if "." in name else f"{name}.md").write_text(text, encoding="utf-8")
        status = main([*arguments])
        text = "".join(capsys.readouterr())
        return Run(status, text.splitlines(), text)

    return run


class Building:
    """A small site in a folder: `build(index="# Page")` writes its files and builds it in-process.

    Pages run in processes that import nothing first; the ledger has the version of torch. A site
    that asks for nothing else shares these with others, unless it `has_its_own_processes`.
    """

    has_its_own_processes = False

    def __init__(self, folder: Path, workers_for: WorkersFor) -> None:
        self.folder = folder
        self._workers_for = workers_for
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
            file = self.folder / name
            if not file.exists() or file.read_text() != text:  # a rewritten file would look changed
                file.write_text(text)
        status, warnings = io.StringIO(), io.StringIO()
        # MyST-NB triggers warnings of Sphinx, and translations of other tests must not change.
        with (
            docutils_namespace(),
            catch_warnings(action="ignore"),
            patch.dict(translators),
            patch(
                "sphinx_claims._sphinx.extension.workers", self._workers("".join(pages.values()))
            ),
        ):
            trees = self.html.with_name("trees")
            where = (self.folder, self.folder, self.html, trees, builder)
            app = Sphinx(*where, status=status, warning=warnings, parallel=jobs, **options or {})
            build_with_kept_templates(app, force_all=force)
        self.status, told = (re.sub(COLOUR, "", text.getvalue()) for text in (status, warnings))
        return app.statuscode, told

    def _workers(self, text: str) -> Callable[..., contextlib.AbstractContextManager[Workers]]:
        """Return the function that starts the processes of a site with this text."""
        if self.has_its_own_processes:
            return new_workers
        return sharing(self._workers_for(text))

    def page(self, name: str = "index") -> str:
        """Return the HTML of a page."""
        return (self.html / f"{name}.html").read_text()

    def ledger(self) -> dict[str, Any]:
        """Return the content of `claims.json`."""
        ledger: dict[str, Any] = json.loads((self.html / "claims.json").read_text())
        return ledger


@pytest.fixture
def build(tmp_path: Path, workers_for: WorkersFor) -> Building:
    return Building(tmp_path, workers_for)


@pytest.fixture(scope="module")
def built(
    tmp_path_factory: pytest.TempPathFactory, workers_for: WorkersFor
) -> Callable[..., Building]:
    """Build a site once for all tests of a module that only read it."""
    sites: dict[str, Building] = {}

    def once(**site: Any) -> Building:
        key = repr(site)
        if key not in sites:
            sites[key] = Building(tmp_path_factory.mktemp("site"), workers_for)
            sites[key].outcome = sites[key](**site)
        return sites[key]

    return once
