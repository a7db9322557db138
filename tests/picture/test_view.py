"""What a picture shows: everything while that is little, else leaves within and repeats once."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.graph import get_gradient_edge

from leafgrad import GraphTrace, record, trace_graph
from leafgrad._picture.repeats import SEVERAL
from leafgrad._picture.view import Box, View, view_of
from tests.models import MODELS, polynomial, transformer, wide


def names(shown: View) -> list[str]:
    return [box.node.name for box in shown.boxes]


def leaves(box: Box) -> list[tuple[str | None, int]]:
    return [(leaf.name, leaf.uses) for leaf in box.leaves]


def chain(steps: int) -> GraphTrace:
    y = torch.ones(2, requires_grad=True)
    for _ in range(steps):
        y = y.sin()
    return trace_graph(y.sum())


def test_in_full_every_node_and_every_edge_is_there() -> None:
    trace = polynomial()
    shown = view_of(trace, fold=False)
    assert [box.node for box in shown.boxes] == list(trace.nodes)
    assert [box.edges for box in shown.boxes] == [
        ((1, 0), (3, 0)),
        ((2, 0), (2, 0)),
        (),
        ((4, 0),),
        ((5, 0),),
        (),
    ]
    assert [box.is_root for box in shown.boxes] == [True] + 5 * [False]


def test_folded_the_leaves_are_within_the_nodes_that_lead_to_them_once_for_each_use() -> None:
    shown = view_of(polynomial(), fold=True)
    assert names(shown) == ["AddBackward0", "MulBackward0", "SinBackward0", "MulBackward0"]
    assert [leaves(box) for box in shown.boxes] == [[], [("x", 2), ("x", 2)], [], [("y", 1)]]


def test_a_leaf_that_is_the_root_stays_apart() -> None:
    shown = view_of(trace_graph(torch.ones(2, requires_grad=True)), fold=True)
    assert [box.is_root and box.node.is_leaf for box in shown.boxes] == [True]


@pytest.mark.parametrize(("steps", "boxes"), [(38, 40), (39, 3)])
def test_more_than_forty_nodes_are_folded_unless_one_says_so(steps: int, boxes: int) -> None:
    assert len(view_of(chain(steps), fold=None).boxes) == boxes
    assert len(view_of(chain(steps), fold=False).boxes) == steps + 2


def test_the_blocks_of_a_transformer_are_shown_once_with_stars_for_their_numbers() -> None:
    shown = view_of(transformer(), fold=True)
    assert {repeat.copies for repeat in shown.repeats if repeat.in_a_row} == {12}
    within = {name for box in shown.boxes for name, _ in leaves(box)}
    assert {"*.norms.0.weight", "*.perceptron.2.bias"} <= within
    assert not any(name and name.startswith("11.") for name in within)


def test_equals_side_by_side_are_shown_once() -> None:
    shown = view_of(wide(), fold=True)
    assert [(box.node.name, box.copies) for box in shown.boxes] == [
        ("StackBackward0", 1),
        ("SinBackward0", 60),
    ]
    assert leaves(shown.boxes[1]) == [("x", 60)]


@pytest.mark.parametrize("name", MODELS)
def test_each_part_leads_to_later_ones(name: str) -> None:
    for fold in (False, True):
        for place, box in enumerate(view_of(MODELS[name](), fold=fold).boxes):
            assert all(target > place for target, _ in box.edges)


def test_outputs_are_told_apart_where_there_are_several() -> None:
    x = torch.ones(4, 2, requires_grad=True)
    rows = x.unbind()
    shown = view_of(trace_graph(rows[3] * rows[1]), fold=False)
    assert [box.outputs for box in shown.boxes] == [(), (1, 3), ()]


def test_steps_that_take_one_output_each_are_folded_all_the_same() -> None:
    x = torch.ones(50, 2, requires_grad=True)
    shown = view_of(trace_graph(torch.stack([row.sin() for row in x.exp().unbind()])), fold=True)
    assert [box.node.name for box in shown.boxes][1:3] == ["SinBackward0", "UnbindBackward0"]
    assert [box.copies for box in shown.boxes] == [1, 50, 1, 1]
    assert shown.boxes[2].outputs == (SEVERAL,)


def marked(how: str) -> GraphTrace:
    """Sines in a row, of which one in the middle is unlike the others."""
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
def test_a_node_that_is_unlike_the_others_is_never_folded_away(how: str) -> None:
    shown = view_of(marked(how), fold=True)
    assert [box.copies for box in shown.boxes] == [1, 30, 1, 29, 1]
    assert shown.boxes[2].is_root is (how in {"a root", "retained"})


def test_unnamed_leaves_stay_unnamed() -> None:
    shown = view_of(trace_graph(torch.ones(2, requires_grad=True).exp()), fold=True)
    assert leaves(shown.boxes[0]) == [(None, 1)]


def test_of_many_shapes_the_first_are_written_and_the_others_counted() -> None:
    first, *_ = torch.ones(6, requires_grad=True).split([1, 2, 3])
    assert "(1,), (2,), and 1 more<" in trace_graph(first.sin()).to_svg()


@pytest.mark.parametrize("fold", [None, True])
@pytest.mark.parametrize("make", MODELS.values())
def test_every_box_but_a_root_is_led_to(make: Callable[[], GraphTrace], fold: Any) -> None:
    shown = view_of(make(), fold=fold)
    led = {target for box in shown.boxes for target, _ in box.edges}
    assert [box.is_root for n, box in enumerate(shown.boxes) if n not in led] == [True]


def test_parallel_ways_in_an_open_module_each_lead_on() -> None:
    torch.manual_seed(0)
    layers = (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True) for _ in range(6))
    model = nn.Sequential(*layers)
    with record() as recording:
        loss = model(torch.ones(2, 8, 32)).mean()
    trace = trace_graph(loss, names=model, recording=recording)
    shown = view_of(trace, fold=None, open=["3", "3.self_attn"])
    led = {target for box in shown.boxes for target, _ in box.edges}
    assert [box.is_root for n, box in enumerate(shown.boxes) if n not in led] == [True]
