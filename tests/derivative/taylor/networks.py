"""Networks that people differentiate for physics: two columns in, two channels out."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

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


class Adaptive(Deep):
    """Activations whose slope is learnt."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(10 * self.scale * self.enter(x))
        result: Tensor = self.leave(torch.sin(self.scale * self.gates[0](hidden)))
        return result


class Fourier(Deep):
    """Features of fixed random frequencies."""

    def forward(self, x: Tensor) -> Tensor:
        angle = 2 * math.pi * x @ self.leave.weight.detach()
        result: Tensor = self.leave(torch.cat([angle[:, :2].sin(), angle[:, 2:].cos()], dim=1))
        return result


class Periodic(Deep):
    """An embedding that makes the first column periodic."""

    def forward(self, x: Tensor) -> Tensor:
        first, second = x[:, 0:1], x[:, 1:2]
        wave = 2 * math.pi * first / 3
        features = torch.cat([wave.cos(), wave.sin(), second, second**2], dim=-1)
        result: Tensor = self.leave(torch.tanh(self.gates[0](features)))
        return result


class Boundary(Deep):
    """Zero where the first column is 0 or 1, whatever the network says."""

    def forward(self, x: Tensor) -> Tensor:
        first, _ = torch.split((x - 0.3) / 2.1, 1, dim=1)
        result: Tensor = first * (1 - first) * self.leave(torch.tanh(self.enter(x)))
        return result


class Normalised(Deep):
    """Inputs that are brought to [-1, 1] by limits that are known."""

    def forward(self, x: Tensor) -> Tensor:
        low, high = torch.zeros(2, dtype=x.dtype), torch.full((2,), 2.0, dtype=x.dtype)
        inside = 2.0 * (x - low) / (high - low) - 1.0
        result: Tensor = self.leave(torch.tanh(self.enter(inside)))
        return result


class Operator(Deep):
    """A branch and a trunk that meet in a product, as in a DeepONet."""

    def forward(self, x: Tensor) -> Tensor:
        trunk = torch.tanh(self.enter(x)).view(-1, 2, 2)
        branch = self.leave(torch.ones(3, 4, dtype=x.dtype)).tanh()
        return torch.einsum("bij,nj->bi", trunk, branch) + self.scale


class Separable(Deep):
    """A network for each column, which meet in a sum of products."""

    def forward(self, x: Tensor) -> Tensor:
        columns = zip(self.gates, x.split(1, 1), strict=False)
        bodies = [torch.tanh(gate(column.expand(-1, 4))) for gate, column in columns]
        return torch.stack([bodies[0] * bodies[1], bodies[0].square()], dim=1).sum(-1)


class Radial(Deep):
    """Radial basis functions around centres that are learnt."""

    def forward(self, x: Tensor) -> Tensor:
        centres = self.enter.weight
        distance = (x.unsqueeze(1) - centres).pow(2).sum(-1)
        result: Tensor = self.leave(torch.exp(-(self.scale**2) * distance))
        return result


class Polar(Deep):
    def forward(self, x: Tensor) -> Tensor:
        radius, angle = torch.linalg.vector_norm(x, dim=1), torch.atan2(x[:, 1], x[:, 0])
        features = torch.stack([radius.log(), angle.sin()], dim=1)
        result: Tensor = self.leave(functional.silu(self.enter(features)))
        return result


class Unbound(Deep):
    """Columns that are taken apart, and channels that are put together."""

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.unbind(dim=-1)
        u, v = torch.tanh(self.enter(torch.stack([first, second], dim=-1))).chunk(2, dim=-1)
        return torch.stack([u[..., 0] * v[..., 1], u[..., 1] - v[..., 0] ** 2], dim=-1)


class Einsum(Deep):
    """Features as tokens, with bilinear scores."""

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.enter(x).unsqueeze(-1)
        scores = torch.einsum("bif,bjf->bij", tokens, tokens).softmax(dim=-1)
        result: Tensor = self.leave(torch.bmm(scores, tokens).squeeze(-1))
        return result


class Factorised(Deep):
    """Weights that are a product, or a scale and a direction, made at each use."""

    def forward(self, x: Tensor) -> Tensor:
        weight = self.scale.exp() * self.factors[0] @ self.factors[1].T
        result: Tensor = self.leave(torch.tanh(torch.matmul(self.enter(x), weight)))
        return result


class Polynomials(Deep):
    """Chebyshev polynomials of squashed inputs, as some Kolmogorov-Arnold networks have them."""

    def forward(self, x: Tensor) -> Tensor:
        squashed = torch.tanh(x)
        terms = [torch.ones_like(squashed), squashed]
        for _ in range(2):
            terms.append(2 * squashed * terms[-1] - terms[-2])
        return torch.einsum(
            "bid,iod->bo", torch.stack(terms, -1), self.enter.weight.view(2, 2, 2).repeat(1, 1, 2)
        )


class Bilinear(Deep):
    def __init__(self) -> None:
        super().__init__()
        self.meet = nn.Bilinear(4, 4, 2)
        numbered(self)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.enter(x))
        result: Tensor = self.meet(hidden, self.gates[0](hidden).sin())
        return result


class Wavelet(Deep):
    """The activation of PINNsFormer, over a short sequence of times made of each point."""

    def forward(self, x: Tensor) -> Tensor:
        steps = torch.linspace(0, 1, 3, dtype=x.dtype)[:, None] * torch.tensor([0.0, 1.0]).to(x)
        hidden = self.enter(x.unsqueeze(1) + steps)
        hidden = self.scale * hidden.sin() + (1 - self.scale) * hidden.cos()
        result: Tensor = self.leave(hidden).mean(1)
        return result


class Attention(Deep):
    """Attention of several heads within each row, computed in one of three ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.enter(x))
        q, k, v = (gate(hidden).view(-1, 1, 2, 2) for gate in self.gates)
        result: Tensor = self.leave(self.attend(q, k, v).flatten(1))
        return result

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.way == "written out":
            return (q @ k.transpose(-2, -1) / math.sqrt(2)).softmax(-1) @ v
        with sdpa_kernel(SDPBackend.MATH if self.way == "math" else SDPBackend.FLASH_ATTENTION):
            return functional.scaled_dot_product_attention(q, k, v)


class Encoder(Deep):
    """A layer of a transformer within each row, whose features are the tokens."""

    def __init__(self, *, is_written_out: bool = False) -> None:
        super().__init__()
        norm: type[nn.Module] = WrittenOutNorm if is_written_out else nn.LayerNorm
        self.kernel = SDPBackend.MATH if is_written_out else SDPBackend.FLASH_ATTENTION
        self.layer = nn.TransformerEncoderLayer(
            4, 2, 5, dropout=0.0, activation="gelu", batch_first=True
        )
        for name in ("norm1", "norm2"):
            setattr(self.layer, name, norm(4))
        numbered(self)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.enter(x).tanh().unsqueeze(2) * self.factors[0] + self.factors[1]
        with sdpa_kernel(self.kernel):
            result: Tensor = self.leave(self.layer(tokens)).sum(1)
        return result


class WrittenOutNorm(nn.Module):
    """LayerNorm, which nested reverse mode differentiates twice only, in single steps."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(count))
        self.bias = nn.Parameter(torch.ones(count))

    def forward(self, h: Tensor) -> Tensor:
        variance, mean = torch.var_mean(h, -1, correction=0, keepdim=True)
        return (h - mean) / (variance + 1e-5).sqrt() * self.weight + self.bias


class OfOneChannel(nn.InstanceNorm1d):
    """Normalises the features as the places of one channel."""

    def __init__(self) -> None:
        super().__init__(1, affine=True)

    def forward(self, h: Tensor) -> Tensor:
        return super().forward(h.unsqueeze(1)).squeeze(1)


class Checkpointed(nn.Sequential):
    def forward(self, h: Tensor) -> Tensor:
        result: Tensor = checkpoint(super().forward, h, use_reentrant=False)
        return result


ACTIVATIONS: dict[str, Between] = {
    "tanh": torch.tanh,
    "sine": lambda h: torch.sin(30 * h / 7),
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu by tanh": partial(functional.gelu, approximate="tanh"),
    "softplus": functional.softplus,
    "elu": functional.elu,
    "selu": functional.selu,
    "mish": functional.mish,
    "relu": torch.relu,
    "cube of relu": lambda h: torch.relu(h) ** 3,
    "leaky relu": functional.leaky_relu,
    "exp": torch.exp,
    "log": lambda h: torch.log(3 + h),
    "sqrt": lambda h: torch.sqrt(1 + h**2),
    "power": lambda h: h**3 - (2 + h.tanh()) ** -1.5,
    "reciprocal": lambda h: 1 / (1 + h**2),
    "bell": lambda h: torch.exp(-(h**2) / 2),
    "swish with a slope": lambda h: h * torch.sigmoid(1.5 * h),
}
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    **{name: partial(Network, function, torch.tanh) for name, function in ACTIVATIONS.items()},
    "Fourier features": Fourier,
    "periodic": Periodic,
    "modified": Modified,
    "residual": Residual,
    "hard boundary": Boundary,
    "normalised inputs": Normalised,
    "adaptive activations": Adaptive,
    "unbound columns": Unbound,
    "operator": Operator,
    "separable": Separable,
    "radial": Radial,
    "polar": Polar,
    "einsum": Einsum,
    "factorised": Factorised,
    "polynomials": Polynomials,
    "bilinear": Bilinear,
    "wavelet in three axes": Wavelet,
    "weight norm": lambda: Network(parametrizations.weight_norm(nn.Linear(4, 4)), torch.tanh),
    "spectral norm, eval": lambda: Network(
        parametrizations.spectral_norm(nn.Linear(4, 4)).eval(), torch.tanh
    ),
    "dropout, eval": lambda: Network(nn.Dropout(0.5).eval(), torch.tanh),
    "dropout, train": lambda: Network(nn.Dropout(0.5), torch.tanh),
    "batch norm, eval": lambda: Network(nn.BatchNorm1d(4).eval(), torch.tanh),
    "group norm": lambda: Network(nn.GroupNorm(2, 4, eps=0.1), torch.tanh),
    "rms norm": lambda: Network(nn.RMSNorm(4, eps=1e-5), torch.tanh),
    "convolution": lambda: Network(lambda h: h.unsqueeze(1), nn.Conv1d(1, 2, 3), nn.Flatten()),
    "checkpoint": lambda: Network(Checkpointed(nn.Linear(4, 4), nn.Tanh())),
    "attention by mathematics": lambda: Attention("math"),
}
# Beside the same network in steps that nested reverse mode differentiates as often as asked for.
WRITTEN_OUT: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module]]] = {
    "layer norm": (
        lambda: Network(nn.LayerNorm(4), torch.tanh),
        lambda: Network(WrittenOutNorm(4), torch.tanh),
    ),
    "instance norm": (
        lambda: Network(OfOneChannel(), torch.tanh),
        lambda: Network(WrittenOutNorm(1), torch.tanh),
    ),
    "attention in one node": (lambda: Attention("one node"), lambda: Attention("written out")),
    "transformer": (Encoder, partial(Encoder, is_written_out=True)),
}
