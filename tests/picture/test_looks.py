"""How a picture looks: which way its arrows lead, and what its colours tell."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import GraphTrace, record, trace_graph
from leafgrad._picture.layout import flipped, lay_out
from leafgrad._picture.look import Look
from leafgrad._picture.svg.heat import heat_of
from leafgrad._picture.svg.svg import draw_view, layout_edges, measure_boxes
from leafgrad._picture.view import view_of
from tests.models import MODELS, polynomial
from tests.picture.layout.geometry import collisions, overlaps
from tests.picture.test_overview import Language, traced
from tests.picture.test_svg import classes, meanings, texts, unbound

SVG = "{http://www.w3.org/2000/svg}"
FORWARD = Look(direction="forward")


# --- Which way


@pytest.mark.parametrize("fold", [True, False], ids=["folded", "in full"])
@pytest.mark.parametrize("name", MODELS)
def test_upside_down_nothing_collides_and_every_arrow_leads_down(name: str, *, fold: bool) -> None:
    trace = MODELS[name]()
    view = view_of(trace, fold=fold)
    boxes = [one.extent() for one in measure_boxes(trace, view, FORWARD)]
    edges = layout_edges(view)
    drawing = flipped(boxes, lay_out(boxes, edges))
    assert overlaps(boxes, drawing) == []
    assert collisions(boxes, drawing) == []
    for edge, points in zip(edges, drawing.paths, strict=True):
        lower = drawing.positions[edge.source].top
        made = drawing.positions[edge.target]
        assert points[0][1] == pytest.approx(made.top + boxes[edge.target].height)
        assert points[-1][1] == pytest.approx(lower)
        assert [y for _, y in points] == sorted(y for _, y in points)


def test_forward_the_root_is_the_lowest_and_functions_have_their_names() -> None:
    trace = polynomial()
    drawing = draw_view(trace, view_of(trace, fold=False), FORWARD)
    tops = [position.top for position in drawing.layout.positions]
    assert tops[0] == max(tops)
    assert drawing.links == [(1, 0), (3, 0), (2, 1), (2, 1), (4, 3), (5, 4)]
    written = texts(trace.to_svg(direction="forward"))
    assert written[:1] == ["add"]
    assert {"mul", "sin"} < {*written}
    assert not any("Backward0" in text for text in written)


def test_forward_the_name_of_the_node_is_told_when_a_box_is_pointed_at() -> None:
    root = ET.fromstring(polynomial().to_svg(direction="forward"))
    told = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert told[1].startswith("node 0: AddBackward0\n")
    assert (root[1].text or "").startswith("The root add at node 0 is made from mul at node 1 and")


def test_forward_the_shape_stands_at_the_arrow_and_once() -> None:
    trace = polynomial()
    written = texts(trace.to_svg(direction="forward"))
    assert written.count("(3,)") == 1 + 3  # in the root, and at the arrows of the other three
    picture = trace.to_svg(direction="forward")
    labels = re.search(r'<g class="labels">(.*?)</g>', picture)
    assert labels is not None
    assert labels[1].count("(3,)") == 3
    assert '<g class="labels">' not in trace.to_svg()


def test_forward_the_names_of_results_stay_in_their_boxes() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.sin()
    written = texts(trace_graph(y.cos(), names={"x": x, "y": y}).to_svg(direction="forward"))
    assert "y" in written


def test_forward_outputs_have_their_numbers_at_the_lower_side() -> None:
    root = ET.fromstring(unbound().to_svg(direction="forward"))
    ports = [text for text in root.iter(f"{SVG}text") if text.get("class") == "port"]
    paths = [path.get("d", "") for group in root if group.get("class") == "links" for path in group]
    starts = {path[1:].split()[0] for path in paths}
    assert {port.get("x") for port in ports if port.text in {"1", "3"}} <= starts


def test_forward_inputs_without_a_gradient_come_from_above() -> None:
    backward, forward = (
        re.findall(r'class="stub" d="[^"]*v(-?)8m', polynomial().to_svg(direction=way))
        for way in ("backward", "forward")
    )
    assert (backward[0], forward[0]) == ("", "-")


def test_the_legend_says_which_way_and_what_stands_at_an_arrow() -> None:
    assert "the way of the gradients" in meanings(polynomial().to_svg())
    forward = meanings(polynomial().to_svg(direction="forward"))
    assert {"the way of the values", "the shape of what is handed on"} < {*forward}


def test_a_page_can_lead_forward() -> None:
    assert "The root add" in polynomial().to_html(direction="forward")


# --- Colour


def steps(picture: str) -> list[int]:
    """How full the colour of each box is, but for those of the legend."""
    boxes = [*ET.fromstring(picture)][:-1]
    shapes = (box.find(f"{SVG}rect") for box in boxes if box.get("class") == "part")
    names = [shape.get("class", "") for shape in shapes if shape is not None]
    found = (re.search(r"heat-(\d)", name) for name in names)
    return [0 if one is None else int(one[1]) for one in found]


def test_plain_boxes_have_no_colour_and_no_style_for_it() -> None:
    assert "heat" not in polynomial().to_svg()


def test_the_more_a_box_saves_the_fuller_its_colour_and_no_bar_says_it_again() -> None:
    x = torch.ones(10, requires_grad=True)
    trace = trace_graph(x[:2].sin().sum() + x.sin().cos().sum(), names={"x": x})
    picture = trace.to_svg(color="bytes", fold=False)
    by_name = dict(zip((node.name for node in trace.nodes), steps(picture), strict=True))
    assert by_name["CosBackward0"] == 5
    assert by_name["AccumulateGrad"] == by_name["AddBackward0"] == 0
    assert "bytes saved, up to 40 B" in meanings(picture)
    assert "bar" not in classes(picture)


def test_a_box_that_stands_for_several_is_coloured_by_all_of_them() -> None:
    picture = traced(Language()).to_svg(color="bytes")
    assert steps(picture)[3] == 5
    assert any(text.endswith(", ×n together") for text in meanings(picture))


def test_what_saves_nothing_says_so() -> None:
    x = torch.ones(2, requires_grad=True)
    picture = trace_graph(x + 1).to_svg(color="bytes")
    assert steps(picture) == [0, 0]
    assert "bytes saved: none" in meanings(picture)


def scaled(*factors: float) -> GraphTrace:
    """Numbers in a row, each of which passes on what came to it times its factor."""
    y = torch.ones(2, requires_grad=True)
    for factor in factors:
        y = y * factor
    return trace_graph(y.sum(), gradients=True)


def test_the_larger_the_gradient_the_fuller_the_colour_by_powers_of_ten() -> None:
    picture = scaled(1e-2, 1e-2, 1e-2, 1e-2).to_svg(color="gradient")
    assert steps(picture) == [5, 5, 4, 3, 2, 1]
    assert "gradient norm, 1.4e-08 to 1.4, in powers" in meanings(picture)


def test_gradients_that_are_nearly_equal_have_nearly_the_same_colour() -> None:
    assert steps(scaled(1.0, 0.9).to_svg(color="gradient")) == [4, 5, 5, 5]


def test_no_gradient_but_zeros_has_no_colour() -> None:
    assert steps(scaled(0.0).to_svg(color="gradient"))[-1] == 0
    x = torch.ones(2, requires_grad=True)
    zeros = trace_graph(x.sin(), gradients=True, grad_outputs=torch.zeros(2))
    picture = zeros.to_svg(color="gradient")
    assert steps(picture) == [0, 0]
    assert "gradient norm: 0 everywhere" in meanings(picture)


def test_without_gradients_there_is_nothing_to_colour_by() -> None:
    for write in (polynomial().to_svg, polynomial().to_html):
        with pytest.raises(ValueError, match="trace with gradients=True"):
            write(color="gradient")


def test_a_page_begins_with_the_colour_that_was_asked_for() -> None:
    assert '<option value="bytes" selected="">' in polynomial().to_html(color="bytes")
    assert " selected=" not in polynomial().to_html()


def test_a_module_that_no_gradient_came_to_has_no_colour_on_a_page() -> None:
    trace = traced(Language(), gradients=True)
    nodes = tuple(
        replace(node, gradients=()) if node.module == "norm" else node for node in trace.nodes
    )
    bare = replace(trace, nodes=nodes, roots=tuple(nodes[root.index] for root in trace.roots))
    norm = [box for box in view_of(bare, fold="norm").boxes if box.name == "norm"]
    heat = heat_of(norm, "gradient")
    assert (heat.steps, heat.meaning) == ((0,), "gradient norm: none here")
    assert bare.to_html(color="gradient")


# --- What is refused


@pytest.mark.parametrize(
    ("look", "message"),
    [
        ({"direction": "up"}, "direction must be 'backward' or 'forward', not 'up'"),
        ({"color": "red"}, "color must be 'bytes', 'gradient' or None, not 'red'"),
    ],
    ids=str,
)
def test_what_is_no_look_is_refused(look: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        polynomial().to_svg(**look)


def test_a_file_has_the_look_that_was_asked_for(tmp_path: Any) -> None:
    trace = polynomial()
    file = trace.save(tmp_path / "graph.svg", direction="forward", color="bytes")
    assert file.read_text("utf-8") == trace.to_svg(direction="forward", color="bytes")
    page = trace.save(tmp_path / "graph.html", direction="forward")
    assert page.read_text("utf-8") == trace.to_html(direction="forward")


def test_a_recording_of_inferred_modules_says_that_they_are_inferred() -> None:
    model = Language()
    inferred = trace_graph(model(torch.ones(1, 2, 4)).sum(), names=model).to_svg()
    assert "all nodes of a module, as inferred" in meanings(inferred)
    with record() as recording:
        y = nn.Sequential(model)(torch.ones(1, 2, 4)).sum()
    known = trace_graph(y, names=model, recording=recording).to_svg()
    assert "all nodes of a module" in meanings(known)
