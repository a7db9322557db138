"""`python -m leafgrad.claims verify`: lines, exit status, and which pages it takes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from leafgrad.claims.__main__ import main

TRUE = "# Page\n\n:::{claim} sums/two\nA sum.\n:::\n\n{claim}`1 + 1 == 2`\n"
FALSE = TRUE.replace("sums/two", "sums/three").replace("== 2", "== 3")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
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
    (folder / "docs" / "b.md").write_text("# B\n\n```python\nx = 1\n```\n")
    (folder / "docs" / "_build").mkdir()
    (folder / "docs" / "_build" / "c.md").write_text(FALSE)
    assert main(["verify", "docs", "--json", "claims.json"]) == 1
    *pages, first, second, total = _told(capsys)
    assert [page[:16] for page in pages] == ["false  docs/a.md", "false  docs/b.md"]
    assert first == "docs/a.md:7: claim is FALSE: 1 + 1 == 3, where it is False"
    assert second == "docs/b.md:3: nobody executes this python snippet: make it a {code-cell}"
    assert total.startswith("2 pages, 1 claim, 1 check: 2 problems (")
    (claim,) = json.loads((folder / "claims.json").read_text())["claims"]
    assert (claim["id"], claim["verdict"]) == ("sums/three", "false")


def test_without_paths_pyproject_says_what_is_verified(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "library.py").write_text(
        '"""A library."""\n__all__ = ["one"]\n\n\ndef one():\n    """\n    >>> 1\n    2\n    """\n'
    )
    (folder / "README.md").write_text(TRUE)
    (folder / "pyproject.toml").write_text(
        "[tool.leafgrad.claims]\npages = ['README.md']\ndocstrings = ['library', 'missing']\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert main(["verify"]) == 1
    error = "ModuleNotFoundError: No module named 'missing'"
    assert _told(capsys)[3:-1] == [
        "library.py:7: example is FALSE: 1 -> 2, but it gives '1'",
        f"missing:1: the docstrings of missing cannot be read: {error}",
    ]


def test_claims_must_have_ids_of_their_own_and_known_sources(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sourced = TRUE.replace("two\n", "two\n:sources: article L1, rumour L2\n\n")
    (folder / "a.md").write_text(TRUE)
    (folder / "b.md").write_text(sourced)
    (folder / "pyproject.toml").write_text(
        "[tool.leafgrad.claims]\npages = ['a.md', 'b.md']\ndocuments = { article = 'An article' }\n"
    )
    assert main(["verify"]) == 1
    assert _told(capsys)[2:-1] == [
        "b.md:3: claim sums/two stands at a.md:3 already",
        "b.md:3: a source begins with a document that pyproject.toml names (article), not 'rumour'",
    ]


ERRORS = {
    "missing": (["nowhere.md"], "", "a page or folder of pages must exist: nowhere.md does not"),
    "not-a-page": (["pyproject.toml"], "", "a page must be Markdown (.md), not pyproject.toml"),
    "no-pages": ([], "", "there are no pages: name some, or set pages in [tool.leafgrad.claims]"),
    "unknown-key": (
        [],
        "[tool.leafgrad.claims]\npage = []\n",
        "[tool.leafgrad.claims] holds docstrings, documents, pages, preload, timeout, not 'page'",
    ),
}


@pytest.mark.parametrize(("paths", "toml", "error"), ERRORS.values(), ids=ERRORS)
def test_what_cannot_be_verified_ends_with_status_2_and_one_line(
    paths: list[str], toml: str, error: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text(toml)
    assert main(["verify", *paths]) == 2
    assert capsys.readouterr().err == f"error: {error}\n"


def test_without_the_extra_the_cure_is_told() -> None:
    without = "import sys; sys.modules['yaml'] = None; sys.argv = ['', 'verify']"
    command = f"{without}; import runpy; runpy.run_module('leafgrad.claims', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", command], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: install the extra, as in pip install 'leafgrad[claims]'")


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
    assert told[2] == "c.md:1: front matter must not set 'mystnb': every cell is executed"
    assert told[3] == "d.md:3: claim is FALSE: 1 > 2, where it is False"
