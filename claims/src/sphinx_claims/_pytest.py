"""The pytest plugin: collect the pages in pyproject.toml, with one test item for each claim.

Large modules are imported when needed, so that other projects do not pay for them.
"""

import difflib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sphinx_claims._config import Config, install_hint, read_config

if TYPE_CHECKING:  # the functions below import these when they run
    from sphinx_claims._judging.prover import Prover
    from sphinx_claims._judging.site import SiteVerdict
    from sphinx_claims._page import Page

REST = "page"
"""The item of what belongs to no claim; the id of a claim has a slash."""

_ANNOTATION = "annotation"


class _Project:
    """The settings of one pyproject.toml, its pages, and the prover that judges them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.files = frozenset(file.resolve() for file in config.files())

    @functools.cached_property
    def prover(self) -> "Prover":
        """Return the prover, which reads and judges the pages."""
        from sphinx_claims._judging.prover import Prover  # noqa: PLC0415 - where it is asked for

        return Prover(self.config)

    def judge(self, page: "Page", *, update: bool) -> "SiteVerdict":
        """Judge a page; with `update`, rewrite its outdated outputs first."""
        from sphinx_claims._update import update_outputs  # noqa: PLC0415 - imports much

        site = self.prover.judge([page])
        for diff in update_outputs(site, self.config.root)[0] if update else ():
            print(diff)
            (page,) = self.prover.read([self.config.root / page.path])
            site = self.prover.judge([page])
        return site

    def close(self) -> None:
        """End the processes."""
        if "prover" in vars(self):
            self.prover.close()


_PROJECTS = pytest.StashKey[dict[Path, _Project | str]]()
"""By folder: the project that its pages belong to, or what is wrong with its table."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update`."""
    told = "rewrite outdated outputs of pages and snapshots, and print the diff"
    parser.addoption("--update", action="store_true", help=told)


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Return a function that compares a text with a file; with `--update`, it rewrites the file."""

    def compare(file: Path, text: str) -> None:
        kept = file.read_text(encoding="utf-8") if file.is_file() else ""
        if text == kept:
            return
        lines = kept.splitlines(), text.splitlines()
        diff = "\n".join(difflib.unified_diff(*lines, str(file), str(file), lineterm=""))
        if not request.config.getoption("--update"):
            pytest.fail(f"{diff}\n(--update rewrites the file)", pytrace=False)
        file.write_text(text, encoding="utf-8")
        print(diff)

    return compare


def pytest_configure(config: pytest.Config) -> None:
    """Start with an empty mapping of projects."""
    config.stash[_PROJECTS] = {}


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the processes of all projects."""
    for project in config.stash[_PROJECTS].values():
        if isinstance(project, _Project):
            project.close()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "_PageFile | None":
    """Collect a page that the nearest pyproject.toml names, if its path was passed to pytest."""
    if file_path.suffix != ".md":
        return None
    projects = parent.config.stash[_PROJECTS]
    if file_path.parent not in projects:
        projects[file_path.parent] = _project(file_path.parent, projects)
    project = projects[file_path.parent]
    if isinstance(project, _Project) and file_path.resolve() not in project.files:
        return None
    page: _PageFile = _PageFile.from_parent(parent, path=file_path, project=project)
    return page


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Annotate the red lines on GitHub."""
    for report in terminalreporter.getreports("failed"):
        for name, value in report.user_properties:
            if name == _ANNOTATION:
                terminalreporter.write_line(str(value))


def _project(folder: Path, projects: dict[Path, _Project | str]) -> _Project | str:
    try:
        config = read_config(folder)
        known = (project for project in projects.values() if isinstance(project, _Project))
        same = (project for project in known if project.config.root == config.root)
        return next(same, None) or _Project(config)
    except (OSError, ValueError) as error:
        return str(error)


class _PageFile(pytest.File):
    """A page: executed once, when the first of its items runs."""

    def __init__(self, *, project: _Project | str, **options: Any) -> None:
        super().__init__(**options)
        self._project = project

    def collect(self) -> Iterator["_ClaimItem"]:
        """Read the page, and yield an item for each claim and one for the rest."""
        if isinstance(self._project, str):
            raise self.CollectError(self._project)
        try:
            (page,) = self._project.prover.read([self.path])
        except ModuleNotFoundError as error:
            message = f"this page cannot be judged: {install_hint(error)}: {error}"
            raise self.CollectError(message) from None
        is_updating = self.config.getoption("--update")
        once = functools.cache(functools.partial(self._project.judge, page, update=is_updating))
        for name, line in {**{claim.id: claim.line for claim in page.claims}, REST: 1}.items():
            options = {"line": line, "judge": once, "settings": self._project.config}
            yield _ClaimItem.from_parent(self, name=name, **options)


class _ClaimItem(pytest.Item):
    """One claim of a page, or all checks of the page outside claims."""

    def __init__(
        self, *, line: int, judge: Callable[[], "SiteVerdict"], settings: Config, **options: Any
    ) -> None:
        super().__init__(**options)
        self._line, self._judge, self._settings = line, judge, settings

    def runtest(self) -> None:
        """Fail with the red lines, without a traceback: they already name lines of the page."""
        from sphinx_claims._judging.report import annotations, red_lines  # noqa: PLC0415 - as above

        try:
            site = self._judge()
        except RuntimeError as error:
            pytest.fail(str(error), pytrace=False)
        red = [line for line in red_lines(site) if (line.claim or REST) == self.name]
        told = annotations(red, self._settings.root)
        self.user_properties += [(_ANNOTATION, annotation) for annotation in told]
        if red:
            pytest.fail("\n".join(map(str, red)), pytrace=False)
        words = {claim.word for claim in site.claims if claim.claim.id == self.name}
        if "false" in words:
            pytest.fail("not proven: an earlier line of the page failed", pytrace=False)
        if "skipped" in words:
            package = self._settings.package
            pytest.skip(f"outside the versions of {package} that it is claimed for")

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the file, the line (counted from 0) and the name of the claim."""
        return self.path, self._line - 1, self.name
