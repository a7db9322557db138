"""Real models of what PyTorch alone offers, to compare what is said with what backward does."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from leafgrad import record
from tests.programs import Count, compared

Case = tuple[nn.Module, Callable[[], Tensor]]
MODELS: dict[str, Callable[[], Case]] = {}


def model(make: Callable[[], Case]) -> Callable[[], Case]:
    MODELS[make.__name__] = make
    return make


def compared_models() -> Count:
    """Compare each model once."""
    found = Count()
    for name, make in MODELS.items():
        torch.manual_seed(0)
        module, run = make()
        with record() as recording:
            loss = run()
        found.add(compared(name, loss, dict(module.named_parameters()), recording))
    return found


@model
def transformer() -> Case:
    layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
    return encoder, lambda: encoder(torch.randn(2, 3, 8)).sum()


@model
def attention() -> Case:
    mixed = nn.MultiheadAttention(8, 2)
    x = torch.randn(3, 1, 8)

    def run() -> Tensor:
        _, weights = mixed(x, x, x)
        result: Tensor = weights.sum()
        return result

    return mixed, run


@model
def lstm() -> Case:
    network = nn.LSTM(3, 4, num_layers=2)

    def run() -> Tensor:
        outputs, _ = network(torch.randn(5, 1, 3))
        result: Tensor = outputs.sum()
        return result

    return network, run


@model
def gru_with_its_last_state_alone() -> Case:
    network = nn.GRU(3, 4, num_layers=2)

    def run() -> Tensor:
        _, states = network(torch.randn(5, 1, 3))
        result: Tensor = states[0].sum()
        return result

    return network, run


@model
def convolutions() -> Case:
    network = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten()
    )
    return network, lambda: network(torch.randn(2, 1, 8, 8)).sum()


@model
def generator_through_a_frozen_critic() -> Case:
    both = nn.ModuleDict({"G": nn.Linear(2, 4), "D": nn.Linear(4, 1)})
    both["D"].requires_grad_(False)
    return both, lambda: both["D"](both["G"](torch.randn(3, 2))).mean()


@model
def critic_on_detached_fakes() -> Case:
    both = nn.ModuleDict({"G": nn.Linear(2, 4), "D": nn.Linear(4, 1)})
    return both, lambda: both["D"](both["G"](torch.randn(3, 2)).detach()).mean()


@model
def actor_and_critic() -> Case:
    both = nn.ModuleDict({"actor": nn.Linear(4, 2), "critic": nn.Linear(4, 1)})

    def run() -> Tensor:
        state = torch.randn(4)
        chosen = torch.distributions.Categorical(logits=both["actor"](state))
        action = chosen.sample()
        advantage: Tensor = 1.0 - both["critic"](state)
        result: Tensor = (-chosen.log_prob(action) * advantage.detach()).sum()
        return result

    return both, run


class Experts(nn.Module):
    """Sends each input to the one expert that its gate likes best."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        scores = self.gate(x).softmax(-1)
        best = int(scores.argmax())
        result: Tensor = self.experts[best](x) * scores[best]
        return result


@model
def experts() -> Case:
    network = Experts()
    return network, lambda: network(torch.randn(4)).sum()


@model
def tied_weights() -> Case:
    network = nn.ModuleDict({"embedding": nn.Embedding(5, 4), "head": nn.Linear(4, 5, bias=False)})
    network["head"].weight = network["embedding"].weight
    return network, lambda: network["head"](network["embedding"](torch.tensor([1, 2]))).sum()


@model
def weight_norm() -> Case:
    network = parametrizations.weight_norm(nn.Linear(4, 4))
    return network, lambda: network(torch.randn(2, 4)).sum()


@model
def spectral_norm() -> Case:
    network = parametrizations.spectral_norm(nn.Linear(4, 4))
    return network, lambda: network(torch.randn(2, 4)).sum()


@model
def hooked_modules() -> Case:
    network = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    for part in network.children():
        part.register_full_backward_hook(lambda *_: None)
    return network, lambda: network(torch.randn(2, 4, requires_grad=True)).sum()


def _checkpointed(*, use_reentrant: bool) -> Case:
    first, second, idle, last = (nn.Linear(4, 4) for _ in range(4))
    network = nn.Sequential(first, second, idle, last)

    def run() -> Tensor:
        h = torch.randn(2, 4, requires_grad=True)
        for part in (first, second):
            h = checkpoint(part, h, use_reentrant=use_reentrant)
        result: Tensor = last(h).sum()
        return result

    return network, run


@model
def checkpointed_blocks() -> Case:
    return _checkpointed(use_reentrant=False)


@model
def reentrant_blocks() -> Case:
    return _checkpointed(use_reentrant=True)


@model
def functional_call() -> Case:
    network = nn.Linear(4, 4)
    own: Any = dict(network.named_parameters())
    return network, lambda: torch.func.functional_call(network, own, torch.randn(2, 4)).sum()


@model
def embedding_bag_and_rounding() -> Case:
    network = nn.ModuleDict({"bag": nn.EmbeddingBag(5, 4), "out": nn.Linear(4, 1)})
    return network, lambda: network["out"](network["bag"](torch.tensor([[1, 2]])).round()).sum()


@model
def inner_loop_of_meta_learning() -> Case:
    network = nn.Linear(4, 1)

    def run() -> Tensor:
        x = torch.randn(2, 4)
        own: Any = dict(network.named_parameters())
        gradients = torch.autograd.grad(network(x).square().sum(), own.values(), create_graph=True)
        fast = {n: p - 0.1 * g for (n, p), g in zip(own.items(), gradients, strict=True)}
        result: Tensor = torch.func.functional_call(network, fast, x).square().sum()
        return result

    return network, run


@model
def straight_through() -> Case:
    network = nn.Linear(4, 4)

    def run() -> Tensor:
        h = network(torch.randn(4))
        result: Tensor = (h + (h.round() - h).detach()).sum()
        return result

    return network, run


@model
def quantised() -> Case:
    network = nn.Linear(4, 4)
    return network, lambda: network(torch.randn(4)).round().square().sum()
