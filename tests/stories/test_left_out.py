"""Parameters that no gradient comes to, and leaves that no optimizer knows."""

from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import record
from tests.stories.diagnosing import Diagnosed, Stories, Story, check

stories = Stories()


@stories(
    "https://github.com/pytorch/pytorch/issues/57776",
    "unused",
    help="all 12 parameters of `auxiliary`",
)
def an_auxiliary_head_under_ddp() -> Diagnosed:
    model = nn.ModuleDict(
        {
            "body": nn.Linear(2, 2),
            "auxiliary": nn.Sequential(*[nn.Linear(2, 2) for _ in range(6)]),
        }
    )
    with record() as recording:
        loss = model["body"](torch.ones(1, 2)).sum()
    return loss, model, recording


@stories(
    "https://github.com/Megvii-BaseDetection/YOLOX/issues/885",
    "detached",
    help="all 16 parameters of `backbone`",
)
def a_whole_backbone_cut_off() -> Diagnosed:
    model = nn.ModuleDict(
        {
            "backbone": nn.Sequential(*[nn.Linear(2, 2) for _ in range(8)]),
            "head": nn.Linear(2, 1),
        }
    )
    with record() as recording:
        features = model["backbone"](torch.ones(1, 2))
        loss = model["head"](features.detach()).sum()  # here
    return loss, model, recording


@stories("https://github.com/pytorch/pytorch/issues/715", "unregistered", help="nn.ModuleList")
def layers_in_a_python_list() -> Diagnosed:
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
    return loss, model, recording


@stories("", "unregistered", "blocks['down'][0].weight")
def layers_in_a_dict_of_lists() -> Diagnosed:
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
    return loss, model, recording


@stories("https://github.com/pytorch/pytorch/issues/632", "unregistered", help="nn.ParameterDict")
def parameters_in_a_dict() -> Diagnosed:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = {"w": nn.Parameter(torch.ones(2)), "b": nn.Parameter(torch.zeros(2))}

        def forward(self, x: torch.Tensor) -> Any:
            return x * self.weights["w"] + self.weights["b"]

    model = Net()
    return model(torch.ones(1, 2)).sum(), model, None


@stories("", "unregistered", "scale")
def a_parameter_that_was_scaled_where_it_was_made() -> Diagnosed:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(2)) * 0.1

        def forward(self, x: torch.Tensor) -> Any:
            return self.scale * x

    model = Net()
    return model(torch.ones(1, 2)).sum(), model, None


@stories("https://github.com/rballester/tntorch/issues/3", "unregistered")
def a_plain_tensor_as_a_weight() -> Diagnosed:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.rand(2, 2, requires_grad=True)

        def forward(self, x: torch.Tensor) -> Any:
            return x @ self.weight

    model = Net()
    return model(torch.ones(1, 2)).sum(), model, None


@stories("https://github.com/FangyunWei/SLRT/issues/74", "")
def the_first_blocks_of_a_backbone_frozen() -> Diagnosed:
    model = nn.ModuleDict(
        {"blocks": nn.Sequential(*[nn.Linear(2, 2) for _ in range(6)]), "head": nn.Linear(2, 1)}
    )
    model["blocks"].requires_grad_(False)
    loss = model["head"](model["blocks"](torch.ones(1, 2))).sum()
    return loss, model, None


@stories(
    "https://github.com/ImprintLab/MedSegDiff/issues/27",
    "unused",
    "pooler.weight",
    help="find_unused_parameters=True",
)
def a_pooler_whose_output_is_not_used() -> Diagnosed:
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
    return loss, model, recording


@pytest.mark.parametrize("story", stories, ids=lambda story: story.program.__name__)
def test_report_names_the_cause_and_its_fix_works(story: Story) -> None:
    check(story)
