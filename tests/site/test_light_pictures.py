"""Matplotlib's pictures with fewer letters look as they did, to a hundredth of a point."""

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import torch
from light_pictures import SHARED, lighten, lighter, styles, write_styles

from leafgrad import trace_graph

matplotlib = pytest.importorskip("matplotlib")
figures = pytest.importorskip("matplotlib.figure")
FINE = 0.0101


@pytest.fixture(scope="module")
def plot() -> str:
    file = io.StringIO()
    figure = figures.Figure(figsize=(3, 2))
    (axes,) = figure.subplots(1, 1, squeeze=False)[0]
    axes.plot([0, 1, 2], [0.123456, 1, -1], "o-", label="a loss")
    axes.contourf([[0, 1], [1, 0]])
    axes.set_xlabel("step")
    axes.legend()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "a"}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return '<svg role="img" style="fill: currentColor"' + file.getvalue().partition("<svg")[2]


def drawn(svg: str) -> list[list[float]]:
    """Return the points of each line and area that has a colour."""
    paths = re.findall(r'<path (?:id="[^"]*" )?d="([^"]*)"[^>]*?style="([^"]*)"', svg)
    seen = (points for points, style in paths if style.replace(" ", "") != "fill:none")
    return [[float(n) for n in re.findall(r"-?\d+\.?\d*", points)] for points in seen]


def test_picture_has_half_the_size_and_looks_the_same(plot: str) -> None:
    assert len(lighter(plot)) < 0.55 * len(plot)
    before, after = drawn(plot), drawn(lighter(plot))
    assert len(before) == len(after) > 5
    for old, new in zip(before, after, strict=True):
        assert new == pytest.approx(old, abs=FINE)
    light = lighter(plot)
    assert re.findall(">([^<>]+)</text>", light) == re.findall(">([^<>]+)</text>", plot)
    names = re.findall(' id="([^"]*)"', light)
    used = {a or b for a, b in re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', light)}
    assert {*names} == used
    assert ET.fromstring(light).tag.endswith("svg")


def test_picture_that_matplotlib_did_not_draw_is_unchanged() -> None:
    own = '<svg><title>A graph</title>\n<path id="a_1" d="M 0.123456 0"/></svg>'
    assert lighter(own) == own


def written(*pictures: str) -> tuple[str, list[str]]:
    """Return the body of a page with these pictures, and the files that its look needs."""
    files: list[str] = []
    app: Any = SimpleNamespace(add_css_file=files.append)
    context = {"body": "".join(pictures)}
    lighten(app, "", "", context, None)
    return context["body"], files


def test_the_style_of_a_graph_is_a_file_of_the_site(tmp_path: Path) -> None:
    app: Any = SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(format="html"))
    write_styles(app)
    css = (tmp_path / "_static" / SHARED).read_text("utf-8")
    graph = trace_graph(torch.ones(2, requires_grad=True).exp())._repr_html_()
    body, files = written(graph)
    assert "<style" in graph
    assert "<style" not in body
    assert files == [SHARED]
    assert all(style.removesuffix("</style>").partition(">")[2] in css for style in styles())
    assert "<" not in css


def test_other_style_is_kept() -> None:
    own = "<style>p{color:red}</style>"
    assert written(own, own) == (own, [])


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_page_within_a_page_keeps_its_style(quote: str) -> None:
    style = next(iter(styles())).replace(quote, "")
    frame = f"<iframe srcdoc={quote}{style}<p>A</p>{quote}></iframe>"
    shared = next(iter(styles()))
    assert written(shared, frame) == (frame, [SHARED])
    inner = f"<iframe srcdoc='{shared}'></iframe>"
    assert written(inner) == (inner, [])
