"""The HTML of a backward pass to step through."""

import json
import re
from html import unescape
from typing import Any

import torch

from leafgrad import record, trace_graph
from leafgrad.types import BackwardSteps
from tests.picture.picture import picture_of


def steps(name: str = "x") -> BackwardSteps:
    x = torch.tensor(3.0, requires_grad=True)
    return trace_graph(x * x, names={name: x}, values=True, gradients=True).steps()


def signs(told: BackwardSteps) -> list[dict[str, Any]]:
    """Return the data of each step in `told` that the page's script reads."""
    data = re.search('data-steps="(.*?)"', told._repr_html_())
    assert data is not None
    found: list[dict[str, Any]] = json.loads(unescape(data[1]))
    return found


def test_printed_list_contains_sentence_of_each_step() -> None:
    told = steps()
    items = re.findall("<li>(.*?)</li>", told._repr_html_())
    assert [unescape(item) for item in items] == [step.sentence for step in told.steps]


def test_data_for_script_has_box_arrows_and_texts_of_each_step() -> None:
    assert signs(steps()) == [
        {"box": 1, "arrows": [], "writes": [[1, 0, "value 3"]]},
        {"box": 0, "arrows": [], "writes": [[0, 0, "value 9"]]},
        {"box": 0, "arrows": [], "writes": [[0, 1, "grad 1"]]},
        {"box": 0, "arrows": [0], "writes": [[0, 1, "grad 1"], [1, 1, "grad 3"]]},
        {"box": 0, "arrows": [1], "writes": [[0, 1, "grad 1"], [1, 1, "grad 6"]]},
        {"box": 1, "arrows": [], "writes": [[1, 1, "grad 6"]]},
    ]


def test_step_marks_arrow_of_its_edge_if_inputs_have_arrows_too() -> None:
    x, w = torch.tensor([2.0]), torch.tensor([3.0], requires_grad=True)
    with record() as recording:
        y = (x * w * x).sum()
    trace = trace_graph(y, names={"x": x, "w": w}, recording=recording, gradients=True)
    told = trace.steps()
    boxes = enumerate(picture_of(trace).boxes)
    links = [(number, target) for number, box in boxes for target in box.targets]
    for step, sign in zip(told.steps, signs(told), strict=True):
        if step.edge is not None:
            (way,) = sign["arrows"]
            (edge,) = (e for e in trace.nodes[step.node].edges if e.output_nr == step.edge)
            assert links[way] == (step.node, edge.target)


def test_gradients_of_several_outputs_are_written_together() -> None:
    first, second = torch.tensor([1.0, 2.0], requires_grad=True).unbind()
    told = trace_graph(first * second, values=True, gradients=True).steps()
    written = [write for sign in signs(told) for write in sign["writes"]]
    assert {text for node, line, text in written if (node, line) == (1, 1)} == {"grad 2; 1"}


def test_markup_in_name_is_escaped() -> None:
    name = "</li></script><script>window.hit = 1</script><img src=x onerror='hit = 1'>\"'&"
    html = steps(name).to_html()
    assert (html.count("<img"), html.count("<script")) == (0, steps().to_html().count("<script"))
    assert name in unescape(steps(name)._repr_html_())
