"""Measure the cost of `record`: forward passes and training steps with and without it.

The goals: a forward pass of PyTorch's own layers at the larger size takes at most 1.15 times as
long when lines and modules are recorded, and 1.05 times for modules only; a training step of the
small GPT takes at most twice as long. The floor is hooks on all modules and a
``TorchFunctionMode`` that do nothing.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.overrides import TorchFunctionMode

from leafgrad import record
from tests.models import Block

ROUNDS = 41


class Nothing(TorchFunctionMode):
    """A mode that calls every function unchanged."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Return the result of `func`."""
        return func(*args, **(kwargs or {}))


@contextmanager
def idle_hooks() -> Iterator[None]:
    """Add hooks that do nothing before and after each module's forward pass."""
    begin = register_module_forward_pre_hook(lambda *_: None)
    end = register_module_forward_hook(lambda *_: None, always_call=True)
    try:
        yield
    finally:
        begin.remove()
        end.remove()


@contextmanager
def idle_hooks_and_mode() -> Iterator[None]:
    """Add hooks that do nothing, and a `TorchFunctionMode` that changes nothing."""
    with idle_hooks(), Nothing():
        yield


WAYS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "plain": nullcontext,
    "  hooks that do nothing": idle_hooks,
    "lines and modules": record,
    "  hooks and a mode, idle": idle_hooks_and_mode,
    "plain again": nullcontext,
}


def transformer(width: int) -> nn.Module:
    """Return a stack of 12 of PyTorch's transformer layers."""
    layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True)
    return nn.TransformerEncoder(layer, num_layers=12, enable_nested_tensor=False)


def blocks(width: int) -> nn.Module:
    """Return a stack of 12 hand-written transformer blocks."""
    return nn.Sequential(*(Block(width) for _ in range(12)))


class Attention(nn.Module):
    """Causal self-attention, hand-written as in small GPTs."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project, self.back = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the result of attention with 4 heads."""
        batch, steps, width = x.shape
        heads = [
            part.view(batch, steps, 4, width // 4).transpose(1, 2)
            for part in self.project(x).split(width, dim=2)
        ]
        q, k, v = heads
        scores = (q @ k.transpose(-2, -1)) * (width // 4) ** -0.5
        mask = torch.tril(torch.ones(steps, steps))
        weights = scores.masked_fill(mask == 0, float("-inf")).softmax(-1)
        mixed = (weights @ v).transpose(1, 2).contiguous().view(batch, steps, width)
        return self.back(mixed)  # type: ignore[no-any-return]


class GPTBlock(nn.Module):
    """A transformer block: attention and a perceptron, each with a skip connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` plus the results of attention and the perceptron."""
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))  # type: ignore[no-any-return]


def gpt() -> Callable[[], None]:
    """Return a function that trains a GPT of 4 layers for one step on a batch of tokens."""
    embed, head = nn.Embedding(64, 64), nn.Linear(64, 64)
    model = nn.Sequential(embed, *(GPTBlock(64) for _ in range(4)), nn.LayerNorm(64), head)
    tokens = torch.randint(64, (4, 32))
    return train(
        model, lambda: nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    )


def pinn() -> Callable[[], None]:
    """Return a function that trains a PINN for the heat equation for one step."""
    model = nn.Sequential(
        nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    )

    def loss() -> Tensor:
        points = torch.rand(64, 2, requires_grad=True)
        u: Tensor = model(points)
        first = torch.autograd.grad(u.sum(), points, create_graph=True)[0]
        second = torch.autograd.grad(first[:, 0].sum(), points, create_graph=True)[0]
        residual = first[:, 1] - second[:, 0]
        return residual.square().mean() + u.square().mean()

    return train(model, loss)


class Residual(nn.Module):
    """Two convolutions with a skip connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` plus the result of the convolutions."""
        return torch.relu(x + self.layers(x))


def cnn() -> Callable[[], None]:
    """Return a function that trains a small residual network for one step on a batch of images."""
    images, labels = torch.rand(8, 3, 16, 16), torch.randint(10, (8,))
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        *(Residual(16) for _ in range(4)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    return train(model, lambda: nn.functional.cross_entropy(model(images), labels))


def train(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """Return a function that runs one training step."""
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


STEPS = {"GPT": gpt, "PINN": pinn, "CNN": cnn}

MODELS = {
    "small": (transformer, (2, 64, 128)),
    "larger": (transformer, (4, 128, 256)),
    "small, written out": (blocks, (2, 64, 128)),
}


def seconds(work: Callable[[], object], way: Callable[[], AbstractContextManager[object]]) -> float:
    """Run `work` once in the context `way`; return its CPU time in seconds."""
    start = time.process_time()
    with way():
        work()
    return time.process_time() - start


def main() -> None:
    """Print the median ratios of each way to the plain run of the same round."""
    torch.set_num_threads(1)
    for name, prepare in STEPS.items():
        compare(f"a training step of the {name}", prepare())
    for size, (make, (batch, steps, width)) in MODELS.items():
        model, x = make(width), torch.ones(batch, steps, width)
        shape = f"{size}: batch {batch}, {steps} steps, width {width}"
        compare(shape, lambda: model(x))  # noqa: B023


def compare(name: str, work: Callable[[], object]) -> None:
    """Print the time of `work` for each way."""
    rounds = [[seconds(work, way) for way in WAYS.values()] for _ in range(ROUNDS)]
    print(f"{name}, {1e3 * statistics.median(plain for plain, *_ in rounds):.1f} ms plain")
    for way, runs in zip(WAYS, zip(*rounds, strict=True), strict=True):
        ratios = [run / plain for run, (plain, *_) in zip(runs, rounds, strict=True)]
        print(f"  {way:24} {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
