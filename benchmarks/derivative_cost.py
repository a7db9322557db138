"""What `higher_order_grad` costs beside nested `torch.autograd.grad`, which checks nothing.

The n-th derivative of a network with one input, forward pass included, CPU time, in turns.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from leafgrad import higher_order_grad

ROUNDS = 15
BATCHES = (256, 4096)
ORDERS = (1, 2, 3, 4)


def network(width: int = 64, depth: int = 5) -> nn.Sequential:
    """Make a perceptron with `depth` hidden layers."""
    layers: list[nn.Module] = [nn.Linear(1, width), nn.Tanh()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def nested(outputs: Tensor, inputs: Tensor, order: int) -> Tensor:
    """Differentiate `order` times, as one does by hand."""
    for _ in range(order):
        (outputs,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
    return outputs


def milliseconds(derivative: Callable[[Tensor, Tensor, int], Tensor], rows: int, n: int) -> float:
    """Time one forward pass and its n-th derivative."""
    inputs = torch.linspace(-1, 1, rows).unsqueeze(1).requires_grad_()
    start = time.process_time()
    derivative(MODEL(inputs), inputs, n)
    return 1e3 * (time.process_time() - start)


def main() -> None:
    """Print the medians and their ratio."""
    print("rows  order     nested  higher_order_grad  ratio")
    for rows in BATCHES:
        for n in ORDERS:
            rounds = [
                [milliseconds(way, rows, n) for way in (nested, higher_order_grad)]
                for _ in range(ROUNDS)
            ]
            plain, ours = (statistics.median(column) for column in zip(*rounds, strict=True))
            print(f"{rows:4}  {n:5}  {plain:6.1f} ms  {ours:14.1f} ms  {ours / plain:5.2f}")


torch.manual_seed(0)
torch.set_num_threads(1)
MODEL = network()

if __name__ == "__main__":
    main()
