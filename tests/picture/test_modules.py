"""Modules folded into one box each."""

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import GraphTrace, record, trace_graph
from tests.models import Block, polynomial, transformer
from tests.picture.picture import picture_of

SVG = "{http://www.w3.org/2000/svg}"


def recorded(model: nn.Module, *shape: int) -> GraphTrace:
    with record() as recording:
        y = model(torch.ones(*shape, requires_grad=True))
    return trace_graph(y.sum(), names=model, recording=recording)


def blocks() -> GraphTrace:
    middle = (Block(4) for _ in range(3))
    return recorded(nn.Sequential(nn.Linear(4, 4), *middle, nn.Linear(4, 1)), 1, 2, 4)


def names(trace: GraphTrace, fold: Any, **options: Any) -> list[str]:
    """Return the names of the boxes without classes, inputs and `Backward0`."""
    boxes = picture_of(trace, fold=fold, **options).boxes
    paths = [box.name.partition(":")[0].replace("Backward0", "") for box in boxes]
    return [path for path, box in zip(paths, boxes, strict=True) if "input" not in box.rect.kind]


def titles(trace: GraphTrace, fold: str | Collection[str]) -> list[list[str]]:
    """Return the tooltip of each box."""
    return [box.tooltip for box in picture_of(trace, fold=fold).boxes]


def test_folded_module_is_one_box() -> None:
    trace = blocks()
    (box,) = [box for box in picture_of(trace, fold="1").boxes if "module" in box.rect.kind]
    made = [node for node in trace.nodes if (node.module or "").split(".")[0] == "1"]
    leaves = [node for node in made if node.is_leaf]
    assert box.tooltip[0] == f"module 1: Block, {len(made) - len(leaves)} nodes"
    shapes: list[Any] = [shape for leaf in leaves for shape in leaf.shapes if shape is not None]
    numbers = sum(map(math.prod, shapes))
    assert box.pills == [f"{numbers} parameters"]


def test_star_in_fold_matches_one_part_of_module_path() -> None:
    trace = blocks()
    assert names(trace, "*") == ["Sum", "4", "*", "0"]
    assert names(trace, ["*.attend", "*.perceptron"]).count("*.attend") == 1
    boxes = picture_of(trace, fold="*").boxes
    assert [box.copies for box in boxes] == [1, 1, 3, 1]
    assert {"leaf *.norms.0.weight (4,)", "leaf *.attend.in_proj_bias (12,)"} <= {*boxes[2].tooltip}


def test_box_of_module_with_one_node_names_that_node() -> None:
    trace = recorded(nn.Sequential(nn.Tanh(), nn.Sigmoid()), 2)
    assert [box.texts[:2] for box in picture_of(trace, fold="*").boxes][1:] == [
        ["1: Sigmoid", "SigmoidBackward0"],
        ["0: Tanh", "TanhBackward0"],
    ]


def test_box_of_module_with_unknown_class_has_its_path() -> None:
    trace = blocks()
    picture = GraphTrace(nodes=trace.nodes, roots=trace.roots).to_svg(fold="4")
    written = [text.text for text in ET.fromstring(picture).iter(f"{SVG}text")]
    assert written[written.index("4") + 1] == "module of 4 nodes"
    assert "module 4, 4 nodes" in picture


def test_box_of_module_without_path_has_its_class_once() -> None:
    with record() as recording:
        y = nn.MSELoss()(nn.Linear(2, 2)(torch.ones(1, 2)), torch.ones(1, 2))
    trace = trace_graph(y, recording=recording)
    assert names(trace, "*") == ["MSELoss", "Linear"]
    assert "MSELoss: MSELoss" not in trace.to_svg(fold="*")


class Twice(nn.Module):
    """Calls a module twice, with other operations in between."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.inner(x)
        z: torch.Tensor = self.inner(y.exp() + y)
        return z


def test_box_of_module_describes_its_contents() -> None:
    trace = blocks()
    picture = trace.to_svg(fold=["*", "*.*"])
    written = [text.text for text in ET.fromstring(picture).iter(f"{SVG}text")]
    assert {"4: Linear", "4 nodes", "(1, 2, 1)", "5 parameters"} <= {*written}
    assert "all nodes of a module" in written
    (told,) = [title for title in titles(trace, "4") if title[0] == "module 4: Linear, 4 nodes"]
    assert told[1:3] == [
        "Linear(in_features=4, out_features=1, bias=True)",
        "output (1, 2, 1) float32 cpu",
    ]
    assert {"1 × AddmmBackward0", "leaf 4.bias (1,)"} <= {*told}
    assert "saves 2 tensors, 32 B without parameters" in told


def test_tooltip_of_module_has_twelve_leaves_at_most() -> None:
    trace = recorded(nn.Sequential(nn.Sequential(*[nn.Linear(2, 2) for _ in range(7)])), 1, 2)
    (told,) = [title for title in titles(trace, "0") if title[0].startswith("module 0: ")]
    assert sum(line.startswith("leaf ") for line in told) == 12
    assert told[-1] == "and 3 more"  # the input is a leaf too


def test_box_of_module_shows_freed_tensors() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)))
    y = model(torch.ones(1, 2))
    y.sum().backward()
    picture = trace_graph(y, names=model).to_svg(fold="0")
    assert 'class="box module freed"' in picture
    assert re.search(r">freed: \d tensors<", picture)


def test_leaves_of_unknown_size_are_counted_without_numbers() -> None:
    trace = recorded(nn.Sequential(nn.Linear(2, 2)), 1, 2)
    nodes = [replace(n, shapes=(None,)) if n.leaf_name == "0.bias" else n for n in trace.nodes]
    ragged = GraphTrace(nodes=tuple(nodes), roots=trace.roots)
    assert ">3 leaf tensors<" in ragged.to_svg(fold="0")
    assert ">3 leaf tensors<" in trace.to_svg(fold="0")


def test_unknown_module_is_refused_with_known_ones() -> None:
    there = r"not '\*\.x'; the trace knows the modules \['12', '12\.perceptron', .* more\]"
    with pytest.raises(ValueError, match=there):
        transformer().to_svg(fold=["*", "*.x"])
    with pytest.raises(ValueError, match=r"modules \[\], which it learns from names=model"):
        polynomial().to_svg(fold="*")


@pytest.mark.parametrize("fold", [1, (), [1], b"*", {"a": 1, 2: 3}], ids=repr)
def test_argument_fold_of_invalid_type_is_refused(fold: object) -> None:
    with pytest.raises(TypeError, match="fold must be True, False, None, the path of a module"):
        polynomial().to_svg(fold=fold)  # type: ignore[arg-type]
