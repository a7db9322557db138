"""Parameters that no gradient comes to, and leaves that no optimizer knows."""

from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import preflight, record
from tests.stories.telling import Stories, Story, assert_told

stories = Stories()


@stories(
    "https://github.com/pytorch/pytorch/issues/57776",
    cause=("auxiliary", "unused|used it"),
    name=r"12 parameters",
    cure=("find_unused_parameters=True", "leave"),
    long=r"auxiliary\.0\.weight: .*auxiliary\.0\.bias: ",
)
def an_auxiliary_head_under_ddp() -> object:
    model = nn.ModuleDict(
        {
            "body": nn.Linear(2, 2),
            "auxiliary": nn.Sequential(*[nn.Linear(2, 2) for _ in range(6)]),
        }
    )
    with record() as recording:
        loss = model["body"](torch.ones(1, 2)).sum()
    return preflight(loss, names=model, recording=recording)


@stories(
    "https://github.com/Megvii-BaseDetection/YOLOX/issues/885",
    cause=("backbone", "detach"),
    cure=r"detach\(\) out",
    long=r"And \d+ other",
)
def a_whole_backbone_cut_off() -> object:
    model = nn.ModuleDict(
        {
            "backbone": nn.Sequential(*[nn.Linear(2, 2) for _ in range(8)]),
            "head": nn.Linear(2, 1),
        }
    )
    with record() as recording:
        features = model["backbone"](torch.ones(1, 2))
        loss = model["head"](features.detach()).sum()  # here
    return preflight(loss, names=model, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/715",
    cause=("4 .*not in names",),
    cure="ModuleList",
)
def layers_in_a_python_list() -> object:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(2, 2), nn.Linear(2, 2)]
            self.head = nn.Linear(2, 1)

        def forward(self, x: torch.Tensor) -> Any:
            for layer in self.layers:
                x = layer(x).relu()  # here
            return self.head(x)

    model = Net()
    with record() as recording:
        loss = model(torch.ones(1, 2)).sum()
    return preflight(loss, names=model, recording=recording)


@stories(
    "",
    cause=("4 .*not in names",),
    name=(r"blocks\['down'\]\[0\]\.weight",),
    cure="ModuleList",
)
def layers_in_a_dict_of_lists() -> object:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = {"down": [nn.Linear(2, 2)], "up": [nn.Linear(2, 2)]}
            self.head = nn.Linear(2, 1)

        def forward(self, x: torch.Tensor) -> Any:
            for blocks in self.blocks.values():
                for block in blocks:
                    x = block(x).relu()  # here
            return self.head(x)

    model = Net()
    with record() as recording:
        loss = model(torch.ones(1, 2)).sum()
    return preflight(loss, names=model, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/632",
    cause=("2 .*not in names",),
    cure=("ParameterDict|ParameterList",),
)
def parameters_in_a_dict() -> object:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = {"w": nn.Parameter(torch.ones(2)), "b": nn.Parameter(torch.zeros(2))}

        def forward(self, x: torch.Tensor) -> Any:
            return x * self.weights["w"] + self.weights["b"]

    model = Net()
    return preflight(model(torch.ones(1, 2)).sum(), names=model)


@stories(
    "",
    cause=("1 .*not in names",),
    cure=(r"nn\.Parameter",),
)
def a_parameter_that_was_scaled_where_it_was_made() -> object:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(2)) * 0.1

        def forward(self, x: torch.Tensor) -> Any:
            return self.scale * x

    model = Net()
    return preflight(model(torch.ones(1, 2)).sum(), names=model)


@stories(
    "https://github.com/rballester/tntorch/issues/3",
    cause=("1 .*not in names",),
    cure=(r"nn\.Parameter",),
)
def a_plain_tensor_as_a_weight() -> object:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.rand(2, 2, requires_grad=True)

        def forward(self, x: torch.Tensor) -> Any:
            return x @ self.weight

    model = Net()
    return preflight(model(torch.ones(1, 2)).sum(), names=model)


@stories(
    "https://github.com/FangyunWei/SLRT/issues/74",
    cause=("blocks", "frozen|requires_grad is off"),
    name="12 parameters",
    cure=r"requires_grad_\(",
    long=r"And \d+ other",
)
def the_first_blocks_of_a_backbone_frozen() -> object:
    model = nn.ModuleDict(
        {"blocks": nn.Sequential(*[nn.Linear(2, 2) for _ in range(6)]), "head": nn.Linear(2, 1)}
    )
    model["blocks"].requires_grad_(False)
    loss = model["head"](model["blocks"](torch.ones(1, 2))).sum()
    return preflight(loss, names=model)


@stories(
    "https://github.com/ImprintLab/MedSegDiff/issues/27",
    cause=("pooler", "unused|not used|No path"),
    cure="leave it out|find_unused_parameters",
)
def a_pooler_whose_output_is_not_used() -> object:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.pooler = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> Any:
            hidden = self.body(x)
            return hidden, self.pooler(hidden).tanh()  # here

    model = Encoder()
    with record() as recording:
        hidden, _pooled = model(torch.ones(1, 2))
        loss = hidden.sum()
    return preflight(loss, names=model, recording=recording)


@pytest.mark.parametrize("story", stories, ids=lambda story: story.title)
def test_the_story_is_explained(story: Story) -> None:
    assert_told(story)
