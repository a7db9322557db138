"""`claims verify`: lines, exit status, and which pages it takes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sphinx_claims.__main__ import main
from tests.processes import link, needs_proc

pytestmark = pytest.mark.usefixtures("shared_processes")

TRUE = "# Page\n\n:::{claim} sums/two\nA sum.\n:::\n\n{claim}`1 + 1 == 2`\n"
TABLE = "[tool.claims]\n"
FALSE = TRUE.replace("sums/two", "sums/three").replace("== 2", "== 3")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    (tmp_path / "pyproject.toml").write_text(TABLE)
    return tmp_path


def _told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_true_pages_end_with_status_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "page.md").write_text(TRUE)
    assert main(["verify", "page.md"]) == 0
    page, total = _told(capsys)
    assert page.startswith("true   page.md  (1 claim, 1 check, ")
    assert total.startswith("1 page, 1 claim, 1 check: all true (")


def test_false_pages_end_with_status_1_and_every_red_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "docs").mkdir()
    (folder / "docs" / "a.md").write_text(FALSE)
    (folder / "docs" / "b.md").write_text("# B\n\n{claim}`2 > 3`\n")
    (folder / "docs" / "_build").mkdir()
    (folder / "docs" / "_build" / "c.md").write_text(FALSE)
    assert main(["verify", "docs", "--json", "claims.json"]) == 1
    *pages, first, sentence, second, total = _told(capsys)
    assert [page[:16] for page in pages] == ["false  docs/a.md", "false  docs/b.md"]
    assert first == "docs/a.md:7: sums/three: claim is FALSE: 1 + 1 == 3, where it is False"
    assert sentence == '    not proven: "A sum."'
    assert second == "docs/b.md:3: claim is FALSE: 2 > 3, where it is False"
    assert total.startswith("2 pages, 1 claim, 2 checks: 2 problems (")
    ledger = json.loads((folder / "claims.json").read_text())
    (claim,) = ledger["claims"]
    assert (claim["id"], claim["verdict"]) == ("sums/three", "false")
    found = "claim is FALSE: 1 + 1 == 3, where it is False"
    assert claim["problems"] == [{"line": 7, "message": found}]
    assert [problem["page"] for problem in ledger["problems"]] == ["docs/b.md"]


def test_without_paths_pyproject_says_what_is_verified(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "library.py").write_text(
        '"""A library."""\n__all__ = ["one"]\n\n\ndef one():\n    """\n    >>> 1\n    2\n    """\n'
    )
    (folder / "README.md").write_text(TRUE)
    (folder / "pyproject.toml").write_text(
        TABLE + "pages = ['README.md']\ndocstrings = ['library', 'missing']\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *sys.path]))
    assert main(["verify"]) == 1
    error = "ModuleNotFoundError: No module named 'missing'"
    assert _told(capsys)[3:-1] == [
        "library.py:7: example is FALSE: 1",
        "    expected: 2",
        "    got: 1",
        f"missing:1: the docstrings of missing cannot be read: {error}",
    ]


def test_claims_must_have_ids_of_their_own_and_known_sources(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sourced = TRUE.replace("two\n", "two\n:sources: article L1, rumour L2\n\n")
    (folder / "a.md").write_text(TRUE)
    (folder / "b.md").write_text(sourced)
    (folder / "pyproject.toml").write_text(
        TABLE + "pages = ['a.md', 'b.md']\ndocuments = { article = 'An article' }\n"
    )
    assert main(["verify"]) == 1
    rule = "a source begins with a document that pyproject.toml names"
    assert _told(capsys)[2:-1] == [
        f"b.md:3: sums/two: {rule} (article), not 'rumour'",
        "b.md:3: claim sums/two stands at a.md:3 already",
        '    not proven: "A sum."',
    ]


def test_a_page_may_stand_outside_the_project(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "project").mkdir()
    (folder / "pyproject.toml").rename(folder / "project" / "pyproject.toml")
    (folder / "page.md").write_text(FALSE)
    monkeypatch.chdir(folder / "project")
    assert main(["verify", "../page.md"]) == 1
    assert _told(capsys)[1].startswith("../page.md:7: sums/three: claim is FALSE")


def test_an_older_ledger_does_not_outlive_a_run_that_fails(folder: Path) -> None:
    (folder / "claims.json").write_text("old")
    assert main(["verify", "nowhere.md", "--json", "claims.json"]) == 2
    assert (folder / "claims.json").read_text() == ""


KEYS = (
    "docstrings, doctest_default_flags, doctest_global_setup, documents, glossary, package, pages"
    ", preload, processes, python_fences, timeout, translations, versions"
)
ERRORS = {
    "missing": (["nowhere.md"], "", "a page or folder of pages must exist: nowhere.md does not"),
    "not-a-page": (["pyproject.toml"], "", "a page must be Markdown (.md), not pyproject.toml"),
    "no-page": (["."], "", "there is no page in .: a page is Markdown (.md)"),
    "no-pages": (
        [],
        "",
        "there is nothing to judge: name pages, or set pages or docstrings in [tool.claims]",
    ),
    "unknown-key": (
        [],
        "[tool.claims]\npage = []\n",
        "{table} holds {keys}, not 'page'",
    ),
    "no-list": (
        [],
        "[tool.claims]\npages = 'docs'\n",
        "pages in [tool.claims] must be a list of files and folders, not 'docs'",
    ),
    "no-number": (
        [],
        "[tool.claims]\ntimeout = '60'\n",
        "timeout in {table} must be a number of seconds above 0 and below 1,000,000, not '60'",
    ),
    "no-time": (
        [],
        "[tool.claims]\ntimeout = -1\n",
        "timeout in {table} must be a number of seconds above 0 and below 1,000,000, not -1",
    ),
    "no-package": (
        [],
        "[tool.claims]\npackage = 'claims'\n",
        "package in {table} must be the name of a module, and no key of the ledger, not 'claims'",
    ),
    "versions-of-nothing": (
        [],
        "[tool.claims]\nversions = 'runs'\n",
        "versions in {table} needs package: the name of what they are versions of",
    ),
    "package-that-is-not-there": (
        ["page.md"],
        "[tool.claims]\npackage = 'no_such_package'\n",
        "package in {table} must have a version: {missing} 'no_such_package'",
    ),
    "package-without-a-version": (
        ["page.md"],
        "[tool.claims]\npackage = 'this'\n",
        "package in {table} must have a version: this has none",
    ),
    "no-titles": (
        [],
        "[tool.claims]\ndocuments = { article = 1 }\n",
        "documents in [tool.claims] must be a table of titles, not {'article': 1}",
    ),
    "no-table": (
        [],
        "[tool]\nclaims = 3\n",
        "[tool.claims] must be a table, not 3",
    ),
    "no-such-page": (
        [],
        "[tool.claims]\npages = ['gone']\n",
        "a page or folder of pages must exist: {folder}/gone does not",
    ),
    "no-toml": (
        [],
        "[tool.claims]\npages = [",
        "{folder}/pyproject.toml must be TOML in UTF-8: Invalid value (at end of document)",
    ),
    "no-folder": (
        ["--json", "no/claims.json"],
        "[tool.claims]\n",
        "no/claims.json: No such file or directory",
    ),
}


@pytest.mark.parametrize(("paths", "toml", "error"), ERRORS.values(), ids=ERRORS)
def test_what_cannot_be_verified_ends_with_status_2_and_one_line(
    paths: list[str], toml: str, error: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text(toml)
    if "page.md" in paths:
        (folder / "page.md").write_text(TRUE)
    assert main(["verify", *paths]) == 2
    told = (
        error.replace("{folder}", str(folder))
        .replace("{table}", TABLE.splitlines()[0])
        .replace("{keys}", KEYS)
        .replace("{missing}", "ModuleNotFoundError: No module named")
    )
    assert capsys.readouterr().err == f"error: {told}\n"


def test_what_is_wrong_with_the_toml_of_others_is_not_told(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.other\n")
    (folder / "page.md").write_text(TRUE)
    assert main(["verify", "page.md"]) == 0


@pytest.mark.parametrize(
    ("command", "module", "cure"),
    [
        ("verify", "yaml", "./claims` in a clone of leafgrad: "),
        ("watch", "watchfiles", "watchfiles`: "),
    ],
)
def test_without_what_it_needs_the_cure_is_told(command: str, module: str, cure: str) -> None:
    without = f"import sys; sys.modules[{module!r}] = None; sys.argv = ['', {command!r}]"
    run = f"{without}; import runpy; runpy.run_module('sphinx_claims', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", run], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: something is missing: run `python3 -m pip install {cure}"
    )


def test_a_page_that_cannot_be_read_is_red(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.md").write_bytes(b"\xff\xfe\x00")
    (folder / "b.md").write_text("---\na: [\n---\n")
    (folder / "c.md").write_text("---\nmystnb:\n  execution_mode: 'off'\n---\n")
    (folder / "d.md").write_bytes(b"\xef\xbb\xbf# Page\r\n\r\n{claim}`1 > 2`\r\n")
    assert main(["verify", "."]) == 1
    told = _told(capsys)[4:-1]
    assert told[0].startswith("a.md:1: a page must be UTF-8: ")
    assert told[1].startswith("b.md:1: front matter must be YAML: ")
    assert told[2].startswith("c.md:1: front matter must not set mystnb.execution_mode: ")
    assert told[3] == "d.md:3: claim is FALSE: 1 > 2, where it is False"


def test_a_link_to_no_page_is_red(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link(folder / "page.md", "nowhere.md")
    assert main(["verify", "."]) == 1
    assert _told(capsys)[1] == "nowhere.md:1: a page must be a file"


HANGS = """\
```{code-cell} python
import os, pathlib, time
pathlib.Path("pid").write_text(str(os.getpid()));
time.sleep(600)
```
"""


def _verify(folder: Path, stdout: int) -> "subprocess.Popen[str]":
    (folder / "a.md").write_text("# A\n")
    (folder / "b.md").write_text(HANGS)
    command = [sys.executable, "-m", "sphinx_claims", "verify", "a.md", "b.md"]
    return subprocess.Popen(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, process_group=0
    )


def _wait(happens: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@needs_proc
@pytest.mark.usefixtures("interruptible")
def test_control_c_ends_everything_at_once(folder: Path) -> None:
    pid = folder / "pid"
    with _verify(folder, subprocess.DEVNULL) as running:
        _wait(lambda: pid.is_file() and pid.read_text())
        os.killpg(running.pid, signal.SIGINT)
        _, error = running.communicate(timeout=30)
    assert (running.returncode, error) == (130, "")
    _wait(lambda: not Path("/proc", pid.read_text()).exists())


@needs_proc
def test_where_nobody_reads_on_everything_ends(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with _verify(folder, writer) as running:
        os.close(writer)
        _, error = running.communicate(timeout=30)
    assert (running.returncode, error) == (141, "")
    if (folder / "pid").is_file():  # it may have ended before it began
        _wait(lambda: not Path("/proc", (folder / "pid").read_text()).exists())
