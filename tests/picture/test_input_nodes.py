"""Boxes of inputs in pictures."""

import xml.etree.ElementTree as ET

import torch
from torch import Tensor, nn

from leafgrad import GraphTrace, record, trace_graph
from tests.picture.picture import picture_of
from tests.picture.test_svg import texts

SVG = "{http://www.w3.org/2000/svg}"


def perceptron() -> GraphTrace:
    model, x = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)), torch.ones(2, 4)
    return trace_graph(model(x).sum(), names={"model": model, "x": x})


def told(picture: str) -> list[list[str]]:
    titles = [title.text or "" for title in ET.fromstring(picture).iter(f"{SVG}title")]
    return [title.splitlines() for title in titles]


def test_input_box_has_name_shape_tooltip_and_legend_entry() -> None:
    picture = perceptron().to_svg()
    written = texts(picture)
    assert written[written.index("x") + 1] == "input (2, 4)"
    assert "input from outside: no gradient" in written
    assert 'class="box input"' in picture
    assert next(lines[:2] for lines in told(picture) if lines[0].startswith("the input x")) == [
        "the input x, which needs no gradient",
        "(2, 4) float32 cpu",
    ]
    assert any("mat1 is the input x, which needs no gradient" in lines for lines in told(picture))
    assert "leads to the leaf model.0.bias and the node" not in picture


class Pair(nn.Module):
    """Two modules that share an input."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = (nn.Sequential(nn.Linear(2, 2), nn.Tanh()) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.one(x) + self.two(x)
        return result


def test_open_module_shows_its_input() -> None:
    model, x = Pair(), torch.ones(1, 2)
    with record() as recording:
        y = model(x)
    trace = trace_graph(y, names=model, recording=recording)
    boxes = picture_of(trace, fold="*").boxes
    assert [box.name for box in boxes if "input" in box.rect.kind] == ["x"]
    assert trace.to_html().count("the input x, which needs no gradient") >= 2
