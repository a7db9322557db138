"""Gradients that arrive and are useless: zeros, or nearly so."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from leafgrad import Recording, Report, diagnose, record
from tests.stories.telling import Stories, Story, assert_told

stories = Stories()


def norms(loss: torch.Tensor, names: Any, recording: Recording) -> Report:
    """Return what is wrong with the gradients."""
    return diagnose(loss, names, recording=recording, gradients=True)


@stories(
    "https://github.com/HazyResearch/HypHC/issues/7",
    cause=(r"zero-gradient\]", r"every value is outside the bounds"),
    name="scale",
    cure=r"inside of the|sigmoid\(\)|softplus\(\)",
)
def a_scale_that_starts_outside_of_its_clamp() -> object:
    scale = nn.Parameter(torch.tensor([1e-3]))
    with record(values=True) as recording:
        radius = torch.ones(3) * scale.clamp_min(1e-2).clamp_max(1.0)  # here
        loss = radius.sum()
    return norms(loss, {"scale": scale}, recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/9243",
    cause=(r"zero-gradient\]", r"every input is negative, where the slope is zero"),
    name=r"0\.weight",
    cure=r"leaky_relu|LeakyReLU|gelu|learning rate",
)
def a_layer_whose_units_are_all_dead() -> object:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    nn.init.constant_(model.get_parameter("0.bias"), -100.0)
    with record(values=True) as recording:
        loss = model(torch.ones(1, 2)).sum()  # here
    return norms(loss, model, recording)


@stories(
    "https://github.com/ultralytics/yolov3/issues/191",
    cause=(
        r"zero-gradient\]",
        r"the softmax is constant",
        r"one entry|one class|one number|size 1",
    ),
    name="weight",
    cure=r"with_logits|sigmoid",
)
def a_cross_entropy_over_one_class() -> object:
    model = nn.Linear(3, 1)
    with record(values=True) as recording:
        scores = model(torch.ones(4, 3))
        loss = functional.cross_entropy(scores, torch.zeros(4, dtype=torch.long))  # here
    return norms(loss, model, recording)


@stories(
    "",
    cause=(
        r"zero-gradient\]",
        r"the softmax is constant",
        r"one entry|one class|one number|size 1",
    ),
    name="weight",
    cure=r"\bdim\b",
)
def a_softmax_over_a_dimension_of_one() -> object:
    model = nn.Linear(3, 1)
    with record(values=True) as recording:
        weights = model(torch.ones(4, 3)).softmax(dim=1)  # here
        loss = (weights * torch.rand(4, 1)).sum()
    return norms(loss, model, recording)


@stories(
    "https://stats.stackexchange.com/questions/294332/backpropagation-with-zero-weight-initialization",
    cause=(
        r"zero-gradient\]",
        r"the other factor is all zeros",
        r"nothing but zeros|zeros alone|factor .*zero",
    ),
    name=r"0\.weight",
    cure=r"nn\.init|random",
)
def layers_that_start_at_zero() -> object:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    for one in model.parameters():
        nn.init.zeros_(one)
    with record(values=True) as recording:
        loss = (model(torch.ones(1, 2)) - 1).square().sum()  # here
    return norms(loss, model, recording)


@stories(
    "https://github.com/DeepLabCut/DeepLabCut/issues/2751",
    cause=(
        r"zero-gradient\]",
        r"the other factor is zero",
        r"nothing but zeros|zeros alone|factor .*zero",
    ),
    name="weight",
    cure=r"\bmask\b",
)
def a_mask_that_leaves_nothing_of_the_loss() -> object:
    model = nn.Linear(2, 3)
    with record(values=True) as recording:
        error = (model(torch.ones(1, 2)) - 1).square()
        loss = (error * torch.zeros(1, 3)).sum()  # here
    return norms(loss, model, recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/31396",
    cause=(r"zero-gradient\]", r"outputs already match the targets", r"equal|the same|already"),
    name="weight",
    cure=r"target",
)
def outputs_that_are_the_targets() -> object:
    model = nn.Linear(2, 2)
    with record(values=True) as recording:
        outputs = model(torch.ones(1, 2))
        loss = functional.mse_loss(outputs, outputs.detach())  # here
    return norms(loss, model, recording)


@stories(
    "",
    cause=(r"zero-gradient\]", r"saturated: flat to the last digit", r"saturat|flat"),
    name="weight",
    cure=r"[Nn]ormalis|smaller",
)
def a_sigmoid_that_is_saturated() -> object:
    model = nn.Linear(2, 1)
    nn.init.constant_(model.weight, 200.0)
    with record(values=True) as recording:
        p = model(torch.ones(1, 2)).sigmoid()  # here
        loss = (p - 0.5).square().sum()
    return norms(loss, model, recording)


@stories(
    "",
    cause=(
        r"zero-gradient\]",
        r"this normalises one number at a time",
        r"one number|one entry|size 1",
    ),
    name=r"head\.weight",
    cure=r"more than one|[Ll]eave it out",
)
def a_layer_norm_of_one_feature() -> object:
    model = nn.Sequential(nn.Linear(3, 1), nn.LayerNorm(1))
    with record(values=True) as recording:
        hidden = model(torch.rand(4, 3))  # here
        loss = (hidden - 1).square().sum()
    return norms(loss, {"head": model.get_submodule("0")}, recording)


@stories(
    "",
    cause=(
        r"zero-gradient\]",
        r"the other factor is zero",
        r"nothing but zeros|zeros alone|factor .*zero|drops? everything",
    ),
    name="weight",
    cure=r"dropout|mask",
)
def a_dropout_of_everything() -> object:
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(p=1.0))
    with record(values=True) as recording:
        loss = model(torch.rand(4, 3)).sum()  # here
    return norms(loss, model, recording)


@stories(
    "",
    cause=(r"zero-gradient\]", r"the loss is zero here: every margin is kept"),
    name="weight",
    cure=r"margin|inside of the",
)
def a_hinge_loss_of_triplets_that_are_too_easy() -> object:
    model = nn.Linear(2, 1)
    nn.init.constant_(model.weight, 10.0)
    with record(values=True) as recording:
        near, far = model(torch.zeros(1, 2)), model(torch.ones(1, 2))
        loss = (near - far + 1).clamp(min=0).mean()  # here
    return norms(loss, model, recording)


@stories(
    "",
    cause=(
        r"zero-gradient\]",
        r"the other factor is all zeros",
        r"nothing but zeros|zeros alone|factor .*zero",
    ),
    name="weight_hh",
    cure=r"input|state",
)
def recurrent_weights_in_a_sequence_of_one_step() -> object:
    cell = nn.RNNCell(2, 3)
    with record(values=True) as recording:
        loss = cell(torch.ones(1, 2), torch.zeros(1, 3)).square().sum()  # here
    return norms(loss, cell, recording)


@stories(
    "",
    cause=("float16", "underflow|too small|smallest"),
    name="weight",
    cure=r"GradScaler|bfloat16",
)
def a_gradient_too_small_for_half_precision() -> object:
    weight = nn.Parameter(torch.ones(2, dtype=torch.float16))
    with record(values=True) as recording:
        small = weight * 1e-4  # here
        loss = (small * 1e-4).sum().float()
    return norms(loss, {"weight": weight}, recording)


@stories(
    "https://github.com/jacobgil/pytorch-grad-cam/issues/582",
    cause=(
        r"zero-gradient\]",
        r"piecewise linear: its second derivative is zero",
        r"second derivative.*zero",
    ),
    name=r"\bx\b",
    cure=r"[Tt]anh|softplus",
)
def a_second_derivative_of_a_relu() -> object:
    model = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))
    x = torch.linspace(-1, 1, 5).unsqueeze(1).requires_grad_()
    with record(values=True) as recording:
        u = model(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)  # here
        loss = slope.sum()
    return norms(loss, {"x": x, "model": model}, recording)


@stories(
    "https://www.codegenes.net/blog/outputs-all-0-no-updates-pytorch",
    cause=("gradients vanish on the way back",),
    name="to `0`",
    cure=r"ReLU|residual|normalis",
)
def a_deep_network_of_sigmoids() -> object:
    layers = [layer for _ in range(10) for layer in (nn.Linear(4, 4), nn.Sigmoid())]
    model = nn.Sequential(*layers)
    for one in model.parameters():
        nn.init.constant_(one, 0.1)
    with record(values=True) as recording:
        loss = model(torch.ones(1, 4)).sum()
    return norms(loss, model, recording)


@stories(
    "",
    cause=("gradients explode on the way back",),
    name="to `0`",
    cure=r"clip_grad_norm_",
)
def gradients_that_explode_along_the_depth() -> object:
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(10)])
    for one in model.parameters():
        nn.init.constant_(one, 2.0)
    with record(values=True) as recording:
        loss = model(torch.ones(1, 4)).sum()
    return norms(loss, model, recording)


@pytest.mark.parametrize("story", stories, ids=lambda story: story.title)
def test_the_story_is_explained(story: Story) -> None:
    assert_told(story)
