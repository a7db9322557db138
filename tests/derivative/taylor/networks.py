"""Networks that people differentiate for physics: two columns in, two channels out."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Between = Callable[[Tensor], Tensor]


def numbered(module: nn.Module) -> nn.Module:
    """Give the parameters numbers that are the same each time, none of them alike."""
    module.double()
    for place, parameter in enumerate(module.parameters()):
        number = torch.arange(parameter.numel(), dtype=torch.float64)
        parameter.data = ((number * 2.3 + place).cos() / 2).reshape(parameter.shape)
    return module


class Network(nn.Module):
    """A layer of four, anything, and a layer of two."""

    def __init__(self, *between: Between, width: int = 4) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(2, 4), nn.Linear(width, 2)
        self.modules_between = nn.ModuleList(b for b in between if isinstance(b, nn.Module))
        self.between = between
        numbered(self)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.enter(x)
        for layer in self.between:
            hidden = layer(hidden)
        result: Tensor = self.leave(hidden)
        return result


class Deep(Network):
    """Three gates besides, for those who need more than one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.factors = nn.ParameterList(torch.ones(4, 4) for _ in range(2))
        self.scale = nn.Parameter(torch.ones(()))
        numbered(self)


class Residual(Deep):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.enter(x)
        for gate in self.gates:
            hidden = hidden + torch.tanh(gate(hidden))
        result: Tensor = self.leave(hidden)
        return result


class Modified(Deep):
    """The perceptron with two encoders that gate each layer."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.enter(x))
        one, other = torch.tanh(self.gates[0](hidden)), torch.sigmoid(self.gates[1](hidden))
        gate = torch.tanh(self.gates[2](hidden))
        result: Tensor = self.leave(gate * one + (1 - gate) * other)
        return result


class Boundary(Deep):
    """Zero where the first column is 0 or 1, whatever the network says."""

    def forward(self, x: Tensor) -> Tensor:
        first, _ = torch.split((x - 0.3) / 2.1, 1, dim=1)
        result: Tensor = first * (1 - first) * self.leave(torch.tanh(self.enter(x)))
        return result


# Each beside the same network in operations that reverse mode differentiates at any order.
