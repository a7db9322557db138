"""Models whose reports are compared with their backward pass."""

import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from leafgrad import describe_tensor, diagnose, record, trace_graph
from tests.programs import Count, compared

Case = tuple[nn.Module, Callable[[], Tensor]]
MODELS: dict[str, Callable[[], Case]] = {}


def model(make: Callable[[], Case]) -> Callable[[], Case]:
    MODELS[make.__name__] = make
    return make


def compared_models() -> Count:
    """Compare each model once for all tests."""
    found = Count()
    for name, make in MODELS.items():
        torch.manual_seed(0)
        module, run = make()
        with record() as recording:
            loss = run()
        found.add(compared(name, loss, dict(module.named_parameters()), recording))
    return found


def disturbances(name: str, *, recorded: bool) -> Iterator[str]:
    """Run each function on a model's loss and yield each change and each wrong report.

    A recorded model is not compiled.
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
    if pickle.loads(pickle.dumps(trace)) != trace:
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
    return str(one) == str(other)  # subclasses too


def made(name: str) -> Case:
    """Return a model with the same parameters in each call."""
    torch.manual_seed(0)
    return MODELS[name]()


@model
def transformer() -> Case:
    layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
    return encoder, lambda: encoder(torch.randn(2, 3, 8)).sum()


@model
def lstm() -> Case:
    network = nn.LSTM(3, 4, num_layers=2)

    def run() -> Tensor:
        outputs, _ = network(torch.randn(5, 1, 3))
        result: Tensor = outputs.sum()
        return result

    return network, run


@model
def convolutions() -> Case:
    network = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten()
    )
    return network, lambda: network(torch.randn(2, 1, 8, 8)).sum()


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
def reentrant_blocks() -> Case:
    return _checkpointed(use_reentrant=True)


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


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
def ragged_batches() -> Case:
    network = nn.Linear(4, 4)

    def run() -> Tensor:
        parts = [torch.randn(2, 4), torch.randn(3, 4)]
        x = torch.nested.nested_tensor(parts, layout=torch.jagged)
        result: Tensor = network(x).values().square().sum()
        return result

    return network, run
