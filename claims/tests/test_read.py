"""The reader of pages reads any text or reports a clear error, and never raises an exception."""

import contextlib
import os
import sys
from pathlib import Path

import pytest

from tests.proving import Cell, Config, Escape, find_pages, parse_page, read_page, read_pages

CELL = "```{code-cell} python\nx = 1\ny = 2\n```\n"


READ_ALIKE = {
    "lf": CELL,
    "crlf": CELL.replace("\n", "\r\n"),
    "cr": CELL.replace("\n", "\r"),
    "byte order mark": "\ufeff" + CELL,
    "no last line end": CELL.rstrip("\n"),
}


@pytest.mark.parametrize("content", READ_ALIKE.values(), ids=READ_ALIKE)
def test_page_is_read_alike_with_any_line_endings(content: str, tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_bytes(content.encode())
    page = read_page(file, "page.md")
    assert (page.items, page.problems) == ((Cell(line=2, fence=1, source="x = 1\ny = 2"),), ())


def test_tabs_in_a_nested_cell_are_kept() -> None:
    text = "-\titem\n\n\t```{code-cell} python\n\tif True:\n\t\tx = 1\n\t```\n"
    (cell,) = parse_page(text, "page.md").steps
    assert cell.source == "if True:\n\tx = 1"


DEEP = "".join(":" * (510 - depth) + "{note}\n" for depth in range(500))
FRONT = "---\n{}\n---\n\nProse.\n"
NO_PAGES = {
    b"\x89PNG\r\n\x1a\n\x00": "1: a page must be UTF-8: ",
    b"# A\n\nB\x00\n": "3: a page must hold no control characters, and here is U+0000",
    b"# A\n\x0c\n": "2: a page must hold no control characters",
    "a\u2028b".encode(): "1: a page must hold no control characters",
    DEEP.encode(): "1: a page must not nest so deeply",
    FRONT.format("title: a\nkey: [1, 2").encode(): "1: front matter must be YAML: ",
    FRONT.format("a: b: c\nd: e").encode(): "1: front matter must be YAML: mapping values",
    FRONT.format("date: 2026-13-41").encode(): "1: front matter must be YAML: month must be",
    FRONT.format("- title").encode(): "1: front matter must be a mapping, as in `title: ...`",
    FRONT.format("a: " + "[" * 1000).encode(): "1: front matter must be YAML: maximum recursion",
}


@pytest.mark.parametrize("content", NO_PAGES, ids=range(len(NO_PAGES)))
def test_page_that_cannot_be_read_is_reported_in_one_line(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_bytes(content)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # Another test may have raised the limit.
    try:
        (problem,) = read_page(file, "page.md").problems
    finally:
        sys.setrecursionlimit(limit)
    assert f"{problem.line}: {problem.message}".startswith(NO_PAGES[content])


def test_pipe_folder_or_dangling_link_is_not_read(tmp_path: Path) -> None:
    pipe, folder, gone = (tmp_path / name for name in ("pipe.md", "folder.md", "gone.md"))
    if hasattr(os, "mkfifo"):  # without mkfifo, the file is missing
        os.mkfifo(pipe)
    folder.mkdir()
    with contextlib.suppress(OSError):  # without the right to make links, it is missing
        gone.symlink_to(tmp_path / "nowhere.md")
    (folder / "page.md").write_text("# A page in a folder that is named like one\n")
    assert find_pages([folder]) == [folder / "page.md"]
    for page in read_pages([pipe, folder, gone], Config(root=tmp_path)):
        assert [problem.message for problem in page.problems] == ["a page must be a file"]


@pytest.mark.parametrize("text", ["", "---\n---\n", "---\n# only a comment\n---\n", "\n\n"])
def test_empty_page_is_true(text: str) -> None:
    page = parse_page(text, "page.md")
    assert (page.items, page.problems) == ((), ())


ODD = [
    "```\n" + "(" * 5000 + "\n```\n",
    "```\n" + "-" * 100_000 + "1\n```\n",
    "```{csv-table}\n" + "x," + "y" * 200_000 + "\n```\n",
    "```{code-cell} python\n:tags: [[\n\nx = 1\n```\n",
    "```{include}\n```\n",
    "<div>\n<![ x>\n</div>\n",
]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_odd_input_does_not_crash_the_reader(text: str) -> None:
    parse_page(text, "page.md")


def test_include_path_is_resolved_as_in_sphinx(tmp_path: Path) -> None:
    (tmp_path / "conf.py").touch()
    (tmp_path / "part.md").write_text("```pycon\n>>> 1\n1\n```\n")
    (tmp_path / "sub").mkdir()
    page = tmp_path / "sub" / "page.md"
    page.write_text("```{include} /part.md\n```\n")
    assert read_pages([page], Config(root=tmp_path))[0].of(Escape) == (Escape(line=1, because=""),)
    (read,) = read_pages([page], Config(root=tmp_path, python_fences="refuse"))
    rule = "an included file must be judged itself, and part.md is not: name it among the pages"
    assert [problem.message for problem in read.problems] == [rule]
    judged = Config(root=tmp_path, pages=("part.md",), python_fences="refuse")
    assert read_pages([page], judged)[0].problems == ()
    assert read_pages([page, tmp_path / "part.md"], Config(root=tmp_path))[0].problems == ()


BAD_INCLUDES = {
    "{include} binary.md": "an included file must be text: binary.md: ",
    "{include} part.md\n:start-line: 1": "an included file must be whole, without :start-line:",
    "{include} .": "an included file must exist, and . does not",
    "{literalinclude} binary.md": "an included file must be text",
}


@pytest.mark.parametrize("fence", BAD_INCLUDES)
def test_unreadable_include_is_reported(fence: str, tmp_path: Path) -> None:
    (tmp_path / "binary.md").write_bytes(b"\xff\x00")
    (tmp_path / "part.md").write_text("Prose.\n")
    file = tmp_path / "page.md"
    file.write_text(f"```{fence}\n```\n")
    (problem,) = read_page(file, "page.md").problems
    assert problem.message.startswith(BAD_INCLUDES[fence])


def test_page_lists_its_own_and_included_unproven_blocks_with_reasons(tmp_path: Path) -> None:
    escape = "```{unproven} python\n:because: pseudocode,  nothing more\n\nx = 1\n```\n"
    (tmp_path / "part.md").write_text(escape)
    file = tmp_path / "page.md"
    file.write_text(f"# Page\n\n{escape}\n```{{include}} part.md\n```\n")
    page = read_page(file, "page.md")
    because = "pseudocode, nothing more"
    assert page.problems == ()
    assert page.of(Escape) == (Escape(line=3, because=because), Escape(line=9, because=because))
