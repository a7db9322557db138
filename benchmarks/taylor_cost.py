"""What derivatives and Laplacians by Taylor mode cost beside nested `torch.autograd.grad`.

Forward pass, derivative and backward pass to the parameters, CPU time, in turns, medians; and the
peak of the memory that PyTorch's tensors take, which `torch.profiler` counts.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from leafgrad import higher_order_grad, laplacian

Derivative = Callable[[Tensor, Tensor], Tensor]
LARGE = 20_000  # rows times order, or columns, from where three rounds must do


def network(columns: int, width: int, depth: int) -> nn.Sequential:
    """Make a tanh perceptron with `depth` hidden layers."""
    layers: list[nn.Module] = [nn.Linear(columns, width), nn.Tanh()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def nested(order: int) -> Derivative:
    """Differentiate `order` times, as one does by hand."""

    def derivative(outputs: Tensor, inputs: Tensor) -> Tensor:
        for _ in range(order):
            (outputs,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
        return outputs

    return derivative


def nested_laplacian(outputs: Tensor, inputs: Tensor) -> Tensor:
    """Add up the second derivatives column by column, as one does by hand."""
    (gradient,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
    columns = range(inputs.shape[1])
    seconds = [
        torch.autograd.grad(gradient[:, c].sum(), inputs, create_graph=True)[0][:, c : c + 1]
        for c in columns
    ]
    return torch.stack(seconds).sum(0)


def step(model: nn.Module, inputs: Tensor, derivative: Derivative) -> None:
    """Do what a step of training does, but for the update of the parameters."""
    derivative(model(inputs), inputs).square().mean().backward()
    model.zero_grad()


def milliseconds(model: nn.Module, inputs: Tensor, derivative: Derivative) -> float:
    """Time one step."""
    start = time.process_time()
    step(model, inputs, derivative)
    return 1e3 * (time.process_time() - start)


def peak(model: nn.Module, inputs: Tensor, derivative: Derivative) -> float:
    """Count the most megabytes that are allocated at a time in one step."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step(model, inputs, derivative)
    now = most = 0
    for event in sorted(profiler.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most / 1e6


def compare(
    name: str, model: nn.Module, inputs: Tensor, ways: tuple[Derivative, Derivative], rounds: int
) -> None:
    """Print one line of the table."""
    for way in ways:
        step(model, inputs, way)
    times = [[milliseconds(model, inputs, way) for way in ways] for _ in range(rounds)]
    theirs, ours = (statistics.median(column) for column in zip(*times, strict=True))
    their_peak, our_peak = (peak(model, inputs, way) for way in ways)
    print(
        f"{name:34} {theirs:9.1f} {ours:9.1f} {theirs / ours:7.2f}   "
        f"{their_peak:8.1f} {our_peak:8.1f} {their_peak / our_peak:7.2f}",
        flush=True,
    )


def main() -> None:
    """Print time and memory of each way, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--orders", type=int, nargs="*", default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--rows", type=int, nargs="*", default=[256, 4096])
    parser.add_argument("--dims", type=int, nargs="*", default=[2, 10, 50])
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"{'':34} {'nested':>9} {'leafgrad':>9} {'ratio':>7}   {'nested':>8} {'leafgrad':>8}")
    for rows in options.rows:
        for depth, width in ((5, 64), (3, 128)):
            model = network(1, width, depth)
            inputs = torch.linspace(-1, 1, rows).unsqueeze(1).requires_grad_()
            for order in options.orders:
                ways = nested(order), lambda u, x, n=order: higher_order_grad(u, x, n)
                rounds = options.rounds if order * rows < LARGE else 3
                compare(f"{depth}x{width} rows {rows} order {order}", model, inputs, ways, rounds)
        for columns in options.dims:
            model = network(columns, 64, 5)
            inputs = torch.rand(rows, columns, requires_grad=True)
            rounds = options.rounds if columns * rows < LARGE else 3
            name = f"5x64 rows {rows} Laplacian {columns}"
            compare(name, model, inputs, (nested_laplacian, laplacian), rounds)


if __name__ == "__main__":
    main()
