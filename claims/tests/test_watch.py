"""`claims watch` judges saved pages, and all pages if another file changes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sphinx_claims.__main__ import main
from sphinx_claims._watching import watch

PAGE = ":::{{claim}} {0}/two\nA sum.\n:::\n\n{{claim}}`1 + 1 == {1}`\n"
USES = "```{code-cell} python\nimport helper\nassert helper.NUMBER == 2\n```\n"

Look = Callable[..., list[list[str]]]


@pytest.fixture
def looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Look:
    """Return a function that saves files one by one.

    It returns what is printed before each file, and at the end.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    Path("pyproject.toml").write_text("[tool.claims]\npages = ['docs']\n")
    Path("docs").mkdir()
    for name in "ab":
        Path(f"docs/{name}.md").write_text(PAGE.format(name, 2))

    def look(*changes: tuple[str, str | None]) -> list[list[str]]:
        printed: list[list[str]] = []

        def saved() -> Iterator[set[Path]]:
            for name, text in changes:
                printed.append(lines())
                file = Path(name)
                file.unlink() if text is None else file.write_text(text)
                yield {file.resolve()}

        def lines() -> list[str]:
            out, error = capsys.readouterr()
            return [line.partition("  (")[0] for line in (out + error).splitlines()]

        watch((), saved())
        return [*printed, lines()]

    return look


def test_watch_judges_only_the_saved_page(looks: Look) -> None:
    first, saved = looks(("docs/a.md", PAGE.format("a", 3)))
    assert first[:2] == ["true   docs/a.md", "true   docs/b.md"]
    assert first[2].startswith("2 pages, 2 claims, 2 checks: all true (")
    assert saved[:2] == [
        "false  docs/a.md",
        "docs/a.md:5: a/two: claim is FALSE: 1 + 1 == 3, where it is False",
    ]


def test_watch_judges_new_and_removed_pages_and_reports_errors(looks: Look) -> None:
    _, new, gone, broken, mended = looks(
        ("docs/c.md", PAGE.format("c", 2)),
        ("docs/a.md", None),
        ("pyproject.toml", "[tool.claims]\npage = []\n"),
        ("pyproject.toml", "[tool.claims]\npages = ['docs']\n"),
    )
    assert new == ["true   docs/c.md"]
    assert gone[:2] == mended[:2] == ["true   docs/b.md", "true   docs/c.md"]
    assert broken[0].startswith("error: [tool.claims] holds ")


def test_watch_judges_everything_after_module_changes(looks: Look) -> None:
    _, page, right, wrong = looks(
        ("docs/b.md", USES), ("docs/helper.py", "NUMBER = 2\n"), ("docs/helper.py", "NUMBER = 30\n")
    )
    assert "ModuleNotFoundError" in page[1]
    assert right[:2] == ["true   docs/a.md", "true   docs/b.md"]
    assert wrong[1] == "false  docs/b.md"


def test_watch_ends_with_control_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_paths: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sphinx_claims._watching.watch", interrupt)
    assert main(["watch"]) == 0


def test_version_option_prints_the_version() -> None:
    command = [sys.executable, "-m", "sphinx_claims", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sphinx-claims ")
