"""`claims verify`: its lines, its exit status, and the pages that it judges."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import is_running, link, needs_proc, wait

TRUE = "# Page\n\n:::{claim} sums/two\nA sum.\n:::\n\n{claim}`1 + 1 == 2`\n"
FALSE = TRUE.replace("sums/two", "sums/three").replace("== 2", "== 3")
Claims = Any
"""The fixture `claims`: runs the command beside files."""


def test_true_pages_end_with_status_0(claims: Claims) -> None:
    Path("pyproject.toml").write_text("[tool.other\n")  # errors in other tables are not reported
    status, (page, total), _ = claims("verify", "page.md", page=TRUE)
    assert (status, page[:35]) == (0, "true   page.md  (1 claim, 1 check, ")
    assert total.startswith("1 page, 1 claim, 1 check: all true (")


def test_false_pages_end_with_status_1_and_every_problem(claims: Claims) -> None:
    Path("docs/_build").mkdir(parents=True)
    pages = {"docs/a.md": FALSE, "docs/b.md": "# B\n\n{claim}`2 > 3`\n", "docs/_build/c.md": FALSE}
    status, lines, _ = claims("verify", "docs", "--json", "claims.json", toml="", **pages)
    *verdicts, first, sentence, second, total = lines
    found = "claim is FALSE: 1 + 1 == 3, where it is False"
    assert [page[:16] for page in verdicts] == ["false  docs/a.md", "false  docs/b.md"]
    assert (status, first) == (1, f"docs/a.md:7: sums/three: {found}")
    assert sentence == '    not proven: "A sum."'
    assert second == "docs/b.md:3: claim is FALSE: 2 > 3, where it is False"
    assert total.startswith("2 pages, 1 claim, 2 checks: 2 problems (")
    ledger = json.loads(Path("claims.json").read_text())
    (claim,) = ledger["claims"]
    assert (claim["id"], claim["verdict"]) == ("sums/three", "false")
    assert claim["problems"] == [{"line": 7, "message": found}]
    assert [problem["page"] for problem in ledger["problems"]] == ["docs/b.md"]


def test_verify_without_paths_takes_them_from_pyproject(claims: Claims) -> None:
    table = "pages = ['README.md']\ndocstrings = ['library', 'missing']\n"
    library = (
        '"""A library."""\n__all__ = ["one"]\n\n\ndef one():\n    """\n    >>> 1\n    2\n    """\n'
    )
    run = claims("verify", toml=table, README=TRUE, **{"library.py": library})
    error = "ModuleNotFoundError: No module named 'missing'"
    assert run.status == 1
    assert run.lines[3:-1] == [
        "library.py:7: example is FALSE: 1",
        "    expected: 2",
        "    got: 1",
        f"missing:1: the docstrings of missing cannot be read: {error}",
    ]


def test_repeated_id_and_unknown_source_of_a_claim_are_reported(claims: Claims) -> None:
    sourced = TRUE.replace("two\n", "two\n:sources: article L1, rumour L2\n\n")
    table = "pages = ['a.md', 'b.md']\ndocuments = { article = 'An article' }\n"
    run = claims("verify", toml=table, a=TRUE, b=sourced)
    rule = "a source begins with a document that pyproject.toml names"
    assert run.status == 1
    assert run.lines[2:4] == [
        f"b.md:3: sums/two: {rule} (article), not 'rumour'",
        "b.md:3: claim sums/two stands at a.md:3 already",
    ]


def test_page_outside_the_project_is_judged(
    claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("project").mkdir()
    Path("page.md").write_text(FALSE)
    monkeypatch.chdir("project")
    run = claims("verify", "../page.md", toml="")
    assert run.status == 1
    assert run.lines[1].startswith("../page.md:7: sums/three: claim is FALSE")


WRONG = {
    "page = []": "[tool.claims] holds docstrings, doctest_default_flags, doctest_global_setup,",
    "pages = 'docs'": "pages in [tool.claims] must be a list of files and folders, not 'docs'",
    "pages = ['gone']": "a page or folder of pages must exist: ",
    "pages = [": "/pyproject.toml must be TOML in UTF-8: Invalid value (at end of document)",
    "timeout = '60'": "must be a number of seconds above 0 and below 1,000,000, not '60'",
    "timeout = -1": "must be a number of seconds above 0 and below 1,000,000, not -1",
    "package = 'claims'": "must have a version: claims has none",
    "package = 'no_such_package'": "must have a version: ModuleNotFoundError: No module named",
    "package = 'this'": "package in [tool.claims] must have a version: this has none",
    "versions = 'runs'": "versions in [tool.claims] needs package: ",
    "documents = { article = 1 }": "must be a table of titles, not {'article': 1}",
    "doctest_default_flags = ['NO']": "must be a list of option flags of doctest, not ['NO']",
    "[tool]\nclaims = 3": "[tool.claims] must be a table, not 3",
    "": "there is nothing to judge: name pages, or set pages or docstrings in [tool.claims]",
}


@pytest.mark.parametrize(("toml", "message"), WRONG.items(), ids=range(len(WRONG)))
def test_invalid_settings_end_with_status_2_and_one_line(
    claims: Claims, toml: str, message: str
) -> None:
    Path("page.md").write_text(TRUE)
    Path("pyproject.toml").write_text(toml if "claims =" in toml else f"[tool.claims]\n{toml}\n")
    status, (line,), _ = claims("verify", *(["page.md"] if toml.startswith("package") else []))
    assert (status, line[:7]) == (2, "error: ")
    assert message in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere.md", "a page or folder of pages must exist: nowhere.md does not"),
        ("pyproject.toml", "a page must be Markdown (.md), not pyproject.toml"),
        (".", "there is no page in .: a page is Markdown (.md)"),
        ("--json no/claims.json", "no/claims.json: No such file or directory"),
        ("nowhere.md --json claims.json", "a page or folder of pages must exist: nowhere.md"),
    ],
)
def test_wrong_paths_end_with_status_2_and_one_line(
    claims: Claims, arguments: str, message: str
) -> None:
    Path("claims.json").write_text("old")
    status, (line,), _ = claims("verify", *arguments.split(), toml="")
    assert (status, line[: 7 + len(message)]) == (2, f"error: {message}")
    # No ledger outlives a run that fails.
    assert Path("claims.json").read_text() == ("" if arguments.endswith(" claims.json") else "old")


@pytest.mark.parametrize(
    ("command", "module", "package"),
    [("verify", "yaml", "./claims` in a clone"), ("watch", "watchfiles", "watchfiles`: ")],
)
def test_missing_module_is_reported_with_its_fix(command: str, module: str, package: str) -> None:
    without = f"import sys; sys.modules[{module!r}] = None; sys.argv = ['', {command!r}]"
    run = f"{without}; import runpy; runpy.run_module('sphinx_claims', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", run], check=False, capture_output=True, text=True)
    told = f"error: something is missing: run `python3 -m pip install {package}"
    assert (done.returncode, done.stderr[: len(told)]) == (2, told)


def test_unreadable_page_is_reported(claims: Claims) -> None:
    Path("a.md").write_bytes(b"\xff\xfe\x00")
    Path("d.md").write_bytes(b"\xef\xbb\xbf# Page\r\n\r\n{claim}`1 > 2`\r\n")
    link(Path("e.md"), "nowhere.md")
    off = "---\nmystnb:\n  execution_mode: 'off'\n---\n"
    run = claims("verify", ".", toml="", b="---\na: [\n---\n", c=off)
    starts = [
        "a.md:1: a page must be UTF-8: ",
        "b.md:1: front matter must be YAML: ",
        "c.md:1: front matter must not set mystnb.execution_mode: ",
        "d.md:3: claim is FALSE: 1 > 2, where it is False",
        "nowhere.md:1: a page must be a file",
    ]
    assert run.status == 1
    for start, line in zip(starts, run.lines[5:-1], strict=True):
        assert line.startswith(start)


HANGS = """\
# Page

```{code-cell} python
import pathlib, time
pathlib.Path("part").write_text(pathlib.Path("/proc/self/stat").read_text())
pathlib.Path("part").rename("stat")  # so that readers never see a partial file
time.sleep(600)
```
"""


def start(folder: Path, *command: str, stdout: int = subprocess.DEVNULL) -> Any:
    """Start a command on a true page and on one that hangs."""
    toml = '[tool.claims]\npages = ["first.md", "index.md"]\ntimeout = 600\n'
    texts = {"pyproject.toml": toml, "conf.py": "extensions = ['sphinx_claims']\n"}
    for name, text in {
        **texts,
        "first.md": "---\norphan: 1\n---\n# A\n",
        "index.md": HANGS,
    }.items():
        (folder / name).write_text(text)
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        cwd=folder,
    )


@needs_proc
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("command", "status", "said"),
    [("sphinx_claims verify", 130, ""), ("sphinx -q . _build", 2, "Interrupted!")],
)
def test_control_c_ends_all_processes_at_once(
    command: str, status: int, said: str, tmp_path: Path
) -> None:
    stat = tmp_path / "stat"
    with start(tmp_path, *command.split()) as running:
        wait(stat.is_file)
        os.killpg(running.pid, signal.SIGINT)
        _, error = running.communicate(timeout=60)
    assert (running.returncode, error.strip()) == (status, said)
    wait(lambda: not is_running(stat.read_text()))


@needs_proc
def test_closed_standard_output_ends_all_processes(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with start(tmp_path, "sphinx_claims", "verify", stdout=writer) as running:
        os.close(writer)
        _, error = running.communicate(timeout=60)
    assert (running.returncode, error) == (141, "")
    if (stat := tmp_path / "stat").is_file():  # the page may not have started yet
        wait(lambda: not is_running(stat.read_text()))
