"""Which boxes a picture shows."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd.graph import get_gradient_edge

from leafgrad import GraphTrace, trace_graph
from tests.models import MODELS, polynomial, transformer, wide
from tests.picture.picture import Picture, picture_of
from tests.picture.test_svg import chain


def copies(picture: Picture) -> list[int]:
    return [box.copies for box in picture.boxes]


def test_full_picture_has_each_node_and_edge() -> None:
    shown = picture_of(polynomial(), fold=False)
    assert [box.tooltip[0] for box in shown.boxes] == [
        f"node {node.index}: {node.name}" for node in polynomial().nodes
    ]
    assert [box.targets for box in shown.boxes] == [[1, 3], [2, 2], [], [4], [5], []]
    assert [box.is_root for box in shown.boxes] == [True] + 5 * [False]


def test_folded_leaves_are_within_their_nodes() -> None:
    shown = picture_of(polynomial(), fold=True)
    assert shown.names == ["AddBackward0", "MulBackward0", "SinBackward0", "MulBackward0"]
    assert [box.pills for box in shown.boxes] == [[], ["x (3,), used 2×"] * 2, [], ["y (3,)"]]
    unnamed = picture_of(trace_graph(torch.ones(2, requires_grad=True).exp()), fold=True)
    assert unnamed.boxes[0].pills == ["leaf (2,)"]


def test_leaf_that_is_the_root_has_a_box() -> None:
    (box,) = picture_of(trace_graph(torch.ones(2, requires_grad=True)), fold=True).boxes
    assert box.is_root
    assert box.rect.kind == "leaf"


@pytest.mark.parametrize(("steps", "boxes"), [(38, 40), (39, 3)])
def test_more_than_forty_nodes_are_folded(steps: int, boxes: int) -> None:
    assert len(picture_of(chain(steps)).boxes) == boxes
    assert len(picture_of(chain(steps), fold=False).boxes) == steps + 2


def test_blocks_of_transformer_are_drawn_once() -> None:
    shown = picture_of(transformer(), fold=True)
    leaves = {pill.split()[0] for box in shown.boxes for pill in box.pills}
    assert {"*.norms.0.weight", "*.perceptron.2.bias"} <= leaves
    assert not any(leaf.startswith("11.") for leaf in leaves)
    assert not any(line.startswith("module ") for box in shown.boxes for line in box.tooltip[:1])


def test_equal_branches_are_drawn_once() -> None:
    shown = picture_of(wide(), fold=True)
    assert [box.texts[0] for box in shown.boxes] == ["StackBackward0", "SinBackward0 ×60"]
    assert shown.boxes[1].pills == ["x (2,), used 60×"]


def test_equal_branches_from_different_outputs_are_folded() -> None:
    x = torch.ones(50, 2, requires_grad=True)
    trace = trace_graph(torch.stack([row.sin() for row in x.exp().unbind()]))
    shown = picture_of(trace, fold=True)
    assert shown.names[1:3] == ["SinBackward0", "UnbindBackward0"]
    assert copies(shown) == [1, 50, 1, 1]


def marked(how: str) -> GraphTrace:
    """Trace a chain of sines; one in the middle differs."""
    sines = [torch.ones(2, requires_grad=True).sin()]
    for _ in range(60):
        sines.append(sines[-1].sin())
    outputs: list[Any] = [sines[-1].sum()]
    names = {"here": sines[30]} if how == "named" else {}
    if how == "a root":
        outputs.append(get_gradient_edge(sines[30]))
    if how == "retained":
        sines[30].retain_grad()
        outputs += sines
    if how == "written twice":
        for sine in [*sines, sines[29]]:
            sine.detach().add_(1)
    return trace_graph(outputs, names=names)


@pytest.mark.parametrize("how", ["named", "a root", "retained", "written twice"])
def test_node_that_differs_from_its_repeats_is_not_folded(how: str) -> None:
    shown = picture_of(marked(how), fold=True)
    assert copies(shown) == [1, 30, 1, 29, 1]
    assert shown.boxes[2].is_root is (how in {"a root", "retained"})


def test_text_shows_the_first_output_shapes_and_counts_the_others() -> None:
    first, *_ = torch.ones(6, requires_grad=True).split([1, 2, 3])
    assert "(1,), (2,), and 1 more<" in trace_graph(first.sin()).to_svg()


@pytest.mark.parametrize("fold", [None, True, False])
@pytest.mark.parametrize("make", MODELS.values())
def test_links_lead_to_later_boxes_and_only_the_root_has_no_incoming_link(
    make: Callable[[], GraphTrace], fold: Any
) -> None:
    boxes = picture_of(make(), fold=fold).boxes
    led = {target for box in boxes for target in box.targets}
    assert [box.is_root for number, box in enumerate(boxes) if number not in led] == [True]
    assert all(target > number for number, box in enumerate(boxes) for target in box.targets)
