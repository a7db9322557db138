"""Tensors that are not the one that a gradient comes to."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import record
from tests.stories.diagnosing import Diagnosed, Stories, Story, check

stories = Stories()


@stories("https://github.com/pytorch/pytorch/issues/19778", "not-a-leaf")
def a_leaf_that_was_viewed_at_once() -> Diagnosed:
    with record() as recording:
        x = torch.tensor([0.25, 0.75], requires_grad=True).view(2, 1, 1)  # here
        loss = x.sum()
    return loss, {"x": x}, recording


@stories("https://github.com/pytorch/pytorch/issues/32708", "not-a-leaf")
def a_name_that_is_used_again_for_the_view() -> Diagnosed:
    x = torch.linspace(1, 32, steps=32, requires_grad=True)
    x = x.view(2, 4, 2, 2)
    return x.sum(), {"x": x}, None


@stories(
    "https://discuss.pytorch.org/t/how-to-define-a-leaf-tensor-in-pytorch-0-4-1/28461", "not-a-leaf"
)
def a_leaf_that_was_moved() -> Diagnosed:
    with record() as recording:
        w = torch.ones(3, requires_grad=True).to(torch.float64)  # here
        loss = w.sum()
    return loss, {"w": w}, recording


@stories(
    "https://forum.pyro.ai/t/try-to-understand-param-with-constraints/4761",
    "not-retained",
    help="retain_grad()",
)
def a_parameter_behind_a_constraint() -> Diagnosed:
    raw = nn.Parameter(torch.zeros(2))
    mu = raw.exp()
    return mu.sum(), {"mu": mu}, None


@stories("https://github.com/BorealisAI/advertorch/issues/49", "not-retained")
def an_input_that_is_stepped_by_hand() -> Diagnosed:
    model = nn.Linear(2, 1)
    x = torch.rand(1, 2, requires_grad=True)
    with record() as recording:
        model(x).sum().backward()
        assert x.grad is not None
        x = x + 0.1 * x.grad.sign()  # here
        loss = model(x).sum()
    return loss, {"x": x}, recording


@stories("", "requires-grad-late")
def requires_grad_set_after_use() -> Diagnosed:
    x, w = torch.ones(2), torch.ones(2, requires_grad=True)
    with record() as recording:
        loss = (x * w).sum()  # here
        x.requires_grad_()
    return loss, {"x": x}, recording


@stories("https://github.com/hosseinshn/GradNorm/issues/10", "other-tensor")
def a_clone_that_the_loss_never_saw() -> Diagnosed:
    model = nn.Linear(2, 1)
    with record() as recording:
        loss = model(torch.ones(2)).sum()
        copied = model.weight.clone()  # here
    return loss, {"copied": copied}, recording


@stories("https://github.com/pytorch/pytorch/issues/73697", "other-tensor")
def the_column_of_points_that_a_network_was_not_given() -> Diagnosed:
    network = nn.Linear(2, 1)
    points = torch.rand(4, 2, requires_grad=True)
    with record() as recording:
        t = points[:, :1]  # here
        u = network(points)
    return u.sum(), {"t": t}, recording


@stories("https://github.com/facebookresearch/higher/issues/58", "unused")
def parameters_of_a_deep_copy() -> Diagnosed:
    model = nn.Linear(2, 1)
    twin = copy.deepcopy(model)
    with record() as recording:
        loss = twin(torch.ones(2)).sum()
    return loss, {"x": model.weight}, recording


@stories("https://github.com/huggingface/peft/issues/282", "frozen", "model.lora_A.weight")
def adapters_loaded_without_is_trainable() -> Diagnosed:
    model = nn.ModuleDict({"base": nn.Linear(3, 3), "lora_A": nn.Linear(3, 1)})
    model.requires_grad_(False)
    head = nn.Linear(4, 1)
    x = torch.ones(1, 3)
    loss = head(torch.cat([model["base"](x), model["lora_A"](x)], 1)).sum()
    return loss, {"model": model, "head": head}, None


@stories("", "frozen", help="floating-point")
def whole_numbers_as_an_input() -> Diagnosed:
    x = torch.tensor([1, 2])
    w = nn.Parameter(torch.ones(2))
    return (w * x).sum(), {"x": x}, None


@stories("", "swapped")
def the_loss_and_the_input_swapped() -> Diagnosed:
    x = torch.ones((), requires_grad=True)
    y = x.square()
    return y, {"x": y.sum()}, None


@stories("", "frozen")
def interpolated_samples_of_a_gradient_penalty() -> Diagnosed:
    critic = nn.Linear(2, 1)
    mixed = 0.5 * torch.rand(4, 2) + 0.5 * torch.rand(4, 2)
    return critic(mixed).sum(), {"mixed": mixed}, None


@stories("", "")
def gradients_that_are_clipped_before_the_backward() -> Diagnosed:
    model = nn.Linear(2, 1)
    loss = model(torch.ones(2)).sum()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return loss, {"x": model.weight}, None


@stories("", "frozen", help="nn.Parameter")
def a_buffer_that_should_be_trained() -> Diagnosed:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.register_buffer("scale", torch.ones(2))

        def forward(self, x: torch.Tensor) -> Any:
            return self.linear(x) * self.get_buffer("scale")

    model = Scaled()
    return model(torch.ones(1, 2)).sum(), {"x": model.get_buffer("scale")}, None


@pytest.mark.parametrize("story", stories, ids=lambda story: story.program.__name__)
def test_report_names_the_cause_and_its_fix_works(story: Story) -> None:
    check(story)
