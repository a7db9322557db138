"""Compare training methods on three hard equations: the error they reach and the time they take.

The equations are convection at speed 30, Burgers' equation with a shock and Allen-Cahn's. Each
method uses the same settings for all of them. All but Adam and the controls were tuned, on seeds
0 and 1, as `METHODS` describes.
Errors are relative L2 errors on a grid. The reference solution comes from a formula, from
quadrature or from a spectral method, never from a network.

    OMP_NUM_THREADS=1 python benchmarks/convergence.py recipe --seeds 5 15
    OMP_NUM_THREADS=1 python benchmarks/convergence.py all --seeds 5 8

Runs that are already in `convergence.json` are skipped. Each new run is saved as soon as it ends.
"""

import argparse
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from leafgrad import higher_order_grad

RESULTS = Path(__file__).with_suffix(".json")
EPSILON, SLABS = 1.0, 10  # of the causal weights
TIMES = 101
Field = Callable[[Tensor], Tensor]


class Problem(NamedTuple):
    """An equation on the interval from `low` to `high`, for times from 0 to 1."""

    residual: Callable[[Tensor, Tensor], Tensor]
    start: Field
    reference: Callable[[], tuple[Tensor, Tensor]]  # positions, and values at TIMES times
    low: float
    high: float
    is_periodic: bool = True  # if False, the solution is 0 at both ends


class Method(NamedTuple):
    """A training recipe.

    Each optimizer runs `rounds` rounds in each window; the optimizer steps per round are in
    `STEPS`.
    """

    optimizers: tuple[str, ...] = ("adam", "lbfgs")
    rounds: int = 10
    points: str = "fixed"  # or "fresh" or "adaptive": both draw new points each round
    windows: int = 1
    is_causal: bool = False
    has_fourier: bool = False
    updates_weight: bool = False
    is_hard: bool = False
    is_together: bool = False  # whether the windows take turns, a round each
    width: int = 16
    number: int = 500  # training points for each network
    longer: int = 1  # a factor for the number of steps per round
    weight: float = 100.0  # the weight of the initial condition; that of the equation is 1
    choice: tuple[int, float] = 4, 0.5  # candidates for each adaptive point, and c (Wu et al.)


STEPS = {"adam": 100, "lbfgs": 140, "gauss-newton": 5}  # optimizer steps per round
RECIPE = Method(("gauss-newton",), 10, "adaptive", windows=5)
# Each method has the settings with the smallest geometric mean of the three errors on seed 0. The
# causal weights and the hard start also ran on seed 1. The comments name the settings that lost.
METHODS = {
    "Adam": Method(("adam",), 30),
    # The weight of the initial condition: 1, 10, 1000. Adam's step size: 1e-2.
    "Adam, then L-BFGS": Method(),
    # New points only once a round, for 10 or 5 rounds.
    "fresh points": Method(points="fresh"),
    # 10 rounds with both choices (k = 1); k = 2 and c = 0; points that are added (RAR-D); 5 rounds
    # with the choice of the recipe.
    "adaptive points": Method(points="adaptive", rounds=5, longer=2, choice=(10, 1.0)),
    # A constant epsilon of 0.1; of 0.01 and 1 with 25 slabs; epsilon rising from 0.01 to 100 as the
    # last weight nears 1, with 10 and 25 slabs, and with 20 shorter rounds.
    "causal weights": Method(is_causal=True),
    # The weight of the initial condition: 10, 1000.
    "time windows": Method(windows=5, rounds=2),
    # Scale 0.5, 2, 5, 1 and 10 mixed, 10 for the time only; 16 frequencies.
    "Fourier features": Method(has_fourier=True),
    # The largest gradient of one term over the mean of the other; updates once a round; updates
    # during L-BFGS too.
    "updated weights": Method(updates_weight=True),
    # The factor 1 - exp(-5 t) for the network in place of t; also with exp(-5 t) for the initial
    # condition.
    "hard start": Method(is_hard=True),
    # The weight of the initial condition: 10, 100.
    "Gauss-Newton": Method(("gauss-newton",), 50, weight=1000.0),
    # Fewer rounds of more steps; a larger weight of the initial condition.
    "recipe": RECIPE,
    # Controls: the same five networks and points, but no order in time; and one network with as
    # many parameters as the five. With 2500 points, it has time for only five Gauss-Newton steps.
    "recipe, all windows at once": RECIPE._replace(is_together=True),
    "recipe, one large network": Method(("gauss-newton",), 30, "adaptive", width=38),
    "one large network": Method(width=38, number=2500, rounds=3),
}
SHOWN = "Allen-Cahn", 5  # a run with this equation and seed is saved with its picture


def convection(u: Tensor, points: Tensor) -> Tensor:
    """Return the residual of the convection equation with speed 30."""
    u_t, u_x = higher_order_grad(u, points, [(0, 1), (1, 0)])
    return u_t + 30.0 * u_x


def burgers(u: Tensor, points: Tensor) -> Tensor:
    """Return the residual of Burgers' equation."""
    u_t, u_x, u_xx = higher_order_grad(u, points, [(0, 1), (1, 0), (2, 0)])
    return u_t + u * u_x - 0.01 / math.pi * u_xx


def allen_cahn(u: Tensor, points: Tensor) -> Tensor:
    """Return the residual of the Allen-Cahn equation."""
    u_t, u_xx = higher_order_grad(u, points, [(0, 1), (2, 0)])
    return u_t - 1e-4 * u_xx + 5.0 * (u**3 - u)


def travelled() -> tuple[Tensor, Tensor]:
    """Return positions and the exact solution of the convection equation."""
    x, t = torch.linspace(0.0, 2.0 * math.pi, 257)[:-1], torch.linspace(0.0, 1.0, TIMES)
    return x, torch.sin(x[:, None] - 30.0 * t)


def cole_hopf(nodes: int = 200) -> tuple[Tensor, Tensor]:
    """Return positions and the solution of Burgers' equation.

    It is the Cole-Hopf formula, evaluated by Gauss-Hermite quadrature.
    """
    x, t = np.linspace(-1.0, 1.0, 257), np.linspace(0.0, 1.0, TIMES)
    z, weights = np.polynomial.hermite.hermgauss(nodes)
    y = x[:, None, None] - np.sqrt(4.0 * 0.01 / math.pi * t)[:, None] * z
    exponent = -np.cos(math.pi * y) / 0.02
    share = weights * np.exp(exponent - exponent.max(axis=-1, keepdims=True))
    u = -(share * np.sin(math.pi * y)).sum(axis=-1) / share.sum(axis=-1)
    return torch.from_numpy(x), torch.from_numpy(u)


def spectral(places: int = 1024, steps: int = 1000) -> tuple[Tensor, Tensor]:
    """Return positions and the solution of the Allen-Cahn equation.

    It uses Fourier modes in space and ETDRK4 in time (Kassam, Trefethen), at `places` positions and
    in `steps` time steps.
    """
    x = np.linspace(-1.0, 1.0, places + 1)[:-1]
    k, h = math.pi * np.arange(places // 2 + 1), 1.0 / steps
    linear = 5.0 - 1e-4 * k**2
    circle = np.exp(1j * math.pi * (np.arange(1, 33) - 0.5) / 32)
    r = h * linear[:, None] + circle
    whole, half = np.exp(h * linear), np.exp(h * linear / 2.0)
    q = h * ((np.exp(r / 2.0) - 1.0) / r).mean(axis=1).real
    f1 = h * ((-4.0 - r + np.exp(r) * (4.0 - 3.0 * r + r**2)) / r**3).mean(axis=1).real
    f2 = h * ((2.0 + r + np.exp(r) * (r - 2.0)) / r**3).mean(axis=1).real
    f3 = h * ((-4.0 - 3.0 * r - r**2 + np.exp(r) * (4.0 - r)) / r**3).mean(axis=1).real

    def cubic(v: np.ndarray) -> np.ndarray:
        return np.fft.rfft(-5.0 * np.fft.irfft(v, places) ** 3)

    v = np.fft.rfft(x**2 * np.cos(math.pi * x))
    kept = [v]
    for step in range(steps):
        n0 = cubic(v)
        a = half * v + q * n0
        na = cubic(a)
        b = half * v + q * na
        nb = cubic(b)
        c = half * a + q * (2.0 * nb - n0)
        v = whole * v + f1 * n0 + 2.0 * f2 * (na + nb) + f3 * cubic(c)
        if (step + 1) % (steps // (TIMES - 1)) == 0:
            kept.append(v)
    u = np.stack([np.fft.irfft(v, places) for v in kept], axis=1)
    stride = places // 256
    return torch.from_numpy(x[::stride].copy()), torch.from_numpy(u[::stride].copy())


PROBLEMS = {
    "convection": Problem(
        residual=convection,
        start=torch.sin,
        reference=travelled,
        low=0.0,
        high=2.0 * math.pi,
    ),
    "Burgers": Problem(
        residual=burgers,
        start=lambda x: -(math.pi * x).sin(),
        reference=cole_hopf,
        low=-1.0,
        high=1.0,
        is_periodic=False,
    ),
    "Allen-Cahn": Problem(
        residual=allen_cahn,
        start=lambda x: x**2 * (math.pi * x).cos(),
        reference=spectral,
        low=-1.0,
        high=1.0,
    ),
}


class Network(nn.Module):
    """A perceptron with three hidden layers that satisfies the boundary condition exactly."""

    frequencies: Tensor

    def __init__(self, problem: Problem, method: Method, begin: float, end: float) -> None:
        super().__init__()
        self.problem, self.method, self.begin, self.end = problem, method, begin, end
        count = 3 if problem.is_periodic else 2
        self.register_buffer("frequencies", torch.randn(count, 32))
        sizes = [64 if method.has_fourier else count, *[method.width] * 3, 1]
        layers = [nn.Sequential(nn.Linear(*pair), nn.Tanh()) for pair in pairwise(sizes)]
        self.inner = nn.Sequential(*layers[:-1], layers[-1][0])

    def forward(self, points: Tensor) -> Tensor:
        """Return the solution at `points` of shape `[..., 2]`."""
        x, t = points[..., :1], points[..., 1:]
        late = (t - self.begin) / (self.end - self.begin)
        angle = 2.0 * math.pi * (x - self.problem.low) / (self.problem.high - self.problem.low)
        places = [angle.cos(), angle.sin()] if self.problem.is_periodic else [x]
        inputs = torch.cat([*places, late], dim=-1)
        if self.method.has_fourier:
            waves = inputs @ self.frequencies
            inputs = torch.cat([waves.cos(), waves.sin()], dim=-1)
        u: Tensor = self.inner(inputs)
        if not self.problem.is_periodic:
            u = u * (1.0 - x**2)
        if self.method.is_hard:
            u = self.problem.start(x) + late * u
        return u


class Window:
    """The training of one network on one interval of time."""

    def __init__(self, net: Network, first: Field, seed: int) -> None:
        self.net, self.first = net, first
        self.sobol = torch.quasirandom.SobolEngine(2, scramble=True, seed=seed)
        self.weight, self.damping = net.method.weight, 0.1
        self.draw("fixed")

    def candidates(self, count: int) -> Tensor:
        """Return `count` Sobol points in this window."""
        problem, net = self.net.problem, self.net
        low = torch.tensor([problem.low, net.begin])
        size = torch.tensor([problem.high, net.end]) - low
        return (low + size * self.sobol.draw(count, dtype=torch.float64)).requires_grad_()

    def residual(self, points: Tensor) -> Tensor:
        """Return the residual of the network at `points`."""
        return self.net.problem.residual(self.net(points), points)

    def draw(self, kind: str) -> None:
        """Draw the training points; "adaptive" prefers points with a large residual."""
        count = self.net.method.number
        self.inside = self.candidates(count)
        if kind == "adaptive":
            times, floor = self.net.method.choice
            many = self.candidates(times * count)
            size = self.residual(many).detach().abs().flatten()
            chosen = torch.multinomial(size / size.mean() + floor, count)
            self.inside = many.detach()[chosen].requires_grad_()
        self.begin = self.inside.detach()[::5].clone()
        self.begin[:, 1] = self.net.begin
        self.wanted = self.first(self.begin).detach()
        self.causal = torch.ones(count, 1)

    def set_weight(self) -> None:
        """Update the weight of the initial condition, so that both gradients are equally large."""
        norms, own = [], [*self.net.parameters()]
        for term in self.terms():
            parts = torch.autograd.grad(term, own, retain_graph=True, materialize_grads=True)
            norms.append(nn.utils.parameters_to_vector(parts).norm().item())
        self.weight = 0.9 * self.weight + 0.1 * norms[0] / norms[1]

    def set_causal(self) -> None:
        """Update the causal weights: small until the residual at all earlier times is small."""
        squares, times = self.residual(self.inside).detach().square(), self.inside.detach()[:, 1]
        slab = (SLABS * times).long().clamp(max=SLABS - 1)
        means = torch.stack([squares[slab == k].mean() for k in range(SLABS)])
        self.causal = (-EPSILON * (means.cumsum(0) - means)).exp()[slab].unsqueeze(1)

    def terms(self) -> tuple[Tensor, Tensor]:
        """Return the mean squared residual and the mean squared error at the window's start."""
        equation = (self.causal * self.residual(self.inside).square()).mean()
        return equation, (self.net(self.begin) - self.wanted).square().mean()

    def loss(self) -> Tensor:
        """Return the weighted sum of the equation's loss and the initial condition's loss."""
        equation, start = self.terms()
        return equation + self.weight * start

    def rows(self) -> tuple[Tensor, Tensor]:
        """Return all weighted residuals and their Jacobian with respect to the parameters."""
        count, points = len(self.inside), torch.cat([self.inside.detach(), self.begin])
        points.requires_grad_()
        own = {  # a copy of the parameters for each point
            name: value.detach().expand(len(points), *value.shape).requires_grad_()
            for name, value in self.net.named_parameters()
        }
        u = vmap(lambda v, p: functional_call(self.net, v, (p,)))(own, points)
        equation = self.net.problem.residual(u, points)[:count] / count**0.5
        start = (self.weight / len(self.begin)) ** 0.5 * (u[count:] - self.wanted)
        values = torch.cat([equation, start])
        parts = torch.autograd.grad(values.sum(), [*own.values()])
        return values.detach().flatten(), torch.cat([part.flatten(1) for part in parts], 1)

    def gauss_newton(self, steps: int) -> None:
        """Take damped Gauss-Newton steps; undo a step that does not lower the loss."""
        now = nn.utils.parameters_to_vector(self.net.parameters()).detach().clone()
        for _ in range(steps):
            r, rows = self.rows()
            square = rows @ rows.T
            for _ in range(6):
                damped = square + self.damping * torch.eye(len(r))
                change = rows.T @ torch.cholesky_solve(r[:, None], torch.linalg.cholesky(damped))
                moved = now - change.flatten()
                nn.utils.vector_to_parameters(moved, self.net.parameters())
                if self.loss().item() < r.square().sum().item():
                    now, self.damping = moved, max(self.damping / 3.0, 1e-9)
                    break
                self.damping *= 4.0
            nn.utils.vector_to_parameters(now, self.net.parameters())

    def first_order(self, optimizer: torch.optim.Optimizer, steps: int) -> None:
        """Take `steps` steps of Adam, or make one call of `LBFGS.step` with all its iterations."""

        def closure() -> float:
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            return loss.item()

        method, is_adam = self.net.method, isinstance(optimizer, torch.optim.Adam)
        for step in range(steps if is_adam else 1):
            if method.is_causal:
                self.set_causal()
            if is_adam and step % 10 == 0 and method.updates_weight:
                self.set_weight()
            if is_adam and step % 10 == 0 and method.points == "fresh":
                self.draw("fresh")
            optimizer.step(closure)

    def train(self) -> Iterator[None]:
        """Run all rounds of each optimizer, one optimizer after the other; yield after a round."""
        method, parameters = self.net.method, [*self.net.parameters()]
        changes = method.points != "fixed" or method.is_causal
        adam = torch.optim.Adam(parameters, lr=3e-3)
        settings: dict[str, Any] = {"history_size": 50, "line_search_fn": "strong_wolfe"}
        settings["tolerance_change"] = 1e-14
        for name in method.optimizers:
            steps = STEPS[name] * method.longer
            for number in range(method.rounds):
                if method.points != "fixed" and number:
                    self.draw(method.points)
                # The history of L-BFGS is wrong if the loss changed.
                if name == "lbfgs" and (changes or number == 0):
                    lbfgs = torch.optim.LBFGS(parameters, max_iter=steps, **settings)
                if name == "gauss-newton":
                    self.gauss_newton(steps)
                else:
                    self.first_order(adam if name == "adam" else lbfgs, steps)
                yield


def solve(problem: Problem, method: Method, seed: int) -> Field:
    """Train one network per window; return the solution as a function of points.

    Each window after the first starts from the solution of the previous one.
    """
    torch.manual_seed(seed)
    nets: list[Network] = []
    rounds: list[Iterator[None]] = []
    for number in range(method.windows):
        net = Network(problem, method, number / method.windows, (number + 1) / method.windows)
        first = nets[-1] if nets else lambda points: problem.start(points[:, :1])
        if nets:
            net.load_state_dict(nets[-1].state_dict())
        rounds.append(Window(net, first, seed).train())
        if not method.is_together:
            deque(rounds[-1], maxlen=0)  # all rounds
        nets.append(net)
    deque(zip(*rounds, strict=True), maxlen=0)  # the rounds that are left, in turn

    def whole(points: Tensor) -> Tensor:
        number = (points[:, 1:] * len(nets)).long().clamp(max=len(nets) - 1)
        values = torch.zeros(len(points), 1)
        for k, net in enumerate(nets):
            values = torch.where(number == k, net(points), values)
        return values

    return whole


def thin(values: Tensor) -> list[list[int]]:
    """Return `values` in hundredths, at each eighth position and each fourth time."""
    hundredths: list[list[int]] = (100.0 * values[::8, ::4]).round().int().tolist()
    return hundredths


def run(name: str, problem: str, seed: int) -> dict[str, object]:
    """Train once; return a record with the relative error and the CPU seconds of the training.

    The record of the run `SHOWN` also has a small picture of the solution.
    """
    begin = time.process_time()
    u = solve(PROBLEMS[problem], METHODS[name], seed)
    seconds = time.process_time() - begin
    x, values = PROBLEMS[problem].reference()
    with torch.no_grad():
        found = u(torch.cartesian_prod(x, torch.linspace(0.0, 1.0, TIMES))).reshape(values.shape)
    error = ((found - values).norm() / values.norm()).item()
    record: dict[str, object] = {"error": float(f"{error:.2g}"), "seconds": round(seconds, 1)}
    return record | ({"hundredths": thin(found)} if (problem, seed) == SHOWN else {})


def read(path: Path) -> list[dict[str, object]]:
    """Return the runs saved in the file `path`; an empty list if there is no file."""
    runs: list[dict[str, object]] = []
    return json.loads(path.read_text("utf-8"))["runs"] if path.exists() else runs


def main() -> None:
    """Run the methods named on the command line, and save each result at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="+", choices=[*METHODS, "all"])
    parser.add_argument("--seeds", nargs=2, type=int, default=[5, 8], metavar=("FROM", "BEFORE"))
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=[*PROBLEMS])
    parser.add_argument("--write", type=Path, default=RESULTS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    solution = thin(PROBLEMS[SHOWN[0]].reference()[1])
    names = METHODS if "all" in given.methods else given.methods
    for seed in range(*given.seeds):
        for method in names:
            for problem in given.problems:
                key = {"method": method, "problem": problem, "seed": seed}
                if not any(key.items() <= each.items() for each in read(given.write)):
                    found = key | run(method, problem, seed)
                    print(method, problem, seed, found["error"], found["seconds"], flush=True)
                    lines = ",\n".join(json.dumps(each) for each in [*read(given.write), found])
                    head = f'"torch": "{torch.__version__}", "solution": {solution}'
                    text = f'{{{head}, "runs": [\n{lines}\n]}}\n'
                    given.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
