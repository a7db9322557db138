"""Direction and colours of a picture."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import GraphTrace, record, trace_graph
from tests.messages import exactly, message
from tests.models import polynomial
from tests.picture.picture import picture_of, read_picture
from tests.picture.test_overview import Language, traced
from tests.picture.test_svg import meanings, texts

SVG = "{http://www.w3.org/2000/svg}"


# --- Direction


def test_forward_picture_has_root_at_bottom_and_names_of_functions() -> None:
    trace = polynomial()
    boxes = picture_of(trace, direction="forward").boxes
    tops = [box.rect.top for box in boxes]
    assert tops[0] == max(tops)
    assert [box.targets for box in boxes] == [[], [0], [1, 1], [0], [3], [4]]
    written = texts(trace.to_svg(direction="forward"))
    assert written[:1] == ["add"]
    assert {"mul", "sin"} < {*written}
    assert not any("Backward0" in text for text in written)


def test_forward_tooltip_has_name_of_node() -> None:
    root = ET.fromstring(polynomial().to_svg(direction="forward"))
    told = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert told[1].startswith("node 0: AddBackward0\n")


def test_legend_explains_direction_of_arrows() -> None:
    assert message("legend.gradients") in meanings(polynomial().to_svg())
    forward = meanings(polynomial().to_svg(direction="forward"))
    assert message("legend.values") in forward


# --- Colour


def steps(picture: str) -> list[int]:
    """Return the level of colour of each box."""
    return read_picture(picture).colors


def test_picture_without_color_option_has_no_colour() -> None:
    assert "heat" not in polynomial().to_svg()


def test_colour_of_box_depends_on_bytes_that_it_saves() -> None:
    x = torch.ones(10, requires_grad=True)
    trace = trace_graph(x[:2].sin().sum() + x.sin().cos().sum(), names={"x": x})
    picture = trace.to_svg(color="bytes", fold=False)
    by_name = dict(zip((node.name for node in trace.nodes), steps(picture), strict=True))
    assert by_name["CosBackward0"] == 5
    assert by_name["AccumulateGrad"] == by_name["AddBackward0"] == 0
    assert "bytes saved, up to 40 B" in meanings(picture)


def test_colour_of_folded_box_depends_on_bytes_of_all_copies() -> None:
    picture = traced(Language()).to_svg(color="bytes")
    assert steps(picture)[3] == 5
    assert any(text.endswith(", ×n together") for text in meanings(picture))


def test_legend_reports_that_no_bytes_are_saved() -> None:
    x = torch.ones(2, requires_grad=True)
    picture = trace_graph(x + 1).to_svg(color="bytes")
    assert steps(picture) == [0, 0]
    assert message("legend.bytes-none") in meanings(picture)


def scaled(*factors: float) -> GraphTrace:
    """Trace a chain of multiplications."""
    y = torch.ones(2, requires_grad=True)
    for factor in factors:
        y = y * factor
    return trace_graph(y.sum(), gradients=True)


def test_colour_of_gradients_is_logarithmic() -> None:
    picture = scaled(1e-2, 1e-2, 1e-2, 1e-2).to_svg(color="gradient")
    assert steps(picture) == [5, 5, 4, 3, 2, 1]
    assert "gradient norm, 1.4e-08 to 1.4, in powers" in meanings(picture)


def test_nearly_equal_gradients_have_nearly_same_colour() -> None:
    assert steps(scaled(1.0, 0.9).to_svg(color="gradient")) == [4, 5, 5, 5]


def test_zero_gradients_have_no_colour() -> None:
    assert steps(scaled(0.0).to_svg(color="gradient"))[-1] == 0
    x = torch.ones(2, requires_grad=True)
    zeros = trace_graph(x.sin(), gradients=True, grad_outputs=torch.zeros(2))
    picture = zeros.to_svg(color="gradient")
    assert steps(picture) == [0, 0]
    assert "gradient norm: 0 everywhere" in meanings(picture)


def test_colouring_by_gradients_is_refused_without_gradients() -> None:
    for write in (polynomial().to_svg, polynomial().to_html):
        with pytest.raises(ValueError, match="trace with gradients=True"):
            write(color="gradient")


def test_menu_of_page_selects_requested_colour() -> None:
    assert '<option value="bytes" selected="">' in polynomial().to_html(color="bytes")
    assert '<option value="class" selected="">' in polynomial().to_html()


# --- Refused arguments


@pytest.mark.parametrize(("option", "value"), [("direction", "up"), ("color", "red")])
def test_unknown_direction_or_colour_is_refused(option: str, value: str) -> None:
    look: dict[str, Any] = {option: value}
    with pytest.raises(ValueError, match=exactly(f"errors.picture.{option}", came=value)):
        polynomial().to_svg(**look)


def test_legend_distinguishes_inferred_and_recorded_modules() -> None:
    model = Language()
    inferred = trace_graph(model(torch.ones(1, 2, 4)).sum(), names=model).to_svg()
    assert message("legend.module-inferred") in meanings(inferred)
    with record() as recording:
        y = nn.Sequential(model)(torch.ones(1, 2, 4)).sum()
    known = trace_graph(y, names=model, recording=recording).to_svg()
    assert message("legend.module") in meanings(known)
