"""Network architectures for physics problems: two input columns, one output channel."""
# ruff: noqa: D102 (the docstring of a module's class describes its forward pass)

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional
from torch.nn.utils import parametrizations

WIDTH = 64
Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "tanh": torch.tanh,
    "sin": torch.sin,
    "SiLU": functional.silu,
    "Softplus": functional.softplus,
    "GELU": functional.gelu,
    "ELU": functional.elu,
    "Mish": functional.mish,
}


class Perceptron(nn.Module):
    """A multilayer perceptron with `activation` between its linear layers."""

    def __init__(self, activation: Activation, columns: int = 2, depth: int = 4) -> None:
        super().__init__()
        sizes = [columns, *[WIDTH] * depth, 1]
        self.layers = nn.ModuleList(map(nn.Linear, sizes, sizes[1:]))
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        result: Tensor = self.layers[-1](x)
        return result


class Layered(nn.Module):
    """A tanh perceptron: an input layer, three hidden layers and an output layer."""

    def __init__(self, columns: int = 2) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(columns, WIDTH), nn.Linear(WIDTH, 1)
        self.layers = nn.ModuleList(self.layer() for _ in range(3))

    def layer(self) -> nn.Module:
        return nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.enter(x))
        for layer in self.layers:
            x = torch.tanh(layer(x))
        result: Tensor = self.leave(x)
        return result


class Modified(Layered):
    """The modified MLP of Wang et al.

    Each layer's output is a gate that mixes two encodings of the input.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(nn.Linear(2, WIDTH) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        one, other = (torch.tanh(encoder(x)) for encoder in self.encoders)
        hidden = torch.tanh(self.enter(x))
        for layer in self.layers:
            gate = torch.tanh(layer(hidden))
            hidden = gate * one + (1 - gate) * other
        result: Tensor = self.leave(hidden)
        return result


class Pirate(Modified):
    """A PirateNet: gated layers with learnable skip connections, on random Fourier features."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(WIDTH, WIDTH)
        self.encoders = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.frequencies = nn.Parameter(torch.randn(2, WIDTH // 2), requires_grad=False)
        self.skips = nn.Parameter(torch.full((3,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        angles = x @ self.frequencies
        x = torch.cat([angles.cos(), angles.sin()], -1)
        one, other = (torch.tanh(encoder(x)) for encoder in self.encoders)
        for layer, skip in zip(self.layers, self.skips, strict=True):
            gate = torch.tanh(layer(x))
            gated = torch.tanh(self.enter(gate * one + (1 - gate) * other))
            x = skip * gated + (1 - skip) * x
        result: Tensor = self.leave(x)
        return result


class Splines(nn.Module):
    """A layer of a KAN: each edge has a cubic spline and a SiLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.grid = nn.Parameter(torch.linspace(-2.2, 2.2, 12), requires_grad=False)
        self.base = nn.Linear(inputs, outputs, bias=False)
        self.spline = nn.Linear(inputs * 8, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        grid, wide = self.grid, x.unsqueeze(-1)
        bases = ((wide >= grid[:-1]) & (wide < grid[1:])).to(x.dtype)
        for k in range(1, 4):
            left = (wide - grid[: -(k + 1)]) / (grid[k:-1] - grid[: -(k + 1)])
            right = (grid[k + 1 :] - wide) / (grid[k + 1 :] - grid[1:-k])
            bases = left * bases[..., :-1] + right * bases[..., 1:]
        result: Tensor = self.base(functional.silu(x)) + self.spline(bases.flatten(1))
        return result


class Bells(nn.Module):
    """A layer of a FastKAN: layer normalization, then Gaussians on each edge."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(inputs)
        self.grid = nn.Parameter(torch.linspace(-2, 2, 8), requires_grad=False)
        self.spline = nn.Linear(inputs * 8, outputs)

    def forward(self, x: Tensor) -> Tensor:
        bells = torch.exp(-(((self.norm(x).unsqueeze(-1) - self.grid) / 0.57) ** 2))
        result: Tensor = self.spline(bells.flatten(1))
        return result


class Chebyshev(nn.Module):
    """A layer of a ChebyKAN: each edge has a sum of Chebyshev polynomials up to degree 4."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.degrees = nn.Parameter(torch.arange(5.0), requires_grad=False)
        self.mix = nn.Linear(inputs * 5, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        angle = torch.acos(torch.tanh(x) * 0.999).unsqueeze(-1)
        result: Tensor = self.mix((angle * self.degrees).cos().flatten(1))
        return result


def of_edges(layer: Callable[[int, int], nn.Module]) -> nn.Module:
    """Return a network of three layers made by `layer`, which has functions on its edges."""
    return nn.Sequential(layer(2, 16), layer(16, 16), layer(16, 1))


class Normalised(Layered):
    """Three residual blocks; each starts with the normalization layer that `norm` makes."""

    def __init__(self, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.norms = nn.ModuleList(norm(WIDTH) for _ in self.layers)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + torch.tanh(layer(norm(x)))
        result: Tensor = self.leave(x)
        return result


class Weighted(Layered):
    """A tanh perceptron whose hidden layers use weight normalization."""

    def layer(self) -> nn.Module:
        layer: nn.Module = parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))
        return layer


class Filters(Layered):
    """A multiplicative filter network: its hidden layers are multiplied by sines of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.ModuleList(nn.Linear(2, WIDTH) for _ in self.layers)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.sin(self.enter(x))
        for layer, frequencies in zip(self.layers, self.filters, strict=True):
            hidden = layer(hidden) * torch.sin(frequencies(x))
        result: Tensor = self.leave(hidden)
        return result


class Fourier(nn.Module):
    """A perceptron whose inputs are random Fourier features of the points."""

    def __init__(self) -> None:
        super().__init__()
        self.frequencies = nn.Parameter(torch.randn(2, WIDTH // 2), requires_grad=False)
        self.network = Perceptron(torch.tanh, WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        angles = 2 * math.pi * x @ self.frequencies
        result: Tensor = self.network(torch.cat([angles.cos(), angles.sin()], -1))
        return result


class Experts(nn.Module):
    """Two perceptrons, one for each sign of the first column; masks select the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(Perceptron(torch.tanh, depth=3) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        result = x.new_zeros(len(x), 1)
        for side, expert in enumerate(self.experts):
            mask = (x[:, 0] > 0) == bool(side)
            result[mask] = expert(x[mask])
        return result


class Operator(nn.Module):
    """A DeepONet: a trunk network for the points and a branch network for one fixed function."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.branch = Perceptron(torch.tanh, 2, 3), Perceptron(torch.tanh, 20, 3)
        self.trunk.layers[-1], self.branch.layers[-1] = (nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.sensors = nn.Parameter(torch.randn(1, 20), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = (self.trunk(x) * self.branch(self.sensors)).sum(-1, keepdim=True)
        return result


class Recurrent(nn.Module):
    """An LSTM that reads the columns of a row as a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.leave = nn.LSTM(1, 32, batch_first=True), nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.leave(self.cell(x.unsqueeze(-1))[0][:, -1])
        return result


class Ensemble(nn.Module):
    """Four perceptrons evaluated together by `vmap`; each returns one channel."""

    def __init__(self) -> None:
        super().__init__()
        members = [Perceptron(torch.tanh, depth=3) for _ in range(4)]
        self.stacked = nn.ParameterDict(
            {name.replace(".", "_"): t for name, t in stack_module_state(members)[0].items()}
        )
        self.names = [name for name, _ in members[0].named_parameters()]
        # The list keeps PyTorch from registering it as a submodule.
        self.members = [Perceptron(torch.tanh, depth=3).to("meta")]

    def forward(self, x: Tensor) -> Tensor:
        state = {name: self.stacked[name.replace(".", "_")] for name in self.names}
        outputs = vmap(lambda own: functional_call(self.members[0], own, (x,)))(state)
        result: Tensor = outputs.squeeze(-1).t()
        return result


ARCHITECTURES: dict[str, Callable[[], nn.Module]] = {
    "modified MLP": Modified,
    "PIRATE": Pirate,
    "KAN": lambda: of_edges(Splines),
    "FastKAN": lambda: of_edges(Bells),
    "ChebyKAN": lambda: of_edges(Chebyshev),
    "LayerNorm": lambda: Normalised(nn.LayerNorm),
    "RMSNorm": lambda: Normalised(nn.RMSNorm),
    "weight norm": Weighted,
    "MFN": Filters,
    "Fourier": Fourier,
    "MoE masked": Experts,
    "DeepONet": Operator,
    "LSTM": Recurrent,
    "vmap ensemble": Ensemble,
}
