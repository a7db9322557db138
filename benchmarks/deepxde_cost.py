"""What `patch_deepxde` makes of the equations of DeepXDE's examples, which stay as they are.

Networks, numbers of points and equations are those of the examples, written again for functions
of the output. Forward pass, residual and backward pass to the parameters: milliseconds of CPU time
with DeepXDE's own `jacobian` and `hessian` and with ours, and how many times ours theirs takes,
medians of turns. `off` is how far residual and gradients of the parameters are apart in double
precision, as a share of their size: the run fails where that is more than 1e-6.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from in_turns import Way, deepxde, heading, network, per_row, take_turns
from torch import Tensor, nn

from leafgrad import patch_deepxde

Entry = Callable[..., Tensor]  # `jacobian` or `hessian`
Equation = Callable[[Entry, Entry, Tensor, Tensor], list[Tensor]]

FUNCTIONS = ("jacobian", "hessian", "clear")
MOST_APART = 1e-6


def burgers(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Carry a wave that steepens, in columns x and t."""
    return [j(y, x, i=0, j=1) + y * j(y, x, i=0, j=0) - 0.01 / math.pi * h(y, x, i=0, j=0)]


def allen_cahn(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Separate phases, its start and edge built into the output."""
    u = x[:, 0:1] ** 2 * torch.cos(math.pi * x[:, 0:1]) + x[:, 1:2] * (1 - x[:, 0:1] ** 2) * y
    return [j(u, x, i=0, j=1) - 0.001 * h(u, x, i=0, j=0) - 5 * (u - u**3)]


def heat(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Spread heat along a rod."""
    return [j(y, x, i=0, j=1) - 0.4 * h(y, x, i=0, j=0)]


def wave(_: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Let a string swing."""
    return [h(y, x, i=1, j=1) - 4 * h(y, x, i=0, j=0)]


def helmholtz(_: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Keep a wave between walls, its edge built into the output."""
    u = (x * (1 - x)).prod(dim=1, keepdim=True) * y
    return [-h(u, x, i=0, j=0) - h(u, x, i=1, j=1) - (4 * math.pi) ** 2 * u]


def poisson(_: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Load a membrane in the shape of an L."""
    return [-h(y, x, i=0, j=0) - h(y, x, i=1, j=1) - 1]


def laplace_disk(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Balance a disk in polar columns."""
    r = x[:, 0:1]
    return [r * j(y, x, i=0, j=0) + r**2 * h(y, x, i=0, j=0) + h(y, x, i=0, j=1)]


def schroedinger(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Focus a light pulse, real and imaginary part."""
    u, v = y[:, 0:1], y[:, 1:2]
    power = u**2 + v**2
    real = -j(y, x, i=1, j=1) + 0.5 * h(y, x, component=0, i=0, j=0) + power * u
    return [real, j(y, x, i=0, j=1) + 0.5 * h(y, x, component=1, i=0, j=0) + power * v]


def euler_beam(_: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Bend a beam under its load."""
    return [h(h(y, x), x) + 1]


def korteweg_de_vries(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Carry a soliton."""
    u_xxx = j(h(y, x, i=0, j=0), x, i=0, j=0)
    return [j(y, x, i=0, j=1) + 6 * y * j(y, x, i=0, j=0) + u_xxx]


def kuramoto_sivashinsky(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Let a flame front become chaotic."""
    u_xx = h(y, x, i=0, j=0)
    return [j(y, x, i=0, j=1) + y * j(y, x, i=0, j=0) + u_xx + h(u_xx, x, i=0, j=0)]


def _momentum(j: Entry, h: Entry, x: Tensor, y: Tensor, viscosity: float) -> list[Tensor]:
    """Return momentum and mass of a flow in as many columns of space as it has velocities."""
    space = y.shape[1] - 1
    momentum = []
    for c in range(space):
        carried = sum(y[:, k : k + 1] * j(y, x, i=c, j=k) for k in range(space))
        spread = sum(h(y, x, component=c, i=k, j=k) for k in range(space))
        momentum.append(carried + j(y, x, i=space, j=c) - viscosity * spread)
        if x.shape[1] > space:
            momentum[c] = momentum[c] + j(y, x, i=c, j=space)
    mass = [j(y, x, i=k, j=k) for k in range(space)]
    return [*momentum, torch.stack(mass).sum(0)]


def kovasznay(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Flow behind a grid, in columns x and y."""
    return _momentum(j, h, x, y, 1 / 20)


def navier_stokes(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Flow behind a cylinder, in columns x, y, t."""
    return _momentum(j, h, x, y, 0.01)


def beltrami(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Flow in columns x, y, z, t."""
    return _momentum(j, h, x, y, 1.0)


def elasticity(j: Entry, _: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Deform a plate: displacements and stresses are five outputs, of first order each."""
    u_x, v_y = j(y, x, i=0, j=0), j(y, x, i=1, j=1)
    shear = 0.5 * (j(y, x, i=0, j=1) + j(y, x, i=1, j=0))
    stresses = [2 * u_x + v_y - y[:, 2:3], 2 * v_y + u_x - y[:, 3:4], shear - y[:, 4:5]]
    forces = [j(y, x, i=2, j=0) + j(y, x, i=4, j=1), j(y, x, i=4, j=0) + j(y, x, i=3, j=1)]
    return [*forces, *stresses]


@dataclass(frozen=True, kw_only=True)
class Example:
    """An equation, and the network and points that DeepXDE's example trains on it."""

    equation: Equation
    columns: int = 2
    channels: int = 1
    width: int
    depth: int
    points: int

    def way(self, functions: dict[str, Any]) -> Way:
        """Compute the residual with `jacobian`, `hessian` and `clear` from `functions`."""

        def residual(model: nn.Module, inputs: Tensor) -> Tensor:
            for name, function in functions.items():
                setattr(deepxde.grad, name, function)
            x = inputs.detach().requires_grad_()  # new points, as in each step of DeepXDE
            grad = deepxde.grad
            return torch.cat(self.equation(grad.jacobian, grad.hessian, x, model(x)), dim=1)

        return residual


EXAMPLES = {
    "Burgers": Example(equation=burgers, width=20, depth=3, points=2780),
    "Allen-Cahn": Example(equation=allen_cahn, width=20, depth=3, points=8000),
    "heat": Example(equation=heat, width=20, depth=3, points=2780),
    "wave": Example(equation=wave, width=100, depth=3, points=1080),
    "Helmholtz": Example(equation=helmholtz, width=150, depth=3, points=1600),
    "Poisson, L": Example(equation=poisson, width=50, depth=4, points=1320),
    "Laplace, disk": Example(equation=laplace_disk, width=20, depth=3, points=2540),
    "Schroedinger": Example(equation=schroedinger, channels=2, width=100, depth=4, points=10000),
    "Euler beam": Example(equation=euler_beam, columns=1, width=20, depth=3, points=12),
    "Korteweg-de Vries": Example(equation=korteweg_de_vries, width=20, depth=3, points=2780),
    "Kuramoto-Sivashinsky": Example(equation=kuramoto_sivashinsky, width=20, depth=3, points=2780),
    "Kovasznay": Example(equation=kovasznay, channels=3, width=50, depth=4, points=3000),
    "Navier-Stokes": Example(
        equation=navier_stokes, columns=3, channels=3, width=50, depth=6, points=2300
    ),
    "Beltrami": Example(equation=beltrami, columns=4, channels=4, width=50, depth=4, points=5000),
    "elasticity": Example(equation=elasticity, channels=5, width=40, depth=4, points=564),
}


def apart(model: nn.Module, inputs: Tensor, theirs: Way, ours: Way) -> float:
    """Say how far the two are apart, the second time that ours is asked: most at once then."""
    both: list[list[Tensor]] = []
    for way in (theirs, ours, ours):
        result = way(model, inputs)
        if result is None:
            raise RuntimeError("a way to a residual must return it")
        loss = result.square().mean()
        gradients = torch.autograd.grad(loss, [*model.parameters()], materialize_grads=True)
        deepxde.grad.clear()
        both.append([result.detach(), torch.cat([one.flatten() for one in gradients])])
    pairs = zip(both[0], both[-1], strict=True)
    return max(((a - b).abs().max() / a.abs().max()).item() for a, b in pairs)


def main() -> None:
    """Print a line for each example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    if deepxde is None:
        return
    torch.manual_seed(0)
    torch.set_num_threads(1)
    own = {name: getattr(deepxde.grad, name) for name in FUNCTIONS}
    patched = SimpleNamespace(**own)
    patch_deepxde(patched)
    print(f"{'':28}{heading(['deepxde', 'leafgrad'])}      off")
    for name, example in EXAMPLES.items():
        model = network(example.columns, example.width, example.depth, example.channels)
        inputs = torch.rand(example.points, example.columns)
        ways = {"deepxde": example.way(own), "leafgrad": example.way(vars(patched))}
        off = apart(model.double(), inputs.double(), *ways.values())
        turns = take_turns(model.float(), inputs, ways, options.rounds)
        print(f"{name:28}{per_row(turns)}  {off:7.0e}", flush=True)
        if not off < MOST_APART:
            raise SystemExit(f"{name}: residuals or gradients are {off:.0e} of their size apart")


if __name__ == "__main__":
    main()
