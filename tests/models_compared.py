"""Real models of what PyTorch alone offers, to compare what is said with what backward does."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from leafgrad import GraphTrace, describe_tensor, diagnose, record, trace_graph
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


def disturbances(name: str, *, recorded: bool) -> Iterator[str]:
    """Look at a model's loss in each way, and yield what that changed, or said wrongly.

    What is recorded is not compiled.
    """
    module, run = made(name)
    run().backward()
    undisturbed = {path: one.grad for path, one in module.named_parameters()}
    module, run = made(name)
    with record(values=True) if recorded else nullcontext() as recording:
        loss = run()
    parameters = dict(module.named_parameters())
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        look = partial(trace_graph, loss, names=module, recording=recording, values=True)
        trace = look(gradients=True)
        report = diagnose(loss, module, recording=recording, gradients=True)
        described = [describe_tensor(one) for one in parameters.values()]
    yield from (f"warns: {one.message}" for one in warned)
    yield from (f"finds {one.code}" for one in report if one.severity == "error")
    yield from (f"describes {one}" for one in described if not one.is_parameter)
    if GraphTrace.from_json(trace.to_json()) != trace:
        yield "is another when read back"
    yield from (f"has filled {path}" for path, one in parameters.items() if one.grad is not None)
    loss.backward()
    named = {path for leaf in trace.leaves for path in leaf.tensor_names}
    for path, one in parameters.items():
        if not _alike(one.grad, undisturbed[path]):
            yield f"changes the gradient of {path}"
        if one.grad is not None and path not in named:
            yield f"does not name {path}"


def _alike(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return str(one) == str(other)  # of subclasses as well


def made(name: str) -> Case:
    """Make a model, the same at each time."""
    torch.manual_seed(0)
    return MODELS[name]()


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


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


@model
def compiled() -> Case:
    network = layers()
    faster: Any = torch.compile(network, backend="aot_eager")
    return network, lambda: faster(torch.randn(2, 4)).sum()


@model
def compiled_itself() -> Case:
    network: Any = torch.compile(layers(), backend="aot_eager")
    return network, lambda: network(torch.randn(2, 4)).sum()


@model
def selectively_checkpointed() -> Case:
    network = layers()
    contexts = partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])

    def run() -> Tensor:
        x = torch.randn(2, 4)
        h: Tensor = checkpoint(network, x, use_reentrant=False, context_fn=contexts)
        return h.sum()

    return network, run


@model
def frozen_backbone() -> Case:
    network = nn.Sequential(layers(), nn.Linear(1, 2))
    network[0].requires_grad_(False)
    return network, lambda: network(torch.randn(2, 4)).sum()


class Adapted(nn.Module):
    """Adds what two narrow layers compute to what a frozen one does."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(requires_grad=False)
        self.lora_a = nn.Linear(base.in_features, 2, bias=False)
        self.lora_b = nn.Linear(2, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.base(x) + self.lora_b(self.lora_a(x))
        return result


@model
def adapters() -> Case:
    network = nn.Sequential(Adapted(nn.Linear(4, 4)), nn.Tanh(), Adapted(nn.Linear(4, 1)))
    return network, lambda: network(torch.randn(2, 4)).sum()


class EightBit(Tensor):
    """Holds integers and a scale, and is their product to whoever computes with it."""

    whole: Tensor
    scale: Tensor

    @staticmethod
    def __new__(cls: Any, whole: Tensor, scale: Tensor) -> Any:
        tensor: Any = Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype)
        tensor.whole, tensor.scale = whole, scale
        return tensor

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["whole", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, *_: object) -> Any:
        return EightBit(inner["whole"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func is torch.ops.aten.detach.default:
            return EightBit(args[0].whole, args[0].scale)

        def open_(one: Any) -> Any:
            return one.whole * one.scale if isinstance(one, EightBit) else one

        return func(*tree_map(open_, args), **tree_map(open_, kwargs or {}))


@model
def adapters_of_quantised_weights() -> Case:
    network = Adapted(nn.Linear(4, 4))
    whole = torch.randint(-8, 8, (4, 4), dtype=torch.int8)
    packed: Any = EightBit(whole, torch.tensor(0.1))
    network.base.weight = nn.Parameter(packed, requires_grad=False)
    return network, lambda: network(torch.randn(2, 4, requires_grad=True)).sum()


@model
def weights_of_a_subclass() -> Case:
    network = nn.Linear(4, 4, bias=False)
    pair: Any = TwoTensor(torch.ones(4, 4), torch.ones(4, 4))
    network.weight = nn.Parameter(pair)

    return network, lambda: network(torch.randn(2, 4)).sum()


@model
def ragged_batches() -> Case:
    network = nn.Linear(4, 4)

    def run() -> Tensor:
        parts = [torch.randn(2, 4), torch.randn(3, 4)]
        x = torch.nested.nested_tensor(parts, layout=torch.jagged)
        result: Tensor = network(x).values().square().sum()
        return result

    return network, run
