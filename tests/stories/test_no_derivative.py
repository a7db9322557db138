"""Operations that have no derivative, or one that is zero everywhere."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Normal

from leafgrad import diagnose, explain_grad, preflight, record
from tests.stories.telling import Stories, Story, assert_told

stories = Stories()


@stories(
    "https://github.com/pytorch/pytorch/issues/1339",
    cause="argmax",
    cure=r"softmax",
)
def argmax_between_two_modules() -> object:
    encoder, table = nn.Linear(3, 5), nn.Embedding(5, 2)
    with record() as recording:
        token = encoder(torch.ones(1, 3)).argmax(-1)  # here
        loss = table(token).sum()
    return explain_grad(encoder.weight, loss, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/44944",
    cause=("long", "index"),
    cure=("interpolate|weight", "floating-point"),
    never="softmax.* for long",
)
def a_parameter_as_an_index() -> object:
    data = torch.rand(5, requires_grad=True)
    place = nn.Parameter(torch.tensor([2.0]))
    with record() as recording:
        loss = data[place.long()].sum()  # here
    return explain_grad(place, loss, recording=recording)


@stories(
    "https://github.com/NVlabs/diff-dope/issues/1",
    cause=r"gt|comparison",
    cure="sigmoid",
)
def a_mask_by_a_comparison() -> object:
    image = torch.rand(4, requires_grad=True)
    with record() as recording:
        mask = (image > 0.5).float()  # here
        loss = (mask - torch.ones(4)).square().mean()
    return preflight(loss, names={"image": image}, recording=recording)


@stories(
    "https://github.com/albrateanu/LYT-Net/issues/16",
    cause="Histc|histc",
    cure="with a derivative|soft",
)
def a_histogram_as_a_loss() -> object:
    image = torch.rand(16, requires_grad=True)
    with record() as recording:
        loss = torch.histc(image, 4).std()  # here
    return preflight(loss, names={"image": image}, recording=recording)


@stories(
    "https://github.com/Hiyuur/SR-TOD/issues/5",
    cause=("zero", "SignBackward0"),
    cure=r"detach\(\)|tanh|sigmoid",
)
def a_learnable_threshold_behind_sign() -> object:
    threshold = nn.Parameter(torch.tensor(0.3))
    with record() as recording:
        mask = (torch.sign(torch.rand(4) - threshold) + 1) * 0.5  # here
        loss = mask.mean()
    return explain_grad(threshold, loss, recording=recording)


@stories(
    "https://github.com/Justin-Tan/generative-compression/issues/51",
    cause=("zero", "RoundBackward0"),
    cure=r"\(x\.round\(\) - x\)\.detach\(\)",
)
def weights_rounded_without_a_straight_through_gradient() -> object:
    layer = nn.Linear(2, 2)
    with record() as recording:
        loss = nn.functional.linear(torch.ones(1, 2), layer.weight.round()).sum()  # here
    return preflight(loss, names={"weight": layer.weight}, recording=recording)


@stories(
    "https://github.com/kashif/firedup/issues/9",
    cause="sample",
    cure=r"rsample\(\)",
    never="broadcast_tensors",
)
def an_action_drawn_by_sample() -> object:
    policy = nn.Linear(3, 1)
    critic = nn.Linear(1, 1)
    with record() as recording:
        action = Normal(policy(torch.ones(1, 3)), 1.0).sample()  # here
        loss = -critic(action).mean()
    return explain_grad(policy.weight, loss, recording=recording)


@stories(
    "https://pytorch.org/docs/stable/distributions.html#score-function",
    cause="sample",
    cure=r"log_prob\(\)",
)
def a_reward_of_a_categorical_action() -> object:
    policy = nn.Linear(3, 4)
    with record() as recording:
        action = Categorical(logits=policy(torch.ones(1, 3))).sample()  # here
        loss = -(action.float() * 2.0).mean()
    return preflight(loss, names=policy, recording=recording)


@stories(
    "https://github.com/ericjang/gumbel-softmax/issues/12",
    cause="argmax|one_hot",
    cure="gumbel_softmax|softmax",
)
def words_chosen_by_argmax_and_one_hot() -> object:
    generator, judge = nn.Linear(2, 6), nn.Linear(6, 1)
    with record() as recording:
        scores = generator(torch.ones(1, 2))
        words = nn.functional.one_hot(scores.argmax(-1), 6).float()  # here
        loss = judge(words).sum()
    return explain_grad(generator.weight, loss, recording=recording)


@stories(
    "",
    cause=("argmax|eq", "require"),
    cure="softmax|cross_entropy",
)
def an_accuracy_as_a_loss() -> object:
    model, labels = nn.Linear(2, 3), torch.tensor([0, 2])
    with record() as recording:
        predicted = model(torch.rand(2, 2)).argmax(-1)  # here
        loss = 1.0 - (predicted == labels).float().mean()
    return preflight(loss, names=model, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/4714",
    cause=("StoppedBackward|Stopped", "hands on none|None"),
    cure="return a gradient",
)
def a_custom_function_that_returns_none() -> object:
    class Stopped(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: object, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return x * w

        @staticmethod
        def backward(_ctx: object, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
            return 2.0 * gradient, None

    w = nn.Parameter(torch.ones(2))
    loss = Stopped.apply(torch.ones(2, requires_grad=True), w).sum()  # type: ignore[no-untyped-call]
    return explain_grad(w, loss)


@stories(
    "",
    cause="topk|sort|max",
    cure="softmax",
)
def places_of_the_largest_entries() -> object:
    heat = nn.Parameter(torch.rand(8))
    with record() as recording:
        places = heat.topk(2).indices  # here
        loss = (places.float() - 3.0).square().sum()
    return explain_grad(heat, loss, recording=recording)


@stories(
    "https://github.com/D-X-Y/AutoDL-Projects/issues/74",
    cause="multinomial",
    cure=r"gumbel_softmax|log_prob",
    never="sigmoid",
)
def an_operation_drawn_by_multinomial() -> object:
    scores = nn.Parameter(torch.ones(3))
    values = torch.rand(3)
    with record() as recording:
        chosen = torch.multinomial(scores.softmax(0), 1)  # here
        loss = values[chosen].sum()
    return explain_grad(scores, loss, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/4159",
    cause=("zero", "Bernoulli"),
    cure=r"RelaxedBernoulli|log_prob|straight",
    never=r"x\.round\(\)",
)
def a_mask_drawn_by_bernoulli() -> object:
    scores = nn.Parameter(torch.ones(3))
    with record() as recording:
        kept = torch.bernoulli(scores.sigmoid())  # here
        loss = (kept * torch.rand(3)).sum()
    return explain_grad(scores, loss, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/pull/4137",
    cause=("zero", "Normal"),
    cure=r"randn|rsample",
    never=r"x\.round\(\)",
)
def a_latent_drawn_by_normal() -> object:
    mean = nn.Parameter(torch.ones(3))
    with record() as recording:
        latent = torch.normal(mean, torch.ones(3))  # here
        loss = latent.square().sum()
    return preflight(loss, names={"mean": mean}, recording=recording)


@stories(
    "https://github.com/huawei-noah/AdderNet/issues/21",
    cause=("Adder", "returns 1 of 2 gradients"),
    cure=r"one gradient for each input|None for",
)
def a_custom_backward_with_too_few_gradients() -> object:
    class Adder(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: object, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return x + w

        @staticmethod
        def backward(_ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            return 2.0 * gradient  # here

    w = nn.Parameter(torch.ones(2))
    loss = Adder.apply(torch.ones(2), w).sum()  # type: ignore[no-untyped-call]
    return diagnose(loss, {"w": w})


@stories(
    "https://github.com/huawei-noah/AdderNet/issues/20",
    cause=("Scaled", "returns nothing"),
    cure=r"return",
)
def a_custom_backward_that_forgets_to_return() -> object:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: object, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return x * w

        @staticmethod  # here
        def backward(_ctx: object, gradient: torch.Tensor) -> Any:
            _ = 2.0 * gradient

    w = nn.Parameter(torch.ones(2))
    loss = Scaled.apply(torch.ones(2), w).sum()  # type: ignore[no-untyped-call]
    return diagnose(loss, {"w": w})


@stories(
    "https://github.com/WisconsinAIVision/MaskPoint/issues/7",
    cause=(r"one (real )?number|scalar", r"\(4,?\)|4 numbers"),
    cure=r"mean\(\)|sum\(\)",
)
def a_loss_for_each_sample() -> object:
    model = nn.Linear(2, 1)
    loss = nn.functional.mse_loss(model(torch.ones(4, 2))[:, 0], torch.ones(4), reduction="none")
    return diagnose(loss, model)


@stories(
    "https://github.com/pnnl/neuromancer/issues/154",
    cause=("linear|does not depend on it|constant", "derivative"),
    cure=r"allow_unused|materialize_grads|zero",
    never=("nothing that was recorded used it", "Use it for the outputs"),
)
def a_second_derivative_of_what_is_linear() -> object:
    network = nn.Linear(1, 1)
    x = torch.rand(4, 1, requires_grad=True)
    with record() as recording:
        u = network(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)  # here
    return explain_grad(x, slope.sum(), recording=recording)


@stories(
    "",
    cause=("where|gt|comparison",),
    cure=r"sigmoid",
)
def an_overlap_of_masks_made_by_where() -> object:
    network = nn.Linear(2, 4)
    with record() as recording:
        predicted = torch.where(network(torch.ones(1, 2)) > 0.5, 1.0, 0.0)  # here
        loss = 1 - (predicted * torch.ones(1, 4)).sum()
    return preflight(loss, names=network, recording=recording)


@stories(
    "",
    cause=("nonzero|gt",),
    cure=r"weighted",
)
def edges_of_a_graph_that_a_threshold_chooses() -> object:
    scores = nn.Parameter(torch.rand(3, 3))
    features = torch.rand(3, 2)
    with record() as recording:
        edges = (scores > 0.1).nonzero().t()  # here
        loss = features[edges[0]].sum()
    return explain_grad(scores, loss, recording=recording)


@stories(
    "",
    cause=("searchsorted|bucketize",),
    cure=r"interpolate",
)
def depths_found_by_searchsorted() -> object:
    weights = nn.Parameter(torch.rand(4))
    depths = torch.linspace(0, 1, 5)
    with record() as recording:
        cumulative = weights.softmax(0).cumsum(0)
        places = torch.searchsorted(cumulative, torch.rand(6))  # here
        loss = depths[places].sum()
    return explain_grad(weights, loss, recording=recording)


@stories(
    "",
    cause=("derivative that does not exist|no derivative", "//"),
    cure=r"/|floating|straight",
)
def a_step_by_floor_division() -> object:
    x = nn.Parameter(torch.rand(3))
    with record() as recording:
        loss = (x // 0.1).sum()  # here
    return diagnose(loss, {"x": x}, recording=recording)


@pytest.mark.parametrize("story", stories, ids=lambda story: story.title)
def test_the_story_is_explained(story: Story) -> None:
    assert_told(story)
