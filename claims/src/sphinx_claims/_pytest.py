"""The pytest plugin. It collects the pages in pyproject.toml, with one test item per claim.

Large modules are imported only when needed, to keep pytest fast in projects without such pages.
"""

import difflib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sphinx_claims._config import Config, install_hint, read_config

if TYPE_CHECKING:  # Functions below import these when they run.
    from sphinx_claims._judging.prover import Prover
    from sphinx_claims._judging.site import SiteVerdict
    from sphinx_claims._page import Page

REST = "page"
"""The name of the item for all checks outside claims. The id of a claim contains a slash."""

_ANNOTATION = "annotation"


class _Project:
    """The settings of one pyproject.toml, its pages, and the prover that judges them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.files = frozenset(file.resolve() for file in config.files())

    @functools.cached_property
    def prover(self) -> "Prover":
        """Return the prover, which reads and judges the pages."""
        from sphinx_claims._judging.prover import Prover  # noqa: PLC0415 - a large module

        return Prover(self.config)

    def judge(self, page: "Page", *, update: bool) -> "SiteVerdict":
        """Judge a page and return the verdict.

        With `update`, rewrite its outdated outputs first.
        """
        from sphinx_claims._update import update_outputs  # noqa: PLC0415 - a large module

        site = self.prover.judge([page])
        for diff in update_outputs(site, self.config.root)[0] if update else ():
            print(diff)
            (page,) = self.prover.read([self.config.root / page.path])
            site = self.prover.judge([page])
        return site

    def close(self) -> None:
        """End the worker processes."""
        if "prover" in vars(self):
            self.prover.close()


_PROJECTS = pytest.StashKey[dict[Path, _Project | str]]()
"""For each folder: the project of its pages, or a message if its settings are invalid."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--update` to pytest."""
    told = "rewrite outdated outputs of pages and snapshots, and print the diff"
    parser.addoption("--update", action="store_true", help=told)


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Return a function that fails if a text differs from the text in a file.

    With `--update`, the function rewrites the file instead.
    """

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
    """Create an empty mapping from folders to projects."""
    config.stash[_PROJECTS] = {}


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the worker processes of all projects."""
    for project in config.stash[_PROJECTS].values():
        if isinstance(project, _Project):
            project.close()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "_PageFile | None":
    """Return a collector for a Markdown file that the nearest pyproject.toml names, or None."""
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
    """Print commands that annotate the problems on GitHub Actions."""
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
    """Collects the items of a page. The page is executed once, when its first item runs."""

    def __init__(self, *, project: _Project | str, **options: Any) -> None:
        super().__init__(**options)
        self._project = project

    def collect(self) -> Iterator["_ClaimItem"]:
        """Read the page. Yield an item for each claim, and one for everything outside claims."""
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
    """A test item: one claim of a page, or all checks of the page outside claims."""

    def __init__(
        self, *, line: int, judge: Callable[[], "SiteVerdict"], settings: Config, **options: Any
    ) -> None:
        super().__init__(**options)
        self._line, self._judge, self._settings = line, judge, settings

    def runtest(self) -> None:
        """Judge the page. Fail with the problems of this claim, or because it was not proven.

        Skip the item if the claim is not for this version of the package. Failures have no
        traceback, because they already name lines of the page.
        """
        from sphinx_claims._judging.report import annotations, red_lines  # noqa: PLC0415 - a large module

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
        """Return the file, the line (counted from 0) and the name of the item, for pytest."""
        return self.path, self._line - 1, self.name
