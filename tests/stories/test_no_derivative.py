"""Operations that have no derivative, or one that is zero everywhere."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Normal

from leafgrad import record
from tests.stories.diagnosing import Diagnosed, Stories, Story, check

stories = Stories()


@stories("https://github.com/pytorch/pytorch/issues/1339", "no-derivative", help="softmax()")
def argmax_between_two_modules() -> Diagnosed:
    encoder, table = nn.Linear(3, 5), nn.Embedding(5, 2)
    with record() as recording:
        token = encoder(torch.ones(1, 3)).argmax(-1)  # here
        loss = table(token).sum()
    return loss, {"x": encoder.weight}, recording


@stories("https://github.com/pytorch/pytorch/issues/44944", "no-derivative", help="interpolate")
def a_parameter_as_an_index() -> Diagnosed:
    data = torch.rand(5, requires_grad=True)
    place = nn.Parameter(torch.tensor([2.0]))
    with record() as recording:
        loss = data[place.long()].sum()  # here
    return loss, {"place": place}, recording


@stories("https://github.com/NVlabs/diff-dope/issues/1", "no-graph", help="sigmoid")
def a_mask_by_a_comparison() -> Diagnosed:
    image = torch.rand(4, requires_grad=True)
    with record() as recording:
        mask = (image > 0.5).float()  # here
        loss = (mask - torch.ones(4)).square().mean()
    return loss, {"image": image}, recording


@stories("https://github.com/albrateanu/LYT-Net/issues/16", "no-graph", help="`histc`")
def a_histogram_as_a_loss() -> Diagnosed:
    image = torch.rand(16, requires_grad=True)
    with record() as recording:
        loss = torch.histc(image, 4).std()  # here
    return loss, {"image": image}, recording


@stories("https://github.com/Hiyuur/SR-TOD/issues/5", "zero-derivative")
def a_learnable_threshold_behind_sign() -> Diagnosed:
    threshold = nn.Parameter(torch.tensor(0.3))
    with record() as recording:
        mask = (torch.sign(torch.rand(4) - threshold) + 1) * 0.5  # here
        loss = mask.mean()
    return loss, {"threshold": threshold}, recording


@stories("https://github.com/Justin-Tan/generative-compression/issues/51", "zero-derivative")
def weights_rounded_without_a_straight_through_gradient() -> Diagnosed:
    layer = nn.Linear(2, 2)
    with record() as recording:
        loss = nn.functional.linear(torch.ones(1, 2), layer.weight.round()).sum()  # here
    return loss, {"weight": layer.weight}, recording


@stories("https://github.com/kashif/firedup/issues/9", "no-derivative", help="rsample()")
def an_action_drawn_by_sample() -> Diagnosed:
    policy = nn.Linear(3, 1)
    critic = nn.Linear(1, 1)
    with record() as recording:
        action = Normal(policy(torch.ones(1, 3)), 1.0).sample()  # here
        loss = -critic(action).mean()
    return loss, {"x": policy.weight}, recording


@stories(
    "https://pytorch.org/docs/stable/distributions.html#score-function",
    "no-graph",
    help="log_prob()",
)
def a_reward_of_a_categorical_action() -> Diagnosed:
    policy = nn.Linear(3, 4)
    with record() as recording:
        action = Categorical(logits=policy(torch.ones(1, 3))).sample()  # here
        loss = -(action.float() * 2.0).mean()
    return loss, policy, recording


@stories(
    "https://github.com/ericjang/gumbel-softmax/issues/12", "no-derivative", help="gumbel_softmax"
)
def words_chosen_by_argmax_and_one_hot() -> Diagnosed:
    generator, judge = nn.Linear(2, 6), nn.Linear(6, 1)
    with record() as recording:
        scores = generator(torch.ones(1, 2))
        words = nn.functional.one_hot(scores.argmax(-1), 6).float()  # here
        loss = judge(words).sum()
    return loss, {"x": generator.weight}, recording


@stories("", "no-graph", help="softmax()")
def an_accuracy_as_a_loss() -> Diagnosed:
    model, labels = nn.Linear(2, 3), torch.tensor([0, 2])
    with record() as recording:
        predicted = model(torch.rand(2, 2)).argmax(-1)  # here
        loss = 1.0 - (predicted == labels).float().mean()
    return loss, model, recording


@stories("https://github.com/pytorch/pytorch/issues/4714", "custom-backward")
def a_custom_function_that_returns_none() -> Diagnosed:
    class Stopped(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: object, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return x * w

        @staticmethod
        def backward(_ctx: object, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
            return 2.0 * gradient, None

    w = nn.Parameter(torch.ones(2))
    loss = Stopped.apply(torch.ones(2, requires_grad=True), w).sum()  # type: ignore[no-untyped-call]
    return loss, {"w": w}, None


@stories("", "no-graph", help="gather")
def places_of_the_largest_entries() -> Diagnosed:
    heat = nn.Parameter(torch.rand(8))
    with record() as recording:
        places = heat.topk(2).indices  # here
        loss = (places.float() - 3.0).square().sum()
    return loss, {"heat": heat}, recording


@stories("https://github.com/D-X-Y/AutoDL-Projects/issues/74", "no-graph", help="log_prob()")
def an_operation_drawn_by_multinomial() -> Diagnosed:
    scores = nn.Parameter(torch.ones(3))
    values = torch.rand(3)
    with record() as recording:
        chosen = torch.multinomial(scores.softmax(0), 1)  # here
        loss = values[chosen].sum()
    return loss, {"scores": scores}, recording


@stories(
    "https://github.com/pytorch/pytorch/issues/4159", "zero-derivative", help="RelaxedBernoulli"
)
def a_mask_drawn_by_bernoulli() -> Diagnosed:
    scores = nn.Parameter(torch.ones(3))
    with record() as recording:
        kept = torch.bernoulli(scores.sigmoid())  # here
        loss = (kept * torch.rand(3)).sum()
    return loss, {"scores": scores}, recording


@stories(
    "https://github.com/pytorch/pytorch/pull/4137", "zero-derivative", help="torch.randn_like(mean)"
)
def a_latent_drawn_by_normal() -> Diagnosed:
    mean = nn.Parameter(torch.ones(3))
    with record() as recording:
        latent = torch.normal(mean, torch.ones(3))  # here
        loss = latent.square().sum()
    return loss, {"mean": mean}, recording


@stories("https://github.com/huawei-noah/AdderNet/issues/21", "custom-backward-count")
def a_custom_backward_with_too_few_gradients() -> Diagnosed:
    class Adder(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: object, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return x + w

        @staticmethod
        def backward(_ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            return 2.0 * gradient

    w = nn.Parameter(torch.ones(2))
    loss = Adder.apply(torch.ones(2), w).sum()  # type: ignore[no-untyped-call]
    return loss, {"w": w}, None


@stories("https://github.com/huawei-noah/AdderNet/issues/20", "custom-backward-count")
def a_custom_backward_that_forgets_to_return() -> Diagnosed:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: object, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return x * w

        @staticmethod
        def backward(_ctx: object, gradient: torch.Tensor) -> Any:
            _ = 2.0 * gradient

    w = nn.Parameter(torch.ones(2))
    loss = Scaled.apply(torch.ones(2), w).sum()  # type: ignore[no-untyped-call]
    return loss, {"w": w}, None


@stories("https://github.com/WisconsinAIVision/MaskPoint/issues/7", "not-scalar")
def a_loss_for_each_sample() -> Diagnosed:
    model = nn.Linear(2, 1)
    loss = nn.functional.mse_loss(model(torch.ones(4, 2))[:, 0], torch.ones(4), reduction="none")
    return loss, model, None


@stories("https://github.com/pnnl/neuromancer/issues/154", "linear")
def a_second_derivative_of_what_is_linear() -> Diagnosed:
    network = nn.Linear(1, 1)
    x = torch.rand(4, 1, requires_grad=True)
    with record() as recording:
        u = network(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)  # here
    return slope.sum(), {"x": x}, recording


@stories("", "no-graph", help="sigmoid")
def an_overlap_of_masks_made_by_where() -> Diagnosed:
    network = nn.Linear(2, 4)
    with record() as recording:
        predicted = torch.where(network(torch.ones(1, 2)) > 0.5, 1.0, 0.0)  # here
        loss = 1 - (predicted * torch.ones(1, 4)).sum()
    return loss, network, recording


@stories("", "no-graph", help="sigmoid")
def edges_of_a_graph_that_a_threshold_chooses() -> Diagnosed:
    scores = nn.Parameter(torch.rand(3, 3))
    features = torch.rand(3, 2)
    with record() as recording:
        edges = (scores > 0.1).nonzero().t()  # here
        loss = features[edges[0]].sum()
    return loss, {"scores": scores}, recording


@stories("", "no-graph", help="interpolate")
def depths_found_by_searchsorted() -> Diagnosed:
    weights = nn.Parameter(torch.rand(4))
    depths = torch.linspace(0, 1, 5)
    with record() as recording:
        cumulative = weights.softmax(0).cumsum(0)
        places = torch.searchsorted(cumulative, torch.rand(6))  # here
        loss = depths[places].sum()
    return loss, {"weights": weights}, recording


@stories("", "no-formula")
def a_step_by_floor_division() -> Diagnosed:
    x = nn.Parameter(torch.rand(3))
    with record() as recording:
        loss = (x // 0.1).sum()  # here
    return loss, {"x": x}, recording


@pytest.mark.parametrize("story", stories, ids=lambda story: story.program.__name__)
def test_report_names_the_cause_and_its_fix_works(story: Story) -> None:
    check(story)
