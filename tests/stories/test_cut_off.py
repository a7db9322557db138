"""Values that went on without their graph."""

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import Variable
from torch.utils.checkpoint import checkpoint

from leafgrad import record
from tests.stories.diagnosing import Diagnosed, Stories, Story, check

stories = Stories()


@stories("https://github.com/weizheliu/People-Flows/issues/7", "copied")
def losses_put_into_a_new_tensor_that_requires_grad() -> Diagnosed:
    model = nn.Linear(2, 1)
    with record() as recording:
        losses = [model(torch.ones(2)).sum(), model(torch.zeros(2)).sum()]
        loss = torch.tensor(losses, requires_grad=True).sum()  # here
    return loss, {"x": model.weight}, recording


@stories(
    "https://discuss.pytorch.org/t/gradient-is-lost-when-use-torch-tensor-t1-t2/23261", "no-graph"
)
def results_put_into_a_new_tensor() -> Diagnosed:
    a, b = (torch.tensor(0.0, requires_grad=True) for _ in range(2))
    with record() as recording:
        y = torch.tensor([torch.cos(a), torch.cos(b)])  # here
        loss = y.sum()
    return loss, {"a": a, "b": b}, recording


@stories("https://github.com/pytorch/pytorch/issues/91529", "no-graph")
def results_put_into_a_float_tensor() -> Diagnosed:
    a = torch.tensor(0.0, requires_grad=True)
    with warnings.catch_warnings(), record() as recording:
        warnings.simplefilter("ignore")
        loss = torch.FloatTensor([torch.cos(a), torch.sin(a)]).sum()  # here
    return loss, {"a": a}, recording


@stories("https://github.com/speechbrain/speechbrain/issues/1396", "detached")
def features_detached_on_the_way() -> Diagnosed:
    encoder, head = nn.Linear(3, 2), nn.Linear(2, 1)
    with record() as recording:
        features = encoder(torch.ones(3)).detach()  # here
        loss = head(features).sum()
    return loss, {"x": encoder.weight}, recording


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


@stories("https://github.com/hoyeoplee/MeLU/issues/9", "copied", help="functional_call")
def fast_weights_loaded_by_load_state_dict() -> Diagnosed:
    model = nn.Linear(2, 1)
    rate = torch.tensor(0.1, requires_grad=True)
    with record() as recording:
        loss = model(torch.ones(2)).sum()
        gradients = torch.autograd.grad(loss, [*model.parameters()], create_graph=True)
        fast = {
            name: one - rate * gradient
            for (name, one), gradient in zip(model.named_parameters(), gradients, strict=True)
        }
        model.load_state_dict(fast)  # here
        outer = model(torch.zeros(2)).sum()
    return outer, {"rate": rate}, recording


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


@stories("https://github.com/edreisMD/ConVIRT-pytorch/issues/7", "no-grad", "text.weight")
def a_projection_inside_a_no_grad_block() -> Diagnosed:
    model = nn.ModuleDict({"text": nn.Linear(3, 2), "image": nn.Linear(3, 2)})
    with record() as recording:
        with torch.no_grad():  # here
            text = model["text"](torch.ones(1, 3))
        loss = (model["image"](torch.ones(1, 3)) * text).sum()
    return loss, model, recording


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


@stories("https://github.com/BorealisAI/advertorch/issues/79", "no-graph")
def an_attack_inside_an_evaluation_loop() -> Diagnosed:
    model = nn.Linear(3, 2)
    with record() as recording, torch.no_grad():  # here
        image = torch.rand(1, 3).requires_grad_()
        loss = model(image).sum()
    return loss, {"image": image}, recording


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


@stories("https://github.com/huggingface/transformers/issues/21598", "no-graph")
def a_reentrant_checkpoint_behind_frozen_embeddings() -> Diagnosed:
    table, block = nn.Embedding(5, 3).requires_grad_(False), nn.Linear(3, 3)
    with warnings.catch_warnings(), record() as recording:
        warnings.simplefilter("ignore")
        hidden = table(torch.tensor([1, 2]))
        loss = checkpoint(block, hidden, use_reentrant=True).sum()  # here
    return loss, {"x": block.weight}, recording


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
    "https://github.com/igul222/improved_wgan_training/issues/18",
    "no-graph",
    help="create_graph=True",
)
def a_gradient_penalty_without_create_graph() -> Diagnosed:
    critic = nn.Linear(2, 1)
    x = torch.rand(4, 2, requires_grad=True)
    with record() as recording:
        (slope,) = torch.autograd.grad(critic(x).sum(), x)  # here
        penalty = (slope.norm(dim=1) - 1).square().mean()
    return penalty, critic, recording


@stories(
    "https://github.com/huggingface/transformers/issues/26098", "no-graph", help="requires_grad_()"
)
def a_model_of_which_everything_is_frozen() -> Diagnosed:
    model = nn.Linear(2, 1).requires_grad_(False)
    return model(torch.ones(2)).sum(), model, None


@stories(
    "https://github.com/MC-E/Deep-Generalized-Unfolding-Networks-for-Image-Restoration/issues/6",
    "copied",
)
def a_loss_per_scale_put_into_a_new_tensor() -> Diagnosed:
    model = nn.ModuleList([nn.Linear(2, 1), nn.Linear(2, 1)])
    with record() as recording:
        losses = [one(torch.ones(2)).square().sum() for one in model]
        loss = torch.tensor(losses, requires_grad=True).sum() + 0.05  # here
    return loss, model, recording


@stories("https://github.com/huggingface/torchMoji/issues/21", "no-graph")
def a_model_that_returns_data() -> Diagnosed:
    model = nn.Linear(2, 1)
    with record() as recording:
        outputs = model(torch.ones(2)).data  # here
        loss = outputs.sum()
    return loss, model, recording


@stories("https://github.com/katerakelly/pytorch-maml/issues/21", "copied", help="functional_call")
def weights_copied_into_a_model_under_no_grad() -> Diagnosed:
    model = nn.Linear(2, 1)
    scale = torch.tensor(2.0, requires_grad=True)
    with record() as recording:
        fast = scale * torch.ones(1, 2)
        with torch.no_grad():
            model.weight.copy_(fast)  # here
        loss = model(torch.ones(2)).sum()
    return loss, {"scale": scale}, recording


@stories("https://github.com/lululxvi/deepxde/pull/1388", "no-graph")
def derivatives_put_together_by_as_tensor() -> Diagnosed:
    model = nn.Linear(2, 1)
    with record() as recording:
        terms = [model(torch.ones(2)).sum(), model(torch.zeros(2)).sum()]
        loss = torch.as_tensor(terms).mean()  # here
    return loss, model, recording


@stories("https://github.com/Quantum-Cheese/DeepReinforcementLearning_Pytorch/issues/1", "no-graph")
def log_probabilities_of_an_episode_in_a_new_tensor() -> Diagnosed:
    policy = nn.Linear(3, 2)
    memory = []
    with record() as recording:
        for state in torch.rand(3, 3):
            choice = torch.distributions.Categorical(logits=policy(state))
            memory.append((choice.log_prob(choice.sample()), 1.0))
        log_probs = torch.tensor([one for one, _ in memory], dtype=torch.float)  # here
        loss = -(log_probs * torch.ones(3)).sum()
    return loss, policy, recording


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


@stories("", "copied", help="functional_call")
def weights_that_another_network_makes() -> Diagnosed:
    maker, made = nn.Linear(3, 4, bias=False), nn.Linear(4, 1, bias=False)
    with record() as recording:
        made.weight.data = maker(torch.ones(1, 3))  # here
        loss = made(torch.ones(4)).sum()
    return loss, {"x": maker.weight}, recording


@stories("", "detached", "encoder.weight")
def coordinates_detached_and_joined_again() -> Diagnosed:
    encoder, head = nn.Linear(1, 2), nn.Linear(3, 1)
    with record() as recording:
        features = encoder(torch.rand(4, 1))
        joined = torch.cat([features.detach(), torch.rand(4, 1)], 1)  # here
        loss = head(joined).sum()
    return loss, {"encoder": encoder, "head": head}, recording


@pytest.mark.parametrize("story", stories, ids=lambda story: story.program.__name__)
def test_report_names_the_cause_and_its_fix_works(story: Story) -> None:
    check(story)
