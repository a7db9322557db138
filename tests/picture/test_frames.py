"""Frames around the nodes of a module."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import nn

from leafgrad import GraphTrace, record, trace_graph
from tests.messages import message
from tests.models import polynomial, transformer
from tests.picture.picture import picture_of
from tests.picture.test_modules import Twice, recorded
from tests.picture.test_svg import meanings

Make = Callable[[], GraphTrace]


class Skipping(nn.Module):
    """Layers beside a skip connection, with names of different lengths."""

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
    return [title for title, _, _ in picture_of(trace).frames]


def scrolling_frame(trace: GraphTrace) -> list[list[str]]:
    """Return the names of the boxes in each frame."""
    shown = picture_of(trace)
    return [
        [box.name for box in shown.boxes if frame.holds(box.rect)] for _, frame, _ in shown.frames
    ]


def test_frame_holds_nodes_of_module_and_its_own_leaves() -> None:
    assert titles(layers()) == ["2: Linear", "0: Linear"]
    assert scrolling_frame(layers()) == [
        ["AddmmBackward0", f"{path}.bias", "TBackward0", f"{path}.weight"] for path in "20"
    ]


def test_shared_leaf_is_outside_of_frames() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    inside = {name for frame in scrolling_frame(recorded(model, 1, 2)) for name in frame}
    assert "0.weight" not in inside
    assert "0.bias" in inside


def test_input_is_in_no_frame_unless_no_leaf_is_named() -> None:
    assert not any("leaf" in frame for frame in scrolling_frame(layers()))
    with record() as recording:
        y = nn.Sequential(nn.Linear(2, 2), nn.Tanh())(torch.ones(1, 2))
    (frame,) = scrolling_frame(trace_graph(y, recording=recording))
    assert len(frame) == 4


def test_each_call_of_module_has_a_frame() -> None:
    assert titles(twice()) == ["inner.0: Linear"] * 2  # the leaves belong to both


@pytest.mark.parametrize("trace", [polynomial(), transformer()], ids=["no module", "too large"])
def test_large_graph_and_graph_without_modules_have_no_frames(trace: GraphTrace) -> None:
    assert 'class="frame' not in trace.to_svg(fold=False)


def test_legend_explains_frames() -> None:
    assert message("legend.frame") in meanings(layers().to_svg())
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    inferred = trace_graph(model(torch.ones(1, 2)).sum(), names=model)
    assert message("legend.frame-inferred") in meanings(inferred.to_svg())


@pytest.mark.parametrize("direction", ["backward", "forward"])
@pytest.mark.parametrize("make", [layers, skipping, twice])
def test_no_arrow_crosses_title_of_frame(make: Make, direction: str) -> None:
    shown = picture_of(make(), direction=direction)
    assert shown.frames
    for title, frame, start in shown.frames:
        for box in shown.boxes:
            assert frame.holds(box.rect) is not (not frame.overlaps(box.rect))
        end = start + 6.6 * len(title)
        assert frame.left < start < end < frame.right
        for points in shown.paths:
            for (x, above), (u, below) in pairwise(points):
                if above < frame.top + 12 and below > frame.top:
                    assert x == u
                    assert not start <= x <= end


def test_frozen_module_of_one_node_has_a_frame() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    model[2].requires_grad_(requires_grad=False)
    assert titles(recorded(model, 1, 2)) == ["4: Linear", "2: Linear, 2 frozen", "0: Linear"]
