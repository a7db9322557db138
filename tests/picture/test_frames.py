"""Frames around the nodes of a module, where a graph is small enough to show them all."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import nn

from leafgrad import GraphTrace, record, trace_graph
from leafgrad._picture.layout import flipped, lay_out
from leafgrad._picture.look import Look
from leafgrad._picture.svg.frames import DrawnFrame, bands, frames
from leafgrad._picture.svg.svg import draw_view, layout_edges, measure_boxes
from leafgrad._picture.view import view_of
from tests.models import polynomial, transformer
from tests.picture.test_modules import Twice, recorded
from tests.picture.test_svg import meanings

Make = Callable[[], GraphTrace]
SVG = "{http://www.w3.org/2000/svg}"


class Skipping(nn.Module):
    """Layers beside a skip, with names of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.a_rather_long_name_for_a_layer = nn.Linear(4, 8)
        self.other = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a_rather_long_name_for_a_layer(self.norm(x)).relu()
        z: torch.Tensor = x + self.other(y)
        return z


def layers() -> GraphTrace:
    return recorded(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)), 1, 2)


def skipping() -> GraphTrace:
    return recorded(Skipping(), 2, 4)


def twice() -> GraphTrace:
    return recorded(Twice(), 1, 2)


def titles(trace: GraphTrace) -> list[str]:
    return [frame.title for frame in view_of(trace, fold=None).frames]


Sides = tuple[float, float, float, float]


def drawn(trace: GraphTrace, look: Look) -> tuple[list[DrawnFrame], list[Sides]]:
    """The frames, and the left, upper, right and lower side of each box."""
    view = view_of(trace, fold=None)
    drawing = draw_view(trace, view, look)
    extents = [one.extent() for one in drawing.measured]
    sides = [
        (at.x - size.width / 2, at.top, at.x + size.width / 2, at.top + size.height)
        for at, size in zip(drawing.layout.positions, extents, strict=True)
    ]
    return [*frames(view, extents, drawing.layout, layout_edges(view), drawing.paths)], sides


def test_the_nodes_of_a_module_and_the_leaves_that_it_alone_uses_have_a_frame() -> None:
    trace = layers()
    view = view_of(trace, fold=None)
    assert [frame.title for frame in view.frames] == ["2: Linear", "0: Linear"]
    for frame in view.frames:
        path = frame.title[0]
        nodes = [trace.nodes[place] for place in frame.places]
        assert [node.module for node in nodes] == [path] * 4
        assert sum(node.is_leaf for node in nodes) == 2


def test_a_module_of_one_node_without_leaves_has_none() -> None:
    assert "1: Tanh" not in titles(layers())


def test_a_leaf_that_two_modules_use_stands_outside() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    trace = recorded(model, 1, 2)
    framed = {place for frame in view_of(trace, fold=None).frames for place in frame.places}
    outside = [node.leaf_name for node in trace.leaves if node.index not in framed]
    assert "0.weight" in outside
    assert "0.bias" not in outside


def test_an_input_is_in_no_frame_unless_no_leaf_is_known() -> None:
    trace = layers()
    framed = {place for frame in view_of(trace, fold=None).frames for place in frame.places}
    assert [node.leaf_name for node in trace.nodes if node.index not in framed][-1] is None
    with record() as recording:
        y = nn.Sequential(nn.Linear(2, 2), nn.Tanh())(torch.ones(1, 2))
    (frame,) = view_of(trace_graph(y, recording=recording), fold=None).frames
    assert len(frame.places) == 4


def test_each_call_of_a_module_has_a_frame() -> None:
    assert titles(twice()) == ["inner.0: Linear"] * 2  # the leaves are of both


def test_a_frame_tells_how_many_parameters_are_frozen() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    model.get_parameter("0.weight").requires_grad_(False)
    assert titles(recorded(model, 1, 2)) == ["2: Linear", "0: Linear, 1 frozen"]


@pytest.mark.parametrize("trace", [polynomial(), transformer()], ids=["no module", "too large"])
def test_elsewhere_there_are_none(trace: GraphTrace) -> None:
    assert view_of(trace, fold=False).frames == ()
    assert 'class="frame' not in trace.to_svg(fold=False)


def test_the_legend_tells_what_a_frame_is() -> None:
    assert "the nodes of a module" in meanings(layers().to_svg())
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    inferred = trace_graph(model(torch.ones(1, 2)).sum(), names=model)
    assert "the nodes of a module, as inferred" in meanings(inferred.to_svg())


@pytest.mark.parametrize("look", [Look(), Look(direction="forward")], ids=["backward", "forward"])
@pytest.mark.parametrize("make", [layers, skipping, twice])
def test_a_frame_holds_its_boxes_and_no_other(make: Make, look: Look) -> None:
    trace = make()
    view = view_of(trace, fold=None)
    around, sides = drawn(trace, look)
    assert len(around) == len(view.frames) > 0
    for frame, one in zip(view.frames, around, strict=True):
        for place, (left, top, right, bottom) in enumerate(sides):
            is_inside = one.left < left and right < one.right
            is_inside = is_inside and one.top < top and bottom < one.bottom
            is_outside = right < one.left or one.right < left
            is_outside = is_outside or bottom < one.top or one.bottom < top
            assert is_inside is (place in frame.places) is not is_outside


@pytest.mark.parametrize("look", [Look(), Look(direction="forward")], ids=["backward", "forward"])
@pytest.mark.parametrize("make", [layers, skipping, twice])
def test_no_arrow_crosses_a_title_and_no_title_its_frame(make: Make, look: Look) -> None:
    trace = make()
    view = view_of(trace, fold=None)
    extents = [one.extent() for one in measure_boxes(trace, view, look)]
    layout = lay_out(extents, layout_edges(view), bands(view, look))
    layout = flipped(extents, layout) if look.is_forward else layout
    for one in frames(view, extents, layout, layout_edges(view), layout.paths):
        end = one.start + 6.6 * len(one.title)
        assert one.left < one.start < end < one.right
        for points in layout.paths:
            for (x, above), (u, below) in pairwise(points):
                if above < one.top + 12 and below > one.top:
                    assert x == u
                    assert not one.start <= x <= end


def test_a_long_title_is_shortened_and_pictures_are_as_large_as_their_frames() -> None:
    model = nn.Sequential()
    model.add_module("x" * 100, nn.Linear(2, 2))
    root = ET.fromstring(recorded(model, 1, 2).to_svg(legend=False))
    left, top, width, height = map(float, root.get("viewBox", "").split())
    (frame,) = (rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == "frame")
    x, y = float(frame.get("x", "")), float(frame.get("y", ""))
    assert left < x
    assert top < y
    assert x + float(frame.get("width", "")) < left + width
    assert y + float(frame.get("height", "")) < top + height
    assert re.search("xx…xx", "".join(text.text or "" for text in root.iter(f"{SVG}text")))


def test_a_page_has_the_frames_too() -> None:
    with record() as recording:
        y = nn.Sequential(nn.Linear(2, 2), nn.Tanh())(torch.ones(1, 2))
    assert 'class="frame"' in trace_graph(y, recording=recording).to_html()


def test_a_module_of_one_node_has_a_frame_where_it_is_frozen() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    model[2].requires_grad_(requires_grad=False)
    assert titles(recorded(model, 1, 2)) == ["4: Linear", "2: Linear, 2 frozen", "0: Linear"]
