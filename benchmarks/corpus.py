"""Differentiate a collection of networks from physics and graphics, and count the outcomes.

All run in float64, with two or more input columns. The derivatives up to third order, the
Laplacian, and the gradients of each with respect to the parameters are compared with nested calls
of `torch.autograd.grad`, channel by channel. The outcomes are

    taylor     correct, by Taylor mode
    reverse    correct, by nested reverse mode, because an operation has no Taylor rule
    refused    an error, because rows of the output depend on other rows of the input
    WRONG      a result that differs
    NEEDLESS   any other error
"""
# ruff: noqa: D102, D103 (functions without a docstring are networks with a well-known name)
# mypy: disable-error-code="no-any-return"

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import torch
from architectures import ACTIVATIONS, ARCHITECTURES, Perceptron
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from leafgrad import explain_derivative, higher_order_grad, laplacian

Function = Callable[[Tensor], Tensor]
ROWS = 4


def perceptron(*sizes: int, activation: Callable[[], nn.Module] = nn.Tanh) -> nn.Sequential:
    layers: list[nn.Module] = []
    for one, other in pairwise(sizes):
        layers += [nn.Linear(one, other), activation()]
    return nn.Sequential(*layers[:-1])


class Parts(nn.Module):
    """A module that holds named networks and parameters, and calls `function` with them."""

    def __init__(self, function: Callable[..., Tensor], **parts: nn.Module | Tensor) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part if isinstance(part, nn.Module) else nn.Parameter(part))

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.function(self, x)
        return found


# --- Coordinates


def extended(p: Parts, x: Tensor) -> Tensor:
    """Evaluate an XPINN: one network for each half of the domain."""
    is_left = x[:, 0] <= x[:, 0].detach().median()
    u = torch.zeros(len(x), 1, dtype=x.dtype)
    u[is_left] = p.left(x[is_left])
    u[~is_left] = p.right(x[~is_left])
    return u


def separable(p: Parts, x: Tensor) -> Tensor:
    return (p.one(x[:, :1]) * p.other(x[:, 1:])).sum(1, keepdim=True)


def multiplicative(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a multiplicative filter network with Gabor filters."""
    z = None
    for filters, centre, mix in zip(p.filters, p.centres, [None, *p.mixes], strict=True):
        apart = (x.unsqueeze(1) - centre).square().sum(-1)
        gabor = filters(x).sin() * (-apart).exp()
        z = gabor if z is None else gabor * mix(z)
    return p.leave(z)


def band_limited(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a BACON: the sum of one output per frequency band."""
    z, total = None, torch.zeros(len(x), 1, dtype=x.dtype)
    for filters, mix, leave in zip(p.filters, [None, *p.mixes], p.leaves, strict=True):
        wave = filters(x).sin()
        z = wave if z is None else wave * mix(z)
        total = total + leave(z)
    return total


def wavelets(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a WIRE: complex Gabor wavelets as activations."""
    h = p.enter(x).to(torch.complex128)
    for weight in p.weights:
        h = torch.exp(3j * h - (2 * h.abs()).square() / 9) @ weight.to(h.dtype)
    return p.leave(h.real)


def hash_grid(p: Parts, x: Tensor) -> Tensor:
    """Evaluate an Instant-NGP: hash tables at the corners of grid cells, at several resolutions."""
    features = []
    for level, table in enumerate(p.tables):
        place = x * 4 * 2**level
        corner = place.detach().floor().long()
        rest = place - corner
        found = torch.zeros(len(x), 2, dtype=x.dtype)
        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            key = ((corner[:, 0] + i) ^ ((corner[:, 1] + j) * 2654435761)) % len(table)
            weight = (rest[:, 0] if i else 1 - rest[:, 0]) * (rest[:, 1] if j else 1 - rest[:, 1])
            found = found + table[key] * weight.unsqueeze(1)
        features.append(found)
    return p.leave(torch.cat(features, 1))


def feature_picture(p: Parts, x: Tensor) -> Tensor:
    """Sample an upscaled and max-pooled feature image at the points."""
    picture = functional.max_pool2d(functional.interpolate(p.picture, scale_factor=2.0), 2, 1)
    read = functional.grid_sample(
        picture.expand(len(x), -1, -1, -1),
        (2 * x - 1)[:, None, None],
        mode="bicubic",
        align_corners=True,
    )
    return p.leave(read.flatten(1))


def decoder(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a U-Net on an image that is computed from each point."""
    h = p.enter(x).view(-1, 2, 6, 6)
    down = torch.tanh(p.down(functional.pad(h, (1, 1, 1, 1), "circular")))
    low = torch.tanh(p.low(functional.pad(functional.avg_pool2d(down, 2), [1] * 4, "reflect")))
    up = functional.interpolate(low, scale_factor=2, mode="bilinear")
    return p.leave(torch.cat([down, up], 1)).flatten(1)[:, :2]


# --- Sequences


def pseudo_times(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a PINNsFormer: each point becomes a short sequence with self-attention."""
    steps = torch.arange(3, dtype=x.dtype)[:, None] * torch.tensor([0.0, 0.1], dtype=x.dtype)
    tokens = p.enter(x[:, None] + steps)
    tokens = tokens + p.attention(tokens, tokens, tokens, need_weights=False)[0]
    waves = p.scales[0] * tokens.sin() + p.scales[1] * tokens.cos()
    return p.leave(waves)[:, 0]


def transformer(p: Parts, x: Tensor) -> Tensor:
    return p.leave(p.encoder(p.enter(x).view(-1, 3, 4)).flatten(1))


def recurrent(p: Parts, x: Tensor) -> Tensor:
    return p.leave(p.recurrence(p.enter(x).view(-1, 3, 4))[0][:, -1])


def cells(p: Parts, x: Tensor) -> Tensor:
    h = torch.zeros(len(x), 4, dtype=x.dtype)
    for _ in range(3):
        h = p.cell(x, h)
    return p.leave(h)


def state_space(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a selective scan with `cumprod` and `cumsum`."""
    decay, drive = p.decay(x).sigmoid(), p.drive(x)
    product = decay.cumprod(1)
    return p.leave(product * (drive / product).cumsum(1))


def spectral(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a Fourier neural operator on a signal that is computed from each point."""
    h = p.enter(x)
    for weight in p.weights:
        modes = torch.fft.rfft(h)
        modes = torch.cat([modes[:, :3] * torch.complex(weight[0], weight[1]), 0 * modes[:, 3:]], 1)
        h = functional.gelu(torch.fft.irfft(modes, n=h.shape[1]) + p.beside(h))
    return p.leave(h)


# --- Dynamics


def runge_kutta(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a neural ODE by two Runge-Kutta steps of order 4."""
    for _ in range(2):
        a = p.field(x)
        b = p.field(x + a / 20)
        c = p.field(x + b / 20)
        x = x + (a + 2 * b + 2 * c + p.field(x + c / 10)) / 60
    return x


def hamiltonian(p: Parts, x: Tensor) -> Tensor:
    """Return Hamilton's equations of motion, from the gradient of a learned energy."""
    x = x if x.requires_grad else x.requires_grad_()
    (slope,) = torch.autograd.grad(p.energy(x).sum(), x, create_graph=True)
    return torch.stack([slope[:, 1], -slope[:, 0]], 1)


def lagrangian(p: Parts, x: Tensor) -> Tensor:
    """Return the acceleration from a learned Lagrangian of position and velocity."""
    first, second = (
        higher_order_grad(p.action, x, order) for order in ([(1, 0)], [(0, 2), (1, 1)])
    )
    mass, mixed = second
    return (first[0] - mixed * x[:, 1:]) / (2 + mass)


def symplectic(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a SympNet of gradient modules."""
    q, momentum = x[:, :1], x[:, 1:]
    for weight, bias, scale in zip(p.weights, p.biases, p.scales, strict=True):
        momentum = momentum + (torch.tanh(q @ weight + bias) * scale) @ weight.T
        q = q + (torch.sigmoid(momentum @ weight - bias) * scale) @ weight.T
    return torch.cat([q, momentum], 1)


def messages(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a graph network on four particles, whose places are computed from each row.

    It aggregates the edges by mean and by maximum.
    """
    place = p.enter(x).view(-1, 4, 2)
    start, end = torch.tensor([[0, 1, 2, 3, 0, 2], [1, 2, 3, 0, 2, 0]])
    edges = p.edge(torch.cat([place[:, start], place[:, end] - place[:, start]], -1)).tanh()
    index = end[None, :, None].expand_as(edges)
    zeros = torch.zeros(len(x), 4, edges.shape[-1], dtype=x.dtype)
    heard = zeros.scatter_reduce(1, index, edges, "mean", include_self=False)
    loudest = zeros.scatter_reduce(1, index, edges, "amax", include_self=False)
    return p.leave(torch.cat([heard, loudest], -1).sum(1))


def equilibrium(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a deep equilibrium model by 12 Newton steps from zero.

    Gradients flow through all steps.
    """
    h = torch.zeros(len(x), 4, dtype=x.dtype)
    drive = p.enter(x)
    for _ in range(12):
        slope = 1 - torch.tanh(h @ p.weight + drive).square()
        system = torch.eye(4, dtype=x.dtype) - slope.unsqueeze(-1) * p.weight.T
        residual = h - torch.tanh(h @ p.weight + drive)
        h = h - torch.linalg.solve(system, residual)
    return p.leave(h)


def coupled(p: Parts, x: Tensor) -> Tensor:
    """Return the log-density of a normalizing flow with coupling layers."""
    log_det = 0
    for scale, shift in zip(p.scales, p.shifts, strict=True):
        kept, moved = x[:, :1], x[:, 1:]
        s = scale(kept).tanh()
        x, log_det = torch.cat([moved * s.exp() + shift(kept), kept], 1), log_det + s
    return log_det - x.square().sum(1, keepdim=True) / 2


def rotated(p: Parts, x: Tensor) -> Tensor:
    """Rotate learned features by the matrix exponential of a skew-symmetric matrix."""
    a = p.generator(x).view(-1, 3, 3)
    return p.leave(((a - a.mT).matrix_exp() @ p.feature).tanh())


def principal(p: Parts, x: Tensor) -> Tensor:
    """Return the sum of the squared eigenvalues of a strain matrix computed from each row."""
    a = p.strain(x).view(-1, 2, 2)
    return torch.linalg.eigvalsh(a + a.mT + p.rest).square().sum(1, keepdim=True)


# --- Wave functions


def electrons(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the positions of two electrons, of shape (rows, 2, 1), and their distance.

    The distance is smoothed near zero.
    """
    place = x.unsqueeze(-1)
    return place, (place[:, :1] - place[:, 1:]).square().add(0.01).sum((1, 2)).sqrt()


def fermionic(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a FermiNet: the logarithm of a sum of determinants with envelopes."""
    place, apart = electrons(x)
    mean = place.mean(1, keepdim=True).expand_as(place)
    orbitals = p.orbitals(torch.cat([place, mean], -1)).view(-1, 2, 3, 2).transpose(1, 2)
    envelope = (-(place.abs() + 0.1) * p.decay.exp()).exp().unsqueeze(1)
    sign, size = torch.linalg.slogdet(orbitals * envelope)
    most = size.detach().amax(1, keepdim=True)
    total = (sign * (size - most).exp()).sum(1)
    return total.abs().log() + most[:, 0] - apart


def psiformer(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a PsiFormer: self-attention between electrons, then a determinant."""
    place, apart = electrons(x)
    tokens = p.enter(place)
    tokens = tokens + p.attention(tokens, tokens, tokens, need_weights=False)[0].tanh()
    return torch.linalg.slogdet(p.orbitals(tokens)).logabsdet + apart / (1 + apart)


def pauli(p: Parts, x: Tensor) -> Tensor:
    """Evaluate a PauliNet: features of distances to the nuclei, and a Jastrow factor."""
    place, apart = electrons(x)
    far = torch.cdist(place, p.nuclei.expand(len(x), -1, -1))
    return p.jastrow((-far).exp().flatten(1)) + (-apart).exp().unsqueeze(1)


# --- Functions whose rows depend on each other


def across(p: Parts, x: Tensor) -> Tensor:
    tokens = p.enter(x)
    return p.leave(functional.scaled_dot_product_attention(tokens, tokens, tokens))


def centred(p: Parts, x: Tensor) -> Tensor:
    return p.leave(x - x.mean(0))


def solver(p: Parts, x: Tensor) -> Tensor:
    """Return a field to which every row contributes, depending on its distance."""
    return p.leave(torch.cdist(x, x + p.shift).exp().mean(1, keepdim=True))


def many(count: int, make: Callable[[], nn.Module]) -> nn.ModuleList:
    return nn.ModuleList(make() for _ in range(count))


def tables(count: int, *shape: int) -> nn.ParameterList:
    return nn.ParameterList(torch.randn(*shape) / 2 for _ in range(count))


def features(inputs: int = 2, outputs: int = 12) -> nn.Module:
    return perceptron(inputs, 8, outputs)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "XPINN": lambda: Parts(extended, left=features(2, 1), right=features(2, 1)),
    "separable PINN": lambda: Parts(separable, one=features(1, 6), other=features(1, 6)),
    "multiplicative filters": lambda: Parts(
        multiplicative,
        filters=many(3, lambda: nn.Linear(2, 6)),
        centres=tables(3, 6, 2),
        mixes=many(2, lambda: nn.Linear(6, 6)),
        leave=nn.Linear(6, 1),
    ),
    "BACON": lambda: Parts(
        band_limited,
        filters=many(3, lambda: nn.Linear(2, 6)),
        mixes=many(2, lambda: nn.Linear(6, 6)),
        leaves=many(3, lambda: nn.Linear(6, 1)),
    ),
    "WIRE": lambda: Parts(
        wavelets, enter=nn.Linear(2, 6), weights=tables(2, 6, 6), leave=nn.Linear(6, 1)
    ),
    "hash grid": lambda: Parts(hash_grid, tables=tables(3, 16, 2), leave=features(6, 1)),
    "picture of features": lambda: Parts(
        feature_picture, picture=torch.randn(1, 3, 4, 4), leave=features(3, 1)
    ),
    "U-Net": lambda: Parts(
        decoder,
        enter=features(2, 72),
        down=nn.Conv2d(2, 4, 3, groups=2),
        low=nn.Conv2d(4, 4, 3),
        leave=nn.ConvTranspose2d(8, 1, 2),
    ),
    "PINNsFormer": lambda: Parts(
        pseudo_times,
        enter=nn.Linear(2, 6),
        attention=nn.MultiheadAttention(6, 2, batch_first=True),
        scales=torch.ones(2),
        leave=nn.Linear(6, 1),
    ),
    "transformer": lambda: Parts(
        transformer,
        enter=features(),
        encoder=nn.TransformerEncoderLayer(4, 2, 8, 0.0, "gelu", batch_first=True),
        leave=nn.Linear(12, 1),
    ),
    "GRU": lambda: Parts(
        recurrent,
        enter=features(),
        recurrence=nn.GRU(4, 4, batch_first=True),
        leave=nn.Linear(4, 1),
    ),
    "LSTM of tokens": lambda: Parts(
        recurrent,
        enter=features(),
        recurrence=nn.LSTM(4, 4, batch_first=True),
        leave=nn.Linear(4, 1),
    ),
    "GRU cells": lambda: Parts(cells, cell=nn.GRUCell(2, 4), leave=nn.Linear(4, 1)),
    "state space": lambda: Parts(
        state_space, decay=nn.Linear(2, 6), drive=nn.Linear(2, 6), leave=nn.Linear(6, 1)
    ),
    "Fourier neural operator": lambda: Parts(
        spectral,
        enter=features(2, 8),
        weights=tables(2, 2, 3),
        beside=nn.Linear(8, 8),
        leave=nn.Linear(8, 1),
    ),
    "neural ODE": lambda: Parts(runge_kutta, field=features(2, 2)),
    "Hamiltonian network": lambda: Parts(hamiltonian, energy=features(2, 1)),
    "Lagrangian network": lambda: Parts(lagrangian, action=features(2, 1)),
    "SympNet": lambda: Parts(
        symplectic, weights=tables(2, 1, 6), biases=tables(2, 6), scales=tables(2, 6)
    ),
    "graph network": lambda: Parts(
        messages, enter=features(2, 8), edge=nn.Linear(4, 5), leave=nn.Linear(10, 1)
    ),
    "deep equilibrium": lambda: Parts(
        equilibrium, enter=nn.Linear(2, 4), weight=torch.randn(4, 4) / 8, leave=nn.Linear(4, 1)
    ),
    "normalising flow": lambda: Parts(
        coupled,
        scales=many(3, partial(features, 1, 1)),
        shifts=many(3, partial(features, 1, 1)),
    ),
    "rotations": lambda: Parts(
        rotated, generator=features(2, 9), feature=torch.randn(3), leave=nn.Linear(3, 1)
    ),
    "principal stretches": lambda: Parts(
        principal, strain=features(2, 4), rest=torch.diag(torch.tensor([0.0, 3.0]))
    ),
    "FermiNet": lambda: Parts(fermionic, orbitals=features(2, 6), decay=torch.zeros(1)),
    "PsiFormer": lambda: Parts(
        psiformer,
        enter=nn.Linear(1, 4),
        attention=nn.MultiheadAttention(4, 2, batch_first=True),
        orbitals=nn.Linear(4, 2),
    ),
    "PauliNet": lambda: Parts(pauli, nuclei=torch.randn(3, 1), jastrow=features(6, 1)),
    **{
        f"perceptron, {name}": partial(Perceptron, activation)
        for name, activation in ACTIVATIONS.items()
    },
    **ARCHITECTURES,
}
ROWS_MEET: dict[str, Callable[[], nn.Module]] = {
    "attention across points": lambda: Parts(across, enter=nn.Linear(2, 4), leave=nn.Linear(4, 1)),
    "points less their mean": lambda: Parts(centred, leave=features(2, 1)),
    "a field of all points": lambda: Parts(
        solver, shift=torch.full((2,), 0.3), leave=features(1, 1)
    ),
    "batch norm in training": lambda: nn.Sequential(
        nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)
    ),
}
ORDERS = [(1, 0), (2, 0), (1, 1), (0, 3)]


def normalised(x: Tensor, _: Any, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    x = x - x.mean(-1, keepdim=True)
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight + bias


def distances(one: Tensor, other: Tensor) -> Tensor:
    return (one.unsqueeze(-2) - other.unsqueeze(-3)).square().sum(-1).sqrt()


def read(picture: Tensor, grid: Tensor, **_: Any) -> Tensor:
    """Sample an image like bicubic `grid_sample` with `align_corners` and zero padding.

    The weight of a pixel is the product of cubic kernels of its distances, as in PyTorch's source.
    """

    def weights(places: Tensor, size: int) -> Tensor:
        pixels = torch.arange(size, dtype=places.dtype)
        off = ((places[..., None] + 1) / 2 * (size - 1) - pixels).abs().clamp(max=2)
        near, far = (1.25 * off - 2.25) * off * off + 1, ((off - 5) * off + 8) * off - 4
        return torch.where(off <= 1, near, -0.75 * far)

    height, width = picture.shape[-2:]
    across, down = weights(grid[..., 0], width), weights(grid[..., 1], height)
    return torch.einsum("bchw,bijh,bijw->bcij", picture, down, across)


@contextmanager
def written_out() -> Iterator[None]:
    """Replace operations that PyTorch cannot differentiate often enough or correctly."""
    with (
        sdpa_kernel(SDPBackend.MATH),
        patch.object(functional, "layer_norm", normalised),
        patch.object(functional, "grid_sample", read),
        patch.object(torch, "cdist", distances),
    ):
        yield


def nested(network: Function, x: Tensor, order: Sequence[int]) -> Tensor:
    """Return a derivative of each channel, computed by nested `torch.autograd.grad`.

    `order` counts how often to differentiate with respect to each column of `x`.
    """
    found = []
    for channel in network(x).reshape(len(x), -1).unbind(1):
        derivative = channel
        for column, count in enumerate(order):
            for _ in range(count):
                (slopes,) = torch.autograd.grad(
                    derivative.sum(), x, create_graph=True, materialize_grads=True
                )
                derivative = slopes[:, column]
        found.append(derivative)
    return torch.stack(found, 1)


def outcome(network: nn.Module, x: Tensor) -> str:
    """Return the outcome of differentiating a network, as listed in the module docstring."""
    try:
        found = higher_order_grad(network, x, ORDERS)
        whole = laplacian(network, x)
    except (RuntimeError, NotImplementedError) as error:
        return "refused" if "row" in str(error) else f"NEEDLESS ({str(error)[:150]})"
    ours = [each.reshape(len(x), -1) for each in (*found, whole)]
    with written_out():
        theirs = [nested(network, x, order) for order in [*ORDERS, (0, 2)]]
    theirs[-1] = theirs[-1] + theirs[1]
    for one, other in zip(ours, theirs, strict=True):
        pairs = ((one, other), (slope(one, network), slope(other, network)))
        if not all(is_close(*pair) for pair in pairs):
            return f"WRONG by {(one - other).abs().max().item():.0e}"
    return str(explain_derivative(network, x, ORDERS).method)


def slope(result: Tensor, network: nn.Module) -> Tensor:
    """Return the gradient of a nonlinear function of `result` with respect to the parameters."""
    parameters = [each for each in network.parameters() if each.requires_grad]
    total = result.cos().sum() + 0 * sum(each.sum() for each in parameters)
    found = torch.autograd.grad(total, parameters, retain_graph=True)
    return torch.cat([each.flatten() for each in found])


def is_close(one: Tensor, other: Tensor) -> bool:
    size = 1 + other.abs().max().item()
    return torch.allclose(one, other, rtol=1e-7, atol=1e-9 * size)


def main() -> None:
    """Print for each network whether its derivatives are correct, then count the outcomes.

    The module docstring lists the outcomes.
    """
    warnings.simplefilter("ignore")  # PyTorch warns about transformers
    torch.set_default_dtype(torch.float64)
    counts = Counter[str]()
    for name, make in {**NETWORKS, **ROWS_MEET}.items():
        torch.manual_seed(math.prod(map(ord, name[:5])) % 2**31)
        network = make().double()
        x = torch.rand(ROWS, 2, requires_grad=True)
        found = outcome(network, x)
        if found == "refused" and name not in ROWS_MEET:
            found = "NEEDLESS"
        print(f"{found:10} {name}", flush=True)
        counts[found.split()[0]] += 1
    print(", ".join(f"{kind} {count}" for kind, count in counts.most_common()))


if __name__ == "__main__":
    main()
