"""Tensors that get no gradient: cut off, never used, not a leaf, or without a derivative."""

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import Variable
from torch.distributions import Categorical, Normal
from torch.utils.checkpoint import checkpoint

from leafgrad import diagnose, record
from tests.stories.diagnosing import Diagnosed, Stories, Story, check

stories = Stories()


@stories("https://github.com/pytorch/pytorch/issues/19778", "not-a-leaf")
def a_leaf_that_was_viewed_at_once() -> Diagnosed:
    with record() as recording:
        x = torch.tensor([0.25, 0.75], requires_grad=True).view(2, 1, 1)  # here
        loss = x.sum()
    return loss, {"x": x}, recording


@stories("", "frozen", help="floating-point")
def whole_numbers_as_an_input() -> Diagnosed:
    x = torch.tensor([1, 2])
    w = nn.Parameter(torch.ones(2))
    return (w * x).sum(), {"x": x}, None


@stories("https://github.com/pytorch/pytorch/issues/91529", "no-graph")
def results_put_into_a_float_tensor() -> Diagnosed:
    a = torch.tensor(0.0, requires_grad=True)
    with warnings.catch_warnings(), record() as recording:
        warnings.simplefilter("ignore")
        loss = torch.FloatTensor([torch.cos(a), torch.sin(a)]).sum()  # here
    return loss, {"a": a}, recording


@stories("https://github.com/kevinzakka/recurrent-visual-attention/issues/4", "converted")
def a_round_trip_through_numpy() -> Diagnosed:
    w = nn.Parameter(torch.ones(3))
    with record() as recording:
        mean = torch.from_numpy((2 * w).detach().numpy()).mean()  # here
        loss = mean * torch.ones(1, requires_grad=True)
    return loss, {"w": w}, recording


@stories("", "no-graph")
def a_loss_summed_as_numbers() -> Diagnosed:
    model = nn.Linear(2, 1)
    with record() as recording:
        total = 0.0
        for _ in range(2):
            total += model(torch.ones(2)).sum().item()  # here
        loss = torch.tensor(total, requires_grad=True)
    return loss, {"x": model.weight}, recording


@stories("https://github.com/benedekrozemberczki/pytorch_geometric_temporal/issues/80", "copied")
def a_parameter_made_in_the_forward() -> Diagnosed:
    w = nn.Parameter(torch.ones(3))
    with record() as recording:
        scaled = nn.Parameter(2 * w)  # here
        loss = scaled.sum()
    return loss, {"w": w}, recording


@stories("https://github.com/rimchang/Faster-RCNN-Pytorch-Simple/issues/2", "detached")
def a_variable_of_data() -> Diagnosed:
    x = torch.ones(3, requires_grad=True)
    with record() as recording:
        again = Variable((2 * x).data, requires_grad=True)  # here
        loss = again.sum()
    return loss, {"x": x}, recording


@stories("https://github.com/haotian-liu/LLaVA/issues/305", "no-grad")
def an_encoder_whose_method_is_decorated_with_no_grad() -> Diagnosed:
    class Tower(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vision = nn.Linear(3, 2)

        @torch.no_grad()  # here
        def forward(self, image: torch.Tensor) -> Any:
            return self.vision(image)  # here

    tower, head = Tower(), nn.Linear(2, 1)
    image = torch.rand(1, 3, requires_grad=True)
    with record() as recording:
        loss = head(tower(image)).sum()
    return loss, {"image": image}, recording


@stories("https://github.com/deepinv/deepinv/issues/166", "no-graph")
def a_library_that_leaves_gradients_switched_off() -> Diagnosed:
    model = nn.Linear(2, 1)

    def potential(x: torch.Tensor) -> torch.Tensor:
        torch.set_grad_enabled(False)  # here
        return x * x

    try:
        with record() as recording:
            potential(torch.ones(2))
            loss = model(torch.ones(2)).sum()
        return loss, model, recording
    finally:
        torch.set_grad_enabled(True)


@stories(
    "https://github.com/Lightning-AI/pytorch-lightning/issues/19910",
    "no-graph",
    help="inference_mode()",
)
def a_jacobian_in_a_test_step() -> Diagnosed:
    x = torch.rand(3, requires_grad=True)
    with record() as recording, torch.inference_mode():
        y = (x * x).sum()  # here
    return y, {"x": x}, recording


@stories("https://github.com/ronghuaiyang/arcface-pytorch/issues/56", "no-graph")
def a_loss_that_was_made_to_require_grad() -> Diagnosed:
    model = nn.Linear(2, 1)
    loss = model(torch.ones(2)).sum().detach()
    loss.requires_grad = True
    return loss, model, None


@stories(
    "https://github.com/huggingface/peft/issues/137", "no-graph", help="enable_input_require_grads"
)
def adapters_with_reentrant_checkpoints() -> Diagnosed:
    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(3, 3).requires_grad_(False)
            self.lora_A, self.lora_B = nn.Linear(3, 1), nn.Linear(1, 3)

        def forward(self, x: torch.Tensor) -> Any:
            return self.base(x) + self.lora_B(self.lora_A(x))

    model = Adapted()
    with warnings.catch_warnings(), record() as recording:
        warnings.simplefilter("ignore")
        loss = checkpoint(model, torch.ones(1, 3), use_reentrant=True).sum()  # here
    return loss, model, recording


@stories(
    "https://github.com/huggingface/transformers/issues/26098", "no-graph", help="requires_grad_()"
)
def a_model_of_which_everything_is_frozen() -> Diagnosed:
    model = nn.Linear(2, 1).requires_grad_(False)
    return model(torch.ones(2)).sum(), model, None


@stories("", "copied", help="functional_call")
def an_inner_step_that_writes_data() -> Diagnosed:
    model = nn.Linear(2, 1)
    rate = torch.tensor(0.1, requires_grad=True)
    with record() as recording:
        inner = model(torch.ones(2)).square().sum()
        gradients = torch.autograd.grad(inner, [*model.parameters()], create_graph=True)
        for one, gradient in zip(model.parameters(), gradients, strict=True):
            one.data = one - rate * gradient  # here
        loss = model(torch.zeros(2)).square().sum()
    return loss, {"rate": rate}, recording


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


@stories("https://github.com/pytorch/pytorch/issues/44944", "no-derivative", help="interpolate")
def a_parameter_as_an_index() -> Diagnosed:
    data = torch.rand(5, requires_grad=True)
    place = nn.Parameter(torch.tensor([2.0]))
    with record() as recording:
        loss = data[place.long()].sum()  # here
    return loss, {"place": place}, recording


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


@stories("", "no-graph", help="softmax()")
def an_accuracy_as_a_loss() -> Diagnosed:
    model, labels = nn.Linear(2, 3), torch.tensor([0, 2])
    with record() as recording:
        predicted = model(torch.rand(2, 2)).argmax(-1)  # here
        loss = 1.0 - (predicted == labels).float().mean()
    return loss, model, recording


@stories("", "no-graph", help="gather")
def places_of_the_largest_entries() -> Diagnosed:
    heat = nn.Parameter(torch.rand(8))
    with record() as recording:
        places = heat.topk(2).indices  # here
        loss = (places.float() - 3.0).square().sum()
    return loss, {"heat": heat}, recording


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


@stories("", "no-graph", help="sigmoid")
def an_overlap_of_masks_made_by_where() -> Diagnosed:
    network = nn.Linear(2, 4)
    with record() as recording:
        predicted = torch.where(network(torch.ones(1, 2)) > 0.5, 1.0, 0.0)  # here
        loss = 1 - (predicted * torch.ones(1, 4)).sum()
    return loss, network, recording


@stories("", "no-graph", help="interpolate")
def depths_found_by_searchsorted() -> Diagnosed:
    weights = nn.Parameter(torch.rand(4))
    depths = torch.linspace(0, 1, 5)
    with record() as recording:
        cumulative = weights.softmax(0).cumsum(0)
        places = torch.searchsorted(cumulative, torch.rand(6))  # here
        loss = depths[places].sum()
    return loss, {"weights": weights}, recording


@stories(
    "https://github.com/huawei-noah/AdderNet/issues/20",
    "custom-backward-count",
    help="return one gradient for each input",
)
def a_custom_backward_that_forgets_to_return() -> Diagnosed:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: object, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return x * w

        @staticmethod  # here
        def backward(_ctx: object, gradient: torch.Tensor) -> None:
            _ = 2.0 * gradient

    w = nn.Parameter(torch.ones(2))
    loss = Scaled.apply(torch.ones(2), w).sum()  # type: ignore[no-untyped-call]
    return loss, {"w": w}, None


@stories(
    "https://github.com/WisconsinAIVision/MaskPoint/issues/7",
    "not-scalar",
    help="`.mean()` or `.sum()`",
)
def a_loss_for_each_sample() -> Diagnosed:
    model = nn.Linear(2, 1)
    loss = nn.functional.mse_loss(model(torch.ones(4, 2))[:, 0], torch.ones(4), reduction="none")
    return loss, model, None


def test_recreated_parameter_gets_no_useless_edit() -> None:
    old = nn.Parameter(torch.ones(2))
    with record() as recording:
        new = nn.Parameter(old.data)
        loss = new.square().sum()
    report = diagnose(loss, {"old": old}, recording=recording)
    assert report.codes == ("detached",)
    assert not report.diagnoses[0].help[0].edits


@pytest.mark.parametrize("story", stories, ids=lambda story: story.program.__name__)
def test_report_on_missing_gradients_names_cause_and_its_fix_works(story: Story) -> None:
    check(story)
