"""Graphs of small models with realistic structure."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from leafgrad import GraphTrace, trace_graph


class Residual(nn.Module):
    """Convolutions with a skip connection, as in a ResNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolve = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.convolve(x))


class Block(nn.Module):
    """Attention and a perceptron, each with a skip connection, as in a transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attend = nn.MultiheadAttention(width, num_heads=2, batch_first=True)
        layers = nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        self.perceptron = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        x = x + self.perceptron(self.norms[1](x))
        return x  # noqa: RET504 (a module's call has no type)


class Run(NamedTuple):
    """A loss and its model."""

    loss: torch.Tensor
    model: nn.Module

    def traced(self) -> GraphTrace:
        return trace_graph(self.loss, names=self.model)


def run_resnet() -> Run:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), *(Residual(4) for _ in range(8)))
    return Run(model(torch.ones(1, 3, 8, 8)).mean(), model)


def run_transformer() -> Run:
    model = nn.Sequential(nn.Linear(8, 8), *(Block(8) for _ in range(12)))
    return Run(model(torch.ones(1, 4, 8)).mean(), model)


def run_lstm() -> Run:
    cell = nn.LSTMCell(2, 3)
    state = torch.zeros(1, 3), torch.zeros(1, 3)
    for _ in range(40):
        state = cell(torch.ones(1, 2), state)
    return Run(state[0].sum(), cell)


def resnet() -> GraphTrace:
    return run_resnet().traced()


def transformer() -> GraphTrace:
    return run_transformer().traced()


def lstm() -> GraphTrace:
    return run_lstm().traced()


def checkpointed() -> GraphTrace:
    model = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))
    x = torch.ones(2, 4, requires_grad=True)
    y: Any = x
    for layer in model:
        y = torch.tanh(checkpoint(layer, y, use_reentrant=False))
    return trace_graph(y.sum(), names=dict(model.named_parameters()) | {"x": x})


def pinn() -> GraphTrace:
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.ones(5, 2, requires_grad=True)
    (slopes,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    (curvatures,) = torch.autograd.grad(slopes[:, 0].sum(), x, create_graph=True)
    residual = slopes[:, 1] - curvatures[:, 0]
    return trace_graph(residual.square().mean(), names=dict(model.named_parameters()) | {"x": x})


def polynomial() -> GraphTrace:
    x = torch.ones(3, requires_grad=True)
    y = torch.ones(3, requires_grad=True)
    return trace_graph(x * x + torch.sin(2 * y), names={"x": x, "y": y})


def wide() -> GraphTrace:
    x = torch.ones(2, requires_grad=True)
    return trace_graph(torch.stack([x.sin() for _ in range(60)]), names={"x": x})


MODELS: dict[str, Callable[[], GraphTrace]] = {
    model.__name__: model
    for model in (resnet, transformer, lstm, checkpointed, pinn, polynomial, wide)
}


class Half(torch.autograd.Function):
    """Returns no gradient for its second input."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    @staticmethod
    def backward(_: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0], None
