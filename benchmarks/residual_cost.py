"""What residuals of equations cost in one call of `higher_order_grad`, line by line, and nested.

Nested calls keep each gradient for the next line that asks for a column of it, as DeepXDE does.

Forward pass, residual and backward pass to the parameters: milliseconds of CPU time, and how
many times leafgrad's, medians of turns; then the peak of megabytes that tensors take.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from in_turns import Way, deepxde, heading, network, peak, per_row, take_turns
from torch import Tensor, nn

from leafgrad import higher_order_grad

MultiIndex = tuple[int, ...]
Partial = Callable[..., Tensor]  # of a channel and the counts of a multi-index, none for itself


@dataclass(frozen=True, kw_only=True)
class Equation:
    """An equation of some columns for some channels, and the derivatives that it is made of."""

    columns: int
    channels: int
    orders: list[MultiIndex]
    residual: Callable[[Partial], Tensor]


def navier_stokes(d: Partial) -> Tensor:
    """Momentum and mass in the columns x, y, t and the channels u, v, p."""
    u, v = d(0), d(1)

    def momentum(c: int, slope: Tensor) -> Tensor:
        carried = d(c, 0, 0, 1) + u * d(c, 1, 0, 0) + v * d(c, 0, 1, 0)
        return carried + slope - 0.01 * (d(c, 2, 0, 0) + d(c, 0, 2, 0))

    mass = d(0, 1, 0, 0) + d(1, 0, 1, 0)
    return torch.cat([momentum(0, d(2, 1, 0, 0)), momentum(1, d(2, 0, 1, 0)), mass], 1)


def elasticity(d: Partial) -> Tensor:
    """Forces of a displacement in three dimensions."""

    def twice(one: int, two: int) -> MultiIndex:
        return tuple((n == one) + (n == two) for n in range(3))

    def force(c: int) -> Tensor:
        bulk = d(0, *twice(0, c)) + d(1, *twice(1, c)) + d(2, *twice(2, c))
        shear = d(c, *twice(0, 0)) + d(c, *twice(1, 1)) + d(c, *twice(2, 2))
        return 1.5 * bulk + 0.5 * shear

    return torch.cat([force(c) for c in range(3)], 1)


EQUATIONS = {
    "Burgers": Equation(
        columns=2,
        channels=1,
        orders=[(0, 1), (1, 0), (2, 0)],
        residual=lambda d: d(0, 0, 1) + d(0) * d(0, 1, 0) - 0.01 * d(0, 2, 0),
    ),
    "Korteweg-de Vries": Equation(
        columns=2,
        channels=1,
        orders=[(0, 1), (1, 0), (3, 0)],
        residual=lambda d: d(0, 0, 1) + 6 * d(0) * d(0, 1, 0) + d(0, 3, 0),
    ),
    "Navier-Stokes 2-D": Equation(
        columns=3,
        channels=3,
        orders=[(0, 0, 1), (1, 0, 0), (0, 1, 0), (2, 0, 0), (0, 2, 0)],
        residual=navier_stokes,
    ),
    "elasticity 3-D": Equation(
        columns=3,
        channels=3,
        orders=[(2, 0, 0), (0, 2, 0), (0, 0, 2), (1, 1, 0), (1, 0, 1), (0, 1, 1)],
        residual=elasticity,
    ),
    "Kuramoto-Sivashinsky": Equation(
        columns=2,
        channels=1,
        orders=[(0, 1), (1, 0), (2, 0), (4, 0)],
        residual=lambda d: d(0, 0, 1) + d(0) * d(0, 1, 0) + d(0, 2, 0) + d(0, 4, 0),
    ),
    "Kirchhoff plate": Equation(
        columns=2,
        channels=1,
        orders=[(4, 0), (2, 2), (0, 4)],
        residual=lambda d: d(0, 4, 0) + 2 * d(0, 2, 2) + d(0, 0, 4),
    ),
}


def in_one_call(equation: Equation) -> Way:
    """Ask for all derivatives at once."""

    def way(model: nn.Module, inputs: Tensor) -> Tensor:
        outputs = model(inputs)
        found = higher_order_grad(outputs, inputs, equation.orders)
        known = dict(zip(equation.orders, found, strict=True))
        return equation.residual(
            lambda channel, *index: (known[index] if index else outputs)[:, channel : channel + 1]
        )

    return way


def line_by_line(equation: Equation) -> Way:
    """Ask for one derivative of one channel after the other, for none twice."""

    def way(model: nn.Module, inputs: Tensor) -> Tensor:
        outputs = model(inputs)

        @cache
        def partial(channel: int, *index: int) -> Tensor:
            column = outputs[:, channel : channel + 1]
            return higher_order_grad(column, inputs, index) if index else column

        return equation.residual(partial)

    return way


def nested(equation: Equation) -> Way:
    """Take gradients of columns of gradients, none of them twice."""

    def way(model: nn.Module, inputs: Tensor) -> Tensor:
        outputs = model(inputs)

        @cache
        def column(channel: int, *columns: int) -> Tensor:
            if not columns:
                part: Tensor = outputs[:, channel : channel + 1]
                return part
            return gradient(channel, *columns[:-1])[:, columns[-1] : columns[-1] + 1]

        @cache
        def gradient(channel: int, *columns: int) -> Tensor:
            total = column(channel, *columns).sum()
            return torch.autograd.grad(total, inputs, create_graph=True)[0]

        def partial(channel: int, *index: int) -> Tensor:
            counts = enumerate(index)
            return column(channel, *[place for place, count in counts for _ in range(count)])

        return equation.residual(partial)

    return way


def by_deepxde(equation: Equation) -> Way:
    """Take Jacobians and Hessians, and those of these, as DeepXDE's own examples do."""

    def way(model: nn.Module, inputs: Tensor) -> Tensor:
        outputs: Tensor = model(inputs)

        def partial(channel: int, *index: int) -> Tensor:
            columns = [column for column, count in enumerate(index) for _ in range(count)]
            result: Tensor = outputs
            component = channel
            while len(columns) > 1:
                i, j, *columns = columns
                result = deepxde.grad.hessian(result, inputs, component=component, i=i, j=j)
                component = 0
            if columns:
                result = deepxde.grad.jacobian(result, inputs, i=component, j=columns[0])
                component = 0
            return result[:, component : component + 1]

        return equation.residual(partial)

    return way


def main() -> None:
    """Print a line for each equation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--rows", type=int, nargs="*", default=[256, 4096])
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    peers = {} if deepxde is None else {"deepxde": by_deepxde}
    ways_to = {**peers, "nested": nested, "lines": line_by_line, "leafgrad": in_one_call}
    print(f"{'5x64':32}{heading([*ways_to])} || MB {heading([*ways_to])}")
    for rows in options.rows:
        for name, equation in EQUATIONS.items():
            model = network(equation.columns, 64, 5, equation.channels)
            inputs = torch.rand(rows, equation.columns, requires_grad=True)
            ways = {way: make(equation) for way, make in ways_to.items()}
            results = [way(model, inputs) for way in ways.values()]
            for result in results[1:]:
                torch.testing.assert_close(result, results[0], rtol=1e-3, atol=1e-4)
            turns = take_turns(model, inputs, ways, options.rounds)
            peaks = {way: [peak(model, inputs, ways[way])] for way in ways}
            label = f"{name}, rows {rows}"
            print(f"{label:32}{per_row(turns)} || MB {per_row(peaks)}", flush=True)


if __name__ == "__main__":
    main()
