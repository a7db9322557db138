"""Values and gradients in pictures."""

import math
import re
import xml.etree.ElementTree as ET

import torch

from leafgrad import GraphTrace, record, trace_graph
from tests.messages import message

SVG = "{http://www.w3.org/2000/svg}"


def classic(*, values: bool = True, gradients: bool = True) -> GraphTrace:
    x = torch.tensor(4.0, requires_grad=True)
    y = torch.tensor(math.pi, requires_grad=True)
    with record(values=True) as recording:
        z = x * x + torch.sin(2 * y)
    names = {"x": x, "y": y}
    return trace_graph(
        z, names=names, recording=recording if values else None, values=values, gradients=gradients
    )


def written(view_of: str, style: str) -> list[str]:
    """Return the texts of one style in boxes; the legend is the last part of the picture."""
    boxes = [*ET.fromstring(view_of)][:-1]
    texts = [text for box in boxes for text in box.iter(f"{SVG}text")]
    return [text.text or "" for text in texts if text.get("class") == style]


def test_boxes_have_values_and_gradients() -> None:
    view_of = classic().to_svg()
    assert written(view_of, "value") == [
        "value 16",
        "value 16",
        "value 4",
        "value 1.7485e-07",
        "value 6.2832",
        "value 3.1416",
    ]
    assert written(view_of, "grad") == [f"grad {g}" for g in (1, 1, 8, 1, 1, 2)]
    assert message("legend.grad") in view_of
    assert message("legend.value") in view_of


def test_box_with_folded_leaf_has_its_value_and_gradient() -> None:
    view_of = classic().to_svg(fold=True)
    assert "value 4" in written(view_of, "value")
    assert "grad 8" in written(view_of, "grad")


def test_tooltip_of_node_has_gradients_passed_to_its_inputs() -> None:
    title = re.search("<title>node 1: .*?</title>", classic().to_svg(), re.DOTALL)
    assert title is not None
    assert "\nvalue 16\ngrad 1\n" in title[0]
    assert "input 0 is output 0 of node 2, passes on grad 4" in title[0]


def layers(*, broken: bool) -> GraphTrace:
    """Trace twelve layers; one in the middle divides by zero if broken."""
    x = torch.ones(1, requires_grad=True)
    with record(values=True) as recording:
        y = x
        for layer in range(24):
            y = (y + 1) / torch.tensor([float(not (broken and layer == 7))])
    return trace_graph(y, recording=recording, values=True, gradients=True)


def test_folded_boxes_have_no_numbers() -> None:
    view_of = layers(broken=False).to_svg(fold=True)
    assert "AddBackward0 ×23" in view_of
    assert written(view_of, "value") == ["value 25", "value 2", "value 1"]


def test_first_nonfinite_node_is_not_folded() -> None:
    view_of = layers(broken=True).to_svg(fold=True)
    assert written(view_of, "alarm") == ["value: infinity from here", "grad: infinity from here"]


def test_picture_and_text_show_unknown_value_as_not_recorded() -> None:
    x = torch.ones(1, requires_grad=True)
    trace = trace_graph(x * 2 + 1, values=True)
    assert "value not recorded" in written(trace.to_svg(), "value")
    assert "not recorded" in str(trace)


def test_values_of_several_outputs_are_shown_in_order() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    first, second, _ = x.unbind()
    trace = trace_graph(first * second, names={"a": first, "b": second}, values=True)
    assert "value 1; 2; not recorded" in written(trace.to_svg(), "value")
