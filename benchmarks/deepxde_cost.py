"""Measure how much `patch_deepxde` speeds up the unchanged equations of DeepXDE's examples.

Networks, numbers of points and equations are those of the examples. A step is a forward pass, the
residual and a backward pass to the parameters. Columns: CPU milliseconds with DeepXDE's `jacobian`
and `hessian`, with leafgrad's, and of the floor, which replays leafgrad's operator calls (see
`replay`); then the ratios of DeepXDE and the floor to leafgrad. All are medians over rounds. `off`
is the largest relative difference of residuals and gradients in double precision; the run fails if
it exceeds 1e-6.

The goal: no row of the table slower than DeepXDE, and a median of 1.8 times as fast. If the floor
makes that impossible, 1.25 times the floor is enough; each line shows which of the two applies.
"""

import argparse
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from operator import truediv
from types import SimpleNamespace
from typing import Any

import torch
from in_turns import Turns, Way, deepxde, heading, network, per_row, take_turns
from replay import replay
from torch import Tensor, nn

from leafgrad import higher_order_grad, patch_deepxde

Entry = Callable[..., Tensor]  # `jacobian` or `hessian`
Equation = Callable[[Entry, Entry, Tensor, Tensor], list[Tensor]]

FUNCTIONS = ("jacobian", "hessian", "clear")
MOST_APART = 1e-6
LEAST, MEDIAN = 1.0, 1.8  # goals: speed relative to DeepXDE of each row, and the median
OF_FLOOR = 1.25


def burgers(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of Burgers' equation. The input columns are x and t."""
    return [j(y, x, i=0, j=1) + y * j(y, x, i=0, j=0) - 0.01 / math.pi * h(y, x, i=0, j=0)]


def allen_cahn(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of the Allen-Cahn equation.

    The output is transformed so that initial and boundary conditions hold exactly.
    """
    u = x[:, 0:1] ** 2 * torch.cos(math.pi * x[:, 0:1]) + x[:, 1:2] * (1 - x[:, 0:1] ** 2) * y
    return [j(u, x, i=0, j=1) - 0.001 * h(u, x, i=0, j=0) - 5 * (u - u**3)]


def heat(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of the heat equation in one dimension."""
    return [j(y, x, i=0, j=1) - 0.4 * h(y, x, i=0, j=0)]


def wave(_: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of the wave equation in one dimension."""
    return [h(y, x, i=1, j=1) - 4 * h(y, x, i=0, j=0)]


def helmholtz(_: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of the Helmholtz equation.

    The output is transformed so that the boundary condition holds exactly.
    """
    u = (x * (1 - x)).prod(dim=1, keepdim=True) * y
    return [-h(u, x, i=0, j=0) - h(u, x, i=1, j=1) - (4 * math.pi) ** 2 * u]


def poisson(_: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of Poisson's equation, `-Δu - 1`, used on an L-shaped domain."""
    return [-h(y, x, i=0, j=0) - h(y, x, i=1, j=1) - 1]


def laplace_disk(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of Laplace's equation on a disk, in polar coordinates."""
    r = x[:, 0:1]
    return [r * j(y, x, i=0, j=0) + r**2 * h(y, x, i=0, j=0) + h(y, x, i=0, j=1)]


def schroedinger(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the real and imaginary residuals of the nonlinear Schrödinger equation."""
    u, v = y[:, 0:1], y[:, 1:2]
    power = u**2 + v**2
    real = -j(y, x, i=1, j=1) + 0.5 * h(y, x, component=0, i=0, j=0) + power * u
    return [real, j(y, x, i=0, j=1) + 0.5 * h(y, x, component=1, i=0, j=0) + power * v]


def euler_beam(_: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of the Euler beam equation, `u'''' + 1`."""
    return [h(h(y, x), x) + 1]


def korteweg_de_vries(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of the Korteweg-de Vries equation."""
    u_xxx = j(h(y, x, i=0, j=0), x, i=0, j=0)
    return [j(y, x, i=0, j=1) + 6 * y * j(y, x, i=0, j=0) + u_xxx]


def kuramoto_sivashinsky(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of the Kuramoto-Sivashinsky equation."""
    u_xx = h(y, x, i=0, j=0)
    return [j(y, x, i=0, j=1) + y * j(y, x, i=0, j=0) + u_xx + h(u_xx, x, i=0, j=0)]


def _momentum(j: Entry, h: Entry, x: Tensor, y: Tensor, viscosity: float) -> list[Tensor]:
    """Return the residuals of the Navier-Stokes equations: momentum, then continuity.

    The number of space columns is the number of velocities in `y`. Another column is time.
    """
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
    """Return the Navier-Stokes residuals for Kovasznay flow. The input columns are x, y."""
    return _momentum(j, h, x, y, 1 / 20)


def navier_stokes(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the Navier-Stokes residuals for flow past a cylinder.

    The input columns are x, y, t.
    """
    return _momentum(j, h, x, y, 0.01)


def beltrami(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the Navier-Stokes residuals for Beltrami flow. The input columns are x, y, z, t."""
    return _momentum(j, h, x, y, 1.0)


def elasticity(j: Entry, _: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residuals of linear elasticity in a plate, by first derivatives only.

    The five outputs are two displacements and three stresses.
    """
    u_x, v_y = j(y, x, i=0, j=0), j(y, x, i=1, j=1)
    shear = 0.5 * (j(y, x, i=0, j=1) + j(y, x, i=1, j=0))
    stresses = [2 * u_x + v_y - y[:, 2:3], 2 * v_y + u_x - y[:, 3:4], shear - y[:, 4:5]]
    forces = [j(y, x, i=2, j=0) + j(y, x, i=4, j=1), j(y, x, i=4, j=0) + j(y, x, i=3, j=1)]
    return [*forces, *stresses]


def klein_gordon(_: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of the Klein-Gordon equation."""
    return [h(y, x, i=1, j=1) - h(y, x, i=0, j=0) + y**2 - x[:, 0:1] ** 2 * x[:, 1:2].cos() ** 2]


def diffusion_reaction(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of the diffusion-reaction equation.

    The output is transformed so that initial and boundary conditions hold exactly.
    """
    u = x[:, 1:2] * (math.pi**2 - x[:, 0:1] ** 2) * y + x[:, 0:1].sin()
    return [j(u, x, i=0, j=1) - h(u, x, i=0, j=0) - torch.exp(-x[:, 1:2]) * (2 * x[:, 0:1]).sin()]


def black_scholes(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of the Black-Scholes equation.

    The input columns are the price and the time left.
    """
    s = x[:, 0:1]
    spread = 0.02 * s**2 * h(y, x, i=0, j=0)
    return [j(y, x, i=0, j=1) - spread - 0.05 * s * j(y, x, i=0, j=0) + 0.05 * y]


def american_put(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residuals of an American put option's complementarity conditions."""
    (loss,) = black_scholes(j, h, x, y)
    gain = torch.relu(1 - x[:, 0:1])
    above = y - gain
    return [
        torch.relu(-loss),
        torch.relu(-above),
        (above**2 + loss**2 + 1e-8).sqrt() - above - loss,
    ]


def lotka_volterra(j: Entry, _: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the two residuals of the Lotka-Volterra equations."""
    r, p = y[:, 0:1], y[:, 1:2]
    return [j(y, x, i=0) - 2 * r + 8 * r * p, j(y, x, i=1) - 4 * r * p + p]


def ode_system(j: Entry, _: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residuals of the system `u' = v`, `v' = -u`."""
    return [j(y, x, i=0) - y[:, 1:2], j(y, x, i=1) + y[:, 0:1]]


def second_order_ode(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of `y'' - 10 y' + 9 y = 5 x`."""
    return [h(y, x) - 10 * j(y, x) + 9 * y - 5 * x]


def poisson_in_1d(_: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of Poisson's equation in one dimension."""
    return [-h(y, x) - math.pi**2 * torch.sin(math.pi * x)]


def lorenz(j: Entry, _: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the three residuals of the Lorenz system."""
    a, b, c = y[:, 0:1], y[:, 1:2], y[:, 2:3]
    first, second = j(y, x, i=0) - 10 * (b - a), j(y, x, i=1) - a * (15 - c) + b
    return [first, second, j(y, x, i=2) - a * b + 8 / 3 * c]


def operator(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residual of diffusion with reaction `0.01 u²`, for a DeepONet's output."""
    return [j(y, x, i=0, j=1) - 0.01 * h(y, x, i=0, j=0) - 0.01 * y**2]


def operator_by_function(j: Entry, h: Entry, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residuals of each function in `y` of shape ``(functions, points)``.

    DeepXDE calls the equation in this way.
    """
    return [term for values in y for term in operator(j, h, x, values[:, None])]


def operator_at_once(x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the residuals of all functions, computed by one call of `higher_order_grad`.

    `y` has the shape ``(functions, points)``, the result ``(points, functions)``.
    """
    y_t, y_xx = higher_order_grad(y.t(), x, [(0, 1), (2, 0)])
    return [y_t - 0.01 * y_xx - 0.01 * y.t() ** 2]


class Operator(nn.Module):
    """A DeepONet: a trunk network for points and a branch network for functions."""

    def __init__(self, functions: int, *, is_aligned: bool) -> None:
        super().__init__()
        self.trunk, self.branch = network(2, 128, 2, 128), network(50, 128, 2, 128)
        self.sensors: Tensor
        self.register_buffer("sensors", torch.randn(functions, 50))
        self.is_aligned = is_aligned

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs of shape ``(functions, points)``, all pairs, if `is_aligned`.

        Otherwise each point has its own function, and the shape is ``(points, 1)``.
        """
        branch, trunk = self.branch(self.sensors), self.trunk(x)
        if self.is_aligned:
            return torch.einsum("fi,pi->fp", branch, trunk)
        result: Tensor = (branch * trunk).sum(-1, keepdim=True)
        return result


@dataclass(frozen=True, kw_only=True)
class Example:
    """An equation of a DeepXDE example, with the example's network and number of points."""

    equation: Equation
    columns: int = 2
    channels: int = 1
    width: int = 0
    depth: int = 0
    points: int
    # A function that makes a network other than a perceptron.
    model: Callable[[], nn.Module] | None = None
    rewritten: Callable[[Tensor, Tensor], list[Tensor]] | None = None  # by one call

    def network(self) -> nn.Module:
        """Return a new network for this example."""
        if self.model is not None:
            return self.model()
        return network(self.columns, self.width, self.depth, self.channels)

    def in_one_call(self, model: nn.Module, inputs: Tensor) -> Tensor:
        """Return the residual, computed by the `rewritten` equation."""
        assert self.rewritten is not None
        x = inputs.detach().requires_grad_()
        return torch.cat(self.rewritten(x, model(x)), dim=1)

    def way(self, functions: dict[str, Any]) -> Way:
        """Return a function that computes the residual.

        Before each call, it sets `deepxde.grad.jacobian` and so on to `functions`.
        """

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
    "Klein-Gordon": Example(equation=klein_gordon, width=40, depth=2, points=33000),
    "diffusion-reaction": Example(equation=diffusion_reaction, width=30, depth=6, points=320),
    "Black-Scholes": Example(equation=black_scholes, width=28, depth=4, points=2237),
    "American put": Example(equation=american_put, width=128, depth=4, points=10000),
    "Lotka-Volterra": Example(
        equation=lotka_volterra, columns=1, channels=2, width=64, depth=6, points=3002
    ),
    "ODE system": Example(equation=ode_system, columns=1, channels=2, width=50, depth=3, points=37),
    "ODE, second order": Example(
        equation=second_order_ode, columns=1, width=50, depth=3, points=18
    ),
    "Poisson, 1-D": Example(equation=poisson_in_1d, columns=1, width=50, depth=3, points=18),
    "Lorenz": Example(equation=lorenz, columns=1, channels=3, width=40, depth=3, points=427),
    "DeepONet, unaligned": Example(
        equation=operator, points=2600, model=lambda: Operator(2600, is_aligned=False)
    ),
    "DeepONet, aligned": Example(
        equation=operator_by_function,
        points=260,
        model=lambda: Operator(10, is_aligned=True),
        rewritten=operator_at_once,
    ),
}


def apart(model: nn.Module, inputs: Tensor, theirs: Way, ours: Way) -> float:
    """Return the largest relative difference of residuals and gradients between two ways.

    It compares the second result of `ours`, because leafgrad computes most derivatives together
    only from the second call on.
    """
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


def times(turns: Turns, way: str, other: str) -> float:
    """Return the median over rounds of how many times as long `way` takes as `other`.

    `turns` has the times of each way, one per round.
    """
    ratio: float = statistics.median(map(truediv, turns[way], turns[other]))
    return ratio


def verdict(ratio: float, of_floor: float, target: float) -> str:
    """Return whether `ratio` reaches `target`, or comes close enough to the floor.

    Ratios are speeds relative to DeepXDE.
    """
    if ratio >= target:
        return "met"
    if of_floor < target and ratio * OF_FLOOR >= of_floor:
        return f"met at {OF_FLOOR} of the floor, which is at {of_floor:.2f}"
    return "not met"


def main() -> None:
    """Print the times, ratios and verdict of each example."""
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
    print(f"{'':22}{heading(['deepxde', 'leafgrad', 'floor'])}      off  at least {LEAST}")
    ratios, floors = [], []
    for name, example in EXAMPLES.items():
        model = example.network()
        inputs = torch.rand(example.points, example.columns)
        ours = example.in_one_call if example.rewritten else example.way(vars(patched))
        ways = {"deepxde": example.way(own), "leafgrad": ours}
        off = apart(model.double(), inputs.double(), *ways.values())
        ways["floor"] = replay(model.float(), inputs, ours)
        turns = take_turns(model, inputs, ways, options.rounds)
        ratios.append(times(turns, "deepxde", "leafgrad"))
        floors.append(times(turns, "deepxde", "floor"))
        told = verdict(ratios[-1], floors[-1], LEAST)
        print(f"{name:22}{per_row(turns)}  {off:7.0e}  {told}", flush=True)
        if not off < MOST_APART:
            raise SystemExit(f"{name}: residuals or gradients are {off:.0e} of their size apart")
    middle, middle_floor = statistics.median(ratios), statistics.median(floors)
    print(f"of {len(ratios)}: median {middle:.2f}, least {min(ratios):.2f}")
    print(f"median at least {MEDIAN}: {verdict(middle, middle_floor, MEDIAN)}")


if __name__ == "__main__":
    main()
