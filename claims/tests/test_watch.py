"""`watch` judges what was saved, and all of it where there is no telling what a change means.

Each look waits for a file that is saved after all others: no test waits for a clock.
"""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import watchfiles

from sphinx_claims._watching import Watcher, _files, watch
from tests.processes import needs_proc

pytestmark = pytest.mark.usefixtures("processes_uncounted")

PAGE = "# Page\n\n:::{{claim}} {0}/two\nA sum.\n:::\n\n{{claim}}`1 + 1 == {1}`\n"
USES = """\
# Page

```{code-cell} python
import sys
sys.path.append(".")
import helper
assert helper.NUMBER == 2
```
"""
TABLE = "[tool.claims]\npages = ['docs']\n"

Step = Callable[[], object]


class Project:
    """A folder of pages, and what `watch` told after each change to it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.write("pyproject.toml", TABLE)
        self.write("docs/a.md", PAGE.format("a", 2))
        self.write("docs/b.md", PAGE.format("b", 2))

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def told(self, *steps: Step, paths: tuple[Path, ...] = ()) -> list[list[str]]:
        """Return the lines of the first look, and of a look after each step, without times."""
        told: list[list[str]] = []

        def looks() -> Iterator[set[Path]]:
            saved = Watcher(paths).saved()
            yield next(saved)
            for step in steps:
                told.append(self._lines())
                step()
                yield self.saved_until_now(saved)

        watch(paths, looks())
        return [*told, self._lines()]

    def saved_until_now(self, saved: Iterator[set[Path]]) -> set[Path]:
        """Return what was saved before this call, read from what a watcher yields."""
        last, found = self.write("docs/last.of_all", f"{time.monotonic()}"), set[Path]()
        while last not in found:
            found |= next(saved)
        return found - {last}

    def _lines(self) -> list[str]:
        out, error = self._capsys.readouterr()
        return [line.partition("  (")[0] for line in (out + error).splitlines()]


@pytest.fixture
def project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Project:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return Project(tmp_path, capsys)


def test_a_page_that_was_saved_is_judged_again_and_no_other(project: Project) -> None:
    first, saved, nothing = project.told(
        lambda: project.write("docs/a.md", PAGE.format("a", 3)), lambda: None
    )
    assert first[:2] == ["true   docs/a.md", "true   docs/b.md"]
    assert first[2].startswith("2 pages, 2 claims, 2 checks: all true (")
    assert saved == [
        "false  docs/a.md",
        "docs/a.md:7: a/two: claim is FALSE: 1 + 1 == 3, where it is False",
        '    not proven: "A sum."',
    ]
    assert nothing == []


def test_a_page_comes_and_goes(project: Project) -> None:
    page = project.folder / "docs" / "c.md"
    _, new, gone = project.told(lambda: page.write_text(PAGE.format("c", 2)), page.unlink)
    assert new == ["true   docs/c.md"]
    assert gone == ["gone   docs/c.md"]


@pytest.mark.covered_elsewhere
def test_a_page_that_waited_for_an_id_is_judged_when_it_is_free(project: Project) -> None:
    b = project.folder / "docs" / "b.md"
    _, twice, renamed, again, alone = project.told(
        lambda: b.write_text(PAGE.format("a", 2)),
        lambda: project.write("docs/a.md", PAGE.format("other", 2)),
        lambda: project.write("docs/a.md", PAGE.format("a", 2)),
        b.unlink,
    )
    assert twice[:2] == [
        "false  docs/b.md",
        "docs/b.md:3: claim a/two stands at docs/a.md:3 already",
    ]
    assert renamed == ["true   docs/a.md", "true   docs/b.md"]
    assert again[:2] == [
        "false  docs/a.md",
        "docs/a.md:3: claim a/two stands at docs/b.md:3 already",
    ]
    assert alone == ["gone   docs/b.md", "true   docs/a.md"]


def test_an_editor_may_save_by_renaming(project: Project) -> None:
    def save() -> None:
        project.write("docs/a.md~", PAGE.format("a", 2))
        project.write("docs/4913", "")
        project.write("docs/.a.md.swp", PAGE.format("a", 3)).replace(project.folder / "docs/a.md")

    _, saved = project.told(save)
    assert saved[0] == "false  docs/a.md"
    assert len(saved) == 3


def test_a_page_that_is_moved_away_for_a_moment_is_missed_and_then_judged(project: Project) -> None:
    page, aside = project.folder / "docs" / "a.md", project.folder / ".aside"
    _, away, back = project.told(
        lambda: page.rename(aside), lambda: aside.rename(page), paths=(Path("docs/a.md"),)
    )
    assert away == ["gone   docs/a.md"]
    assert back == ["true   docs/a.md"]


@pytest.mark.parametrize("name", ["helper.py", "docs/helper.py", "number.json"])
def test_when_anything_else_changes_all_is_judged_by_a_new_process(
    name: str, project: Project
) -> None:
    project.write("docs/helper.py", "NUMBER = 2\n")
    project.write("docs/a.md", USES)
    project.write(name, "NUMBER = 2\n")
    _, again = project.told(lambda: project.write(name, "NUMBER = 3\n"))
    assert [line.split()[1] for line in again[:2]] == ["docs/a.md", "docs/b.md"]
    assert again[0].startswith("false" if name == "docs/helper.py" else "true")


@pytest.mark.covered_elsewhere
def test_what_a_page_writes_itself_does_not_go_on_for_ever(project: Project) -> None:
    writes = (
        "```{code-cell} python\nfrom pathlib import Path\nPath('out.txt').write_text('2');\n```\n"
    )
    project.write("docs/a.md", writes)
    first, once, nothing = project.told(lambda: None, lambda: None)
    assert (len(first), len(once), nothing) == (3, 3, [])


def test_what_is_wrong_is_told_and_watched_on(project: Project) -> None:
    broken, mended, unreadable, binary = project.told(
        lambda: project.write("pyproject.toml", TABLE.replace("'docs'", "docs")),
        lambda: project.write("pyproject.toml", TABLE),
        lambda: (project.folder / "docs" / "a.md").write_bytes(b"\xff"),
    )[0:4]
    assert broken[:2] == ["true   docs/a.md", "true   docs/b.md"]
    assert mended[0].startswith("error: ")
    assert "pyproject.toml must be TOML" in mended[0]
    assert unreadable[:2] == ["true   docs/a.md", "true   docs/b.md"]
    assert binary[0] == "false  docs/a.md"
    assert binary[1].startswith("docs/a.md:1: a page must be UTF-8")


def test_environments_builds_and_hidden_files_are_passed_over(project: Project) -> None:
    kept = ["a.md", "b.py", "folder/c.csv", "_folder/d.py"]
    passed = ["a.md~", ".b.py", "4913", "e.tmp", ".git/a.md", "_build/a.md", "v/pyvenv.cfg"]
    saved = Watcher(()).saved()
    assert next(saved) == set()
    for name in (*kept, *passed, "v/lib/a.py"):
        (project.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (project.folder / name).touch()
    assert project.saved_until_now(saved) == {project.folder / name for name in kept}


def test_what_came_and_went_was_not_saved(tmp_path: Path) -> None:
    """The system may tell of the two apart, so the changes are given here, not made."""
    came_and_went = [str(tmp_path / name) for name in ("out.txt", "out", "out/a.txt")]
    both = (watchfiles.Change.added, watchfiles.Change.deleted)
    went = str(tmp_path / "was_there.txt")
    changes = {*itertools.product(both, came_and_went), (watchfiles.Change.deleted, went)}
    assert [*_files(changes)] == [Path(went)]


def test_a_page_that_is_saved_while_another_is_judged_is_judged_again(project: Project) -> None:
    saves = f"""```{{code-cell}} python
from pathlib import Path
Path("b.md").write_text({PAGE.format("b", 3)!r});
```
"""
    b = project.folder / "docs" / "b.md"
    project.write("docs/a.md", saves)
    with Watcher(()) as watcher:
        saved = watcher.saved()
        watcher.judge(next(saved))
        assert project.saved_until_now(saved) == {b}


def test_a_page_in_a_new_folder_and_files_in_one_that_goes_are_noticed(project: Project) -> None:
    project.write("data/number.csv", "2")
    _, new, gone = project.told(
        lambda: project.write("docs/new/c.md", PAGE.format("c", 2)),
        lambda: (project.folder / "data").rename(project.folder / ".data"),
    )
    assert new == ["true   docs/new/c.md"]
    assert gone[:3] == ["true   docs/a.md", "true   docs/b.md", "true   docs/new/c.md"]


def test_a_page_that_stands_elsewhere_is_watched_and_nothing_beside_it(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page, beside = (tmp_path_factory.mktemp("elsewhere") / name for name in ("c.md", "d.py"))
    page.write_text(PAGE.format("c", 2))

    def save() -> None:
        beside.touch()
        page.with_suffix(".new").write_text(PAGE.format("c", 3))
        page.with_suffix(".new").replace(page)

    _, saved = project.told(save, paths=(page,))
    assert saved[0].startswith("false ")
    assert len(saved) == 3


@needs_proc
@pytest.mark.usefixtures("interruptible")
def test_control_c_ends_it_in_peace_and_leaves_no_process(project: Project) -> None:
    hangs = "```{code-cell} python\nimport os, time\nopen('pid', 'w').write(str(os.getpid()));\n"
    project.write("docs/c.md", hangs + "time.sleep(600)\n```\n")
    command = [sys.executable, "-m", "sphinx_claims", "watch"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as running:
        pid = _waited_for(project.folder / "docs" / "pid")
        os.killpg(running.pid, signal.SIGINT)
        _, error = running.communicate(timeout=20)
    assert (running.returncode, error) == (0, "")
    assert _is_gone(pid)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no signal for a group")
@pytest.mark.usefixtures("interruptible", "project")
def test_control_c_ends_it_in_peace_while_it_waits() -> None:
    command = [sys.executable, "-m", "sphinx_claims", "watch"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        next(line for line in running.stdout if "all true" in line)
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=20)
    assert (running.returncode, error) == (0, "")


def _waited_for(file: Path) -> int:
    deadline = time.monotonic() + 60
    while not (file.is_file() and file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(file.read_text())


def _is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not Path(f"/proc/{pid}").exists()
