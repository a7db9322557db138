"""What each method costs, and how close the default is to the better of Taylor mode and reverse.

Forward pass, derivative and backward pass to the parameters: milliseconds of CPU time, medians of
turns; then how many times as long as the better of nested calls and Taylor mode `auto` takes, the
median over turns.
"""

import argparse
import statistics
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, get_args

import torch
from architectures import ACTIVATIONS, ARCHITECTURES, Perceptron
from in_turns import Turns, Way, take_turns
from torch import Tensor, nn

from leafgrad import higher_order_grad, laplacian

Method = Literal["taylor", "reverse", "auto"]
METHODS: tuple[Method, ...] = get_args(Method)
COLUMNS = ["nested", *METHODS]
ORDERS = [1, 2, 3, 4]


def nested(order: int) -> Way:
    """Differentiate each channel `order` times in the first column, as one does by hand."""

    def in_all_channels(model: nn.Module, inputs: Tensor) -> Tensor:
        found = []
        for channel in model(inputs).unbind(-1):
            derivative = channel
            for _ in range(order):
                (slopes,) = torch.autograd.grad(derivative.sum(), inputs, create_graph=True)
                derivative = slopes[:, 0]
            found.append(derivative)
        return torch.stack(found, -1) if len(found) > 1 else found[0]

    return in_all_channels


def nested_laplacian(model: nn.Module, inputs: Tensor) -> Tensor:
    """Add up the second derivatives column by column, as one does by hand."""
    (gradient,) = torch.autograd.grad(model(inputs).sum(), inputs, create_graph=True)
    seconds = [
        torch.autograd.grad(gradient[:, c].sum(), inputs, create_graph=True)[0][:, c]
        for c in range(inputs.shape[1])
    ]
    return torch.stack(seconds).sum(0)


def ways_to_derive(order: int) -> dict[str, Way]:
    """Give the ways to a derivative."""

    def ours(method: Method) -> Way:
        return lambda model, x: higher_order_grad(model(x), x, (order, 0), method=method)

    return {"nested": nested(order), **{method: ours(method) for method in METHODS}}


def ways_to_laplacian() -> dict[str, Way]:
    """Give the ways to a Laplacian."""

    def ours(method: Method) -> Way:
        return lambda model, x: laplacian(model(x), x, method=method)

    return {"nested": nested_laplacian, **{method: ours(method) for method in METHODS}}


def compare(name: str, model: nn.Module, inputs: Tensor, ways: dict[str, Way], rounds: int) -> None:
    """Print one line of the table."""
    turns = take_turns(model, inputs, answering(model, inputs, ways), rounds)
    cells = "".join(
        f"{statistics.median(turns[way]):9.2f}" if way in turns else f"{'-':>9}" for way in COLUMNS
    )
    print(f"{name:34}{cells} |{ratio(turns, ['nested', 'taylor']):9.2f}", flush=True)


def answering(model: nn.Module, inputs: Tensor, ways: dict[str, Way]) -> dict[str, Way]:
    """Return the ways that have an answer that can be trained on."""
    found = {}
    for name, way in ways.items():
        with suppress(RuntimeError):
            way(model, inputs)
            found[name] = way
    return found


def ratio(turns: Turns, others: Sequence[str]) -> float:
    """Return how many times the better of some ways the default takes, the median over turns."""
    present = [way for way in others if way in turns]
    best = min(present, key=lambda way: statistics.median(turns[way]))
    return statistics.median(ours / b for ours, b in zip(turns["auto"], turns[best], strict=True))


def main() -> None:
    """Print a line for each network and order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", type=int, nargs="*", default=[256, 4096])
    parser.add_argument("--only", nargs="*", help="names of networks")
    parser.add_argument("--orders", type=int, nargs="*", default=ORDERS)
    parser.add_argument("--dims", type=int, nargs="*", default=[2, 3, 10])
    parser.add_argument("--small", action="store_true", help="few rounds, up to order 2")
    options = parser.parse_args()
    if options.small:
        options.rounds, options.orders, options.dims = 7, [1, 2], [2]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"{'':34}{''.join(f'{way:>9}' for way in COLUMNS)} |{'auto':>9}")
    for rows in options.rows:
        for name, activation in ACTIVATIONS.items():
            if options.only and name not in options.only:
                continue
            for order in options.orders:
                inputs = (torch.rand(rows, 2) * 2 - 1).requires_grad_()
                model, ways = Perceptron(activation), ways_to_derive(order)
                compare(f"{name}, {rows} rows, order {order}", model, inputs, ways, options.rounds)
            for columns in options.dims:
                inputs = (torch.rand(rows, columns) * 2 - 1).requires_grad_()
                model, ways = Perceptron(activation, columns), ways_to_laplacian()
                label = f"{name}, {rows} rows, Laplacian {columns}"
                compare(label, model, inputs, ways, options.rounds)
        for name, make in ARCHITECTURES.items():
            if options.only and name not in options.only:
                continue
            for order in [order for order in options.orders if order < max(ORDERS)]:
                inputs = (torch.rand(rows, 2) * 2 - 1).requires_grad_()
                label = f"{name}, {rows} rows, order {order}"
                compare(label, make(), inputs, ways_to_derive(order), options.rounds)


if __name__ == "__main__":
    main()
