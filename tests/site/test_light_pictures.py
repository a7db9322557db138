"""Matplotlib's pictures with fewer letters look as they did, to a hundredth of a point."""

import io
import re
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
import torch
from light_pictures import lighten, lighter

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


def test_shortened_picture_looks_the_same(plot: str) -> None:
    assert len(lighter(plot)) < 0.75 * len(plot)
    before, after = drawn(plot), drawn(lighter(plot))
    assert len(before) == len(after) > 5
    for old, new in zip(before, after, strict=True):
        assert new == pytest.approx(old, abs=FINE)
    light = lighter(plot)
    assert re.findall(">([^<>]+)</text>", light) == re.findall(">([^<>]+)</text>", plot)
    assert ET.fromstring(light).tag.endswith("svg")


def test_picture_that_matplotlib_did_not_draw_is_unchanged() -> None:
    own = '<svg><title>A graph</title>\n<path id="a_1" d="M 0.123456 0"/></svg>'
    assert lighter(own) == own


def written(*pictures: str) -> str:
    """Return the body of a page with these pictures."""
    context = {"body": "".join(pictures)}
    lighten(SimpleNamespace(), "", "", context, None)  # type: ignore[arg-type]
    return context["body"]


def test_picture_style_is_on_a_page_only_once() -> None:
    graph = trace_graph(torch.ones(2, requires_grad=True).exp())._repr_html_()
    assert written(graph).count("<style") == graph.count("<style") > 0
    assert written(graph, graph).count("<style") == graph.count("<style")


@pytest.mark.parametrize("quote", ["'", '"'])
def test_embedded_page_keeps_its_style(quote: str) -> None:
    style = "<style>p{color:red}</style>"
    frame = f"<iframe srcdoc={quote}{style}<p>A</p>{quote}></iframe>"
    assert written(style, frame, style) == style + frame
