"""Tensors that are not the one that a gradient comes to."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import explain_grad, preflight, record
from tests.stories.telling import Stories, Story, assert_told

stories = Stories()


@stories(
    "https://github.com/pytorch/pytorch/issues/19778",
    cause=(r"view", "leaf"),
    cure=(r"before view\(\)|in front of view\(\)", r"requires_grad_\(\)|retain_grad\(\)"),
)
def a_leaf_that_was_viewed_at_once() -> object:
    with record() as recording:
        x = torch.tensor([0.25, 0.75], requires_grad=True).view(2, 1, 1)  # here
        loss = x.sum()
    return explain_grad(x, loss, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/32708",
    cause=("view", "leaf"),
    cure=r"before view\(\)",
)
def a_name_that_is_used_again_for_the_view() -> object:
    x = torch.linspace(1, 32, steps=32, requires_grad=True)
    x = x.view(2, 4, 2, 2)
    return explain_grad(x, x.sum())


@stories(
    "https://discuss.pytorch.org/t/how-to-define-a-leaf-tensor-in-pytorch-0-4-1/28461",
    cause=(r"\bto\(", "leaf"),
    cure=r"before \.?to\(\)|after \.?to\(\)",
)
def a_leaf_that_was_moved() -> object:
    with record() as recording:
        w = torch.ones(3, requires_grad=True).to(torch.float64)  # here
        loss = w.sum()
    return explain_grad(w, loss, recording=recording)


@stories(
    "https://forum.pyro.ai/t/try-to-understand-param-with-constraints/4761",
    cause=("ExpBackward0|exp", "leaf"),
    cure=r"retain_grad\(\)|leaf",
)
def a_parameter_behind_a_constraint() -> object:
    raw = nn.Parameter(torch.zeros(2))
    mu = raw.exp()
    return explain_grad(mu, mu.sum())


@stories(
    "https://github.com/BorealisAI/advertorch/issues/49",
    cause=("leaf", "SubBackward0|AddBackward0|add|sub"),
    cure=(r"detach\(\)\.requires_grad_\(\)"),
)
def an_input_that_is_stepped_by_hand() -> object:
    model = nn.Linear(2, 1)
    x = torch.rand(1, 2, requires_grad=True)
    with record() as recording:
        model(x).sum().backward()
        assert x.grad is not None
        x = x + 0.1 * x.grad.sign()  # here
        loss = model(x).sum()
    return explain_grad(x, loss, recording=recording)


@stories(
    "",
    cause="before its requires_grad",
    cure=r"requires_grad_\(\) on it before",
    never="nothing that was recorded used it",
)
def requires_grad_set_after_use() -> object:
    x, w = torch.ones(2), torch.ones(2, requires_grad=True)
    with record() as recording:
        loss = (x * w).sum()  # here
        x.requires_grad_()
    return explain_grad(x, loss, recording=recording)


@stories(
    "https://github.com/hosseinshn/GradNorm/issues/10",
    cause=("[Cc]lone", "not from it|beside"),
    cure="itself|leaf",
)
def a_clone_that_the_loss_never_saw() -> object:
    model = nn.Linear(2, 1)
    with record() as recording:
        loss = model(torch.ones(2)).sum()
        copied = model.weight.clone()  # here
    return explain_grad(copied, loss, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/73697",
    cause=("not from it|beside", "slice|SliceBackward0|select|SelectBackward0|getitem"),
    cure=r"torch\.cat|torch\.stack|itself|columns?",
)
def the_column_of_points_that_a_network_was_not_given() -> object:
    network = nn.Linear(2, 1)
    points = torch.rand(4, 2, requires_grad=True)
    with record() as recording:
        t = points[:, :1]  # here
        u = network(points)
    return explain_grad(t, u.sum(), recording=recording)


@stories(
    "https://github.com/facebookresearch/higher/issues/58",
    cause="nothing that was recorded used it|not used",
    cure="copy",
)
def parameters_of_a_deep_copy() -> object:
    model = nn.Linear(2, 1)
    twin = copy.deepcopy(model)
    with record() as recording:
        loss = twin(torch.ones(2)).sum()
    return explain_grad(model.weight, loss, recording=recording)


@stories(
    "",
    cause="does not require grad",
    cure=r"named_parameters\(\)",
)
def a_tensor_of_the_state_dict() -> object:
    model = nn.Linear(2, 1)
    return explain_grad(model.state_dict()["weight"], model(torch.ones(2)).sum())


@stories(
    "https://github.com/huggingface/peft/issues/282",
    cause=("lora_A", "frozen|requires_grad is off"),
    cure=("requires_grad_", "is_trainable=True"),
)
def adapters_loaded_without_is_trainable() -> object:
    model = nn.ModuleDict({"base": nn.Linear(3, 3), "lora_A": nn.Linear(3, 1)})
    model.requires_grad_(False)
    head = nn.Linear(4, 1)
    x = torch.ones(1, 3)
    loss = head(torch.cat([model["base"](x), model["lora_A"](x)], 1)).sum()
    return preflight(loss, names={"model": model, "head": head})


@stories(
    "https://github.com/open-mmlab/mmdetection/issues/11234",
    cause="cleared",
    cure="before zero_grad",
)
def a_gradient_looked_at_after_zero_grad() -> object:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(2)).square().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return explain_grad(model.weight, loss)


@stories(
    "",
    cause=r"int|torch\.int64",
    cure="floating-point",
)
def whole_numbers_as_an_input() -> object:
    x = torch.tensor([1, 2])
    w = nn.Parameter(torch.ones(2))
    return explain_grad(x, (w * x).sum())


@stories(
    "",
    cause="other way",
    cure="Swap",
)
def the_loss_and_the_input_swapped() -> object:
    x = torch.ones(2, requires_grad=True)
    y = x.square()
    return explain_grad(y.sum(), y)


@stories(
    "",
    cause="does not require grad",
    cure=r"requires_grad_\(\) on it before",
)
def interpolated_samples_of_a_gradient_penalty() -> object:
    critic = nn.Linear(2, 1)
    mixed = 0.5 * torch.rand(4, 2) + 0.5 * torch.rand(4, 2)
    return explain_grad(mixed, critic(mixed).sum())


@stories(
    "",
    cause="backward",
    cure=r"backward\(\)",
    never=("zero_grad", "unused"),
)
def gradients_that_are_clipped_before_the_backward() -> object:
    model = nn.Linear(2, 1)
    loss = model(torch.ones(2)).sum()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return explain_grad(model.weight, loss)


@stories(
    "",
    cause="does not require grad",
    cure=(r"nn\.Parameter",),
)
def a_buffer_that_should_be_trained() -> object:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.register_buffer("scale", torch.ones(2))

        def forward(self, x: torch.Tensor) -> Any:
            return self.linear(x) * self.get_buffer("scale")

    model = Scaled()
    return explain_grad(model.get_buffer("scale"), model(torch.ones(1, 2)).sum())


@pytest.mark.parametrize("story", stories, ids=lambda story: story.title)
def test_the_story_is_explained(story: Story) -> None:
    assert_told(story)
