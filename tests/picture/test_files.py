"""`GraphTrace.save`: one file in the form that its name asks for, or an error and no file."""

import re
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from leafgrad import GraphTrace, trace_graph
from tests.browser import CHROMIUM, needs_chromium


@pytest.fixture(scope="module")
def trace() -> GraphTrace:
    x = torch.ones(3, requires_grad=True)
    return trace_graph(x * x, names={"x": x})


def test_texts_are_what_the_methods_return(trace: GraphTrace, tmp_path: Path) -> None:
    wanted = {
        "graph.svg": trace.to_svg(),
        "graph.html": trace.to_html(),
        "graph.txt": trace.to_text(),
        "graph.json": trace.to_json(),
        "graph.dot": trace.to_dot(),
        "graph.gv": trace.to_dot(),
        "graph.mmd": trace.to_mermaid(),
        "GRAPH.SVG": trace.to_svg(),
    }
    for name, text in wanted.items():
        file = trace.save(tmp_path / name)
        assert file == tmp_path / name
        assert file.read_text(encoding="utf-8") == text
    bare = trace.save(str(tmp_path / "bare.svg"), fold=True, legend=False)
    assert bare.read_text(encoding="utf-8") == trace.to_svg(fold=True, legend=False)


@needs_chromium
@pytest.mark.parametrize(("ending", "start"), [(".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_a_browser_makes_png_and_pdf(
    trace: GraphTrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, start: bytes
) -> None:
    monkeypatch.setattr(shutil, "which", {"chromium": CHROMIUM}.get)
    file = trace.save(tmp_path / f"graph{ending}")
    assert file.read_bytes().startswith(start)


def converter(folder: Path, script: str) -> Path:
    """Put an `rsvg-convert` into a folder that does what a script in Python says."""
    (folder / "convert.py").write_text(script, encoding="utf-8")
    if sys.platform == "win32":
        program, start = folder / "rsvg-convert.cmd", '@"{}" "{}" %*\n'
    else:
        program, start = folder / "rsvg-convert", '#!/bin/sh\nexec "{}" "{}" "$@"\n'
    program.write_text(start.format(sys.executable, folder / "convert.py"), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let no program be there but one."""

    def only(program: Path) -> None:
        there = {program.stem: str(program)} if program.is_file() else {}
        monkeypatch.setattr(shutil, "which", there.get)

    return only


COPY = """
import shutil, sys

(made,) = (option for option in sys.argv if option.startswith("--output="))
shutil.copyfile(sys.argv[-1], made.removeprefix("--output="))
"""
FAIL = r"import sys; sys.stderr.buffer.write(b'no fonts \xff'); sys.exit(1)"


def test_a_converter_is_given_a_picture_without_variables(
    trace: GraphTrace, tmp_path: Path, only: Any
) -> None:
    only(converter(tmp_path, COPY))
    picture = trace.save(tmp_path / "graph.png").read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    assert "var(" not in picture
    assert "Canvas" not in picture
    assert re.search(r"fill:#1a7f37", picture)


def test_names_are_not_taken_for_colours(tmp_path: Path, only: Any) -> None:
    only(converter(tmp_path, COPY))
    names = {
        "Canvas": torch.ones(3, requires_grad=True),
        "var(--x)": torch.ones(3).requires_grad_(),
    }
    trace = trace_graph(names["Canvas"] * names["var(--x)"], names=names)
    picture = trace.save(tmp_path / "graph.png").read_text(encoding="utf-8")
    assert ">Canvas<" in picture
    assert ">var(--x)<" in picture


def test_a_converter_that_fails_is_told_and_nothing_is_written(
    trace: GraphTrace, tmp_path: Path, only: Any
) -> None:
    only(converter(tmp_path, FAIL))
    (tmp_path / "graph.png").write_text("what was there", encoding="utf-8")
    with pytest.raises(
        RuntimeError, match="which failed: no fonts \N{REPLACEMENT CHARACTER}; save the graph as"
    ):
        trace.save(tmp_path / "graph.png")
    assert (tmp_path / "graph.png").read_text(encoding="utf-8") == "what was there"


def test_without_a_program_the_error_names_the_way_out(
    trace: GraphTrace, tmp_path: Path, only: Any
) -> None:
    only(tmp_path / "none")
    with pytest.raises(RuntimeError, match=r"rsvg-convert \(of librsvg\) or a Chromium"):
        trace.save(tmp_path / "graph.pdf")
    assert not (tmp_path / "graph.pdf").exists()


def test_another_ending_is_refused(trace: GraphTrace, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in .dot, .gv, .*, not in '.jpg'"):
        trace.save(tmp_path / "graph.jpg")
    with pytest.raises(ValueError, match="not in ''"):
        trace.save(tmp_path / "graph")
    with pytest.raises(TypeError, match="path must be a str or a path, not int"):
        trace.save(3)  # type: ignore[arg-type]
    assert [*tmp_path.iterdir()] == []
