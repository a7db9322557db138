"""What equations of neurodiffeq's kind cost with its own `diff`, with ours, and in one call.

Each coordinate is a tensor of its own, ``(points, 1)`` in double precision, the network has two
hidden layers of 32, and the initial value is built into its output: neurodiffeq's defaults, as are
32 points along a line and 32 by 32 in a plane. Forward pass, residual and backward pass to the
parameters: milliseconds of CPU time with neurodiffeq's `diff`, with `diff` replaced by a function
of ours, and with the equation written as one call; then how many times as fast as neurodiffeq the
two are, medians of turns. `off` is how far residuals are apart, as a share of their size: the run
fails where that is more than 1e-9.
"""

import argparse
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import truediv
from typing import Any

import torch
from in_turns import network, peer, take_turns
from torch import Tensor, nn

from leafgrad import higher_order_grad

MOST_APART = 1e-9

Diff = Callable[..., Tensor]
Residual = Callable[[nn.Module, Tensor], Tensor]
Derivatives = Callable[[Tensor, list[Tensor]], list[Tensor]]  # of u in coordinates, those asked for


def ours(u: Tensor, t: Tensor, order: int = 1) -> Tensor:
    """Differentiate as neurodiffeq's `diff` does."""
    return higher_order_grad(u, t, order, allow_unused=True)


@dataclass(frozen=True)
class Equation:
    """The derivatives that an equation asks for, counted per coordinate, and what it says of them.

    Each of them is taken in one coordinate alone.
    """

    orders: list[tuple[int, ...]]
    residual: Callable[..., Tensor]  # of u and the derivatives

    def one_by_one(self, diff: Diff) -> Residual:
        """Ask a `diff` for each derivative."""

        def derivatives(u: Tensor, coordinates: list[Tensor]) -> list[Tensor]:
            asked = [(order.index(max(order)), max(order)) for order in self.orders]
            return [diff(u, coordinates[place], order=count) for place, count in asked]

        return self._way(derivatives)

    def at_once(self) -> Residual:
        """Ask for all derivatives in one call."""

        def derivatives(u: Tensor, coordinates: list[Tensor]) -> list[Tensor]:
            inputs = coordinates if len(coordinates) > 1 else coordinates[0]
            return [*higher_order_grad(u, inputs, self.orders)]

        return self._way(derivatives)

    def _way(self, derivatives: Derivatives) -> Residual:
        def residual(model: nn.Module, points: Tensor) -> Tensor:
            coordinates = [column.clone().requires_grad_() for column in points.split(1, dim=1)]
            u = 1 + (1 - torch.exp(-coordinates[-1])) * model(torch.cat(coordinates, dim=1))
            return self.residual(u, *derivatives(u, coordinates))

        return residual


EQUATIONS = {  # coordinates are t alone, or x and t, or x and y
    "decay": Equation([(1,)], lambda u, u_t: u_t + u),
    "oscillator": Equation([(2,)], lambda u, u_tt: u_tt + u),
    "beam": Equation([(4,)], lambda _, u_tttt: u_tttt - 1),
    "Laplace": Equation([(2, 0), (0, 2)], lambda _, u_xx, u_yy: u_xx + u_yy),
    "heat": Equation([(0, 1), (2, 0)], lambda _, u_t, u_xx: u_t - 0.3 * u_xx),
    "Burgers": Equation(
        [(0, 1), (1, 0), (2, 0)], lambda u, u_t, u_x, u_xx: u_t + u * u_x - 0.2 * u_xx
    ),
    "Korteweg-de Vries": Equation(
        [(0, 1), (1, 0), (3, 0)], lambda u, u_t, u_x, u_xxx: u_t + 6 * u * u_x + u_xxx
    ),
    "Kuramoto-Sivashinsky": Equation(
        [(0, 1), (1, 0), (2, 0), (4, 0)],
        lambda u, u_t, u_x, u_xx, u_xxxx: u_t + u * u_x + u_xx + u_xxxx,
    ),
}


def off(model: nn.Module, points: Tensor, ways: Mapping[str, Residual]) -> float:
    """Say how far the residuals are apart."""
    theirs, *others = (way(model, points) for way in ways.values())
    return max(((found - theirs).abs().max() / theirs.abs().max()).item() for found in others)


def main() -> None:
    """Print a line for each equation and number of points."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--points", type=int, nargs="*", default=[32, 1024])
    options = parser.parse_args()
    neurodiffeq: Any = peer("neurodiffeq")
    if neurodiffeq is None:
        return
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    print(
        f"{'':28}{'diff':>9}{'replaced':>9}{'one call':>9} |{'replaced':>9}{'one call':>9}    off"
    )
    for points in options.points:
        for name, equation in EQUATIONS.items():
            columns = len(equation.orders[0])
            model, at = network(columns, 32, 2), torch.rand(points, columns)
            ways = {
                "diff": equation.one_by_one(neurodiffeq.diff),
                "replaced": equation.one_by_one(ours),
                "one call": equation.at_once(),
            }
            apart = off(model, at, ways)
            turns = take_turns(model, at, ways, options.rounds)
            times = "".join(f"{statistics.median(taken):9.2f}" for taken in turns.values())
            faster = "".join(
                f"{statistics.median(map(truediv, turns['diff'], turns[way])):9.2f}"
                for way in ("replaced", "one call")
            )
            print(f"{name:22}{points:6}{times} |{faster}{apart:7.0e}", flush=True)
            if not apart < MOST_APART:
                raise SystemExit(f"{name}: residuals are {apart:.0e} of their size apart")


if __name__ == "__main__":
    main()
