"""What derivatives and Laplacians by Taylor mode cost beside other ways to take them.

Forward pass, derivative and backward pass to the parameters: milliseconds of CPU time, and how
many times leafgrad's, medians of turns; then the peak of megabytes that tensors take. After the
orders of a network, how many times more each takes than the one before.
"""

import argparse
import statistics
from itertools import pairwise

import torch
from in_turns import Way, deepxde, floor, heading, network, peak, per_row, take_turns
from torch import Tensor, nn

from leafgrad import higher_order_grad, laplacian

LARGE = 20_000  # rows times order, or columns, from where five rounds must do
SLOW = 6  # the order from where torch.func and DeepXDE are left out
HEAVY = 3_000_000  # rows times 3 to the order, from where nested reverse mode is left out
SHAPES = ["5x64", "3x128"]  # hidden layers and their width


def nested(order: int) -> Way:
    """Differentiate `order` times, as one does by hand."""

    def derivative(model: nn.Module, inputs: Tensor) -> Tensor:
        outputs: Tensor = model(inputs)
        for _ in range(order):
            (outputs,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
        return outputs

    return derivative


def by_func(order: int) -> Way:
    """Nest `torch.func.grad`, and map it over the rows."""

    def derivative(model: nn.Module, inputs: Tensor) -> Tensor:
        def function(x: Tensor) -> Tensor:
            outputs: Tensor = model(x.reshape(1, 1))
            return outputs.squeeze()

        for _ in range(order):
            function = torch.func.grad(function)
        result: Tensor = torch.func.vmap(function)(inputs.squeeze(1))
        return result

    return derivative


def by_deepxde(order: int) -> Way:
    """Take Hessians of Hessians, as DeepXDE's own examples do, and one Jacobian if it is odd."""

    def derivative(model: nn.Module, inputs: Tensor) -> Tensor:
        outputs: Tensor = model(inputs)
        for _ in range(order // 2):
            outputs = deepxde.grad.hessian(outputs, inputs)
        return deepxde.grad.jacobian(outputs, inputs) if order % 2 else outputs

    return derivative


def nested_laplacian(model: nn.Module, inputs: Tensor) -> Tensor:
    """Add up the second derivatives column by column, as one does by hand."""
    (gradient,) = torch.autograd.grad(model(inputs).sum(), inputs, create_graph=True)
    seconds = [
        torch.autograd.grad(gradient[:, c].sum(), inputs, create_graph=True)[0][:, c : c + 1]
        for c in range(inputs.shape[1])
    ]
    return torch.stack(seconds).sum(0)


def laplacian_by_func(model: nn.Module, inputs: Tensor) -> Tensor:
    """Take the trace of the Hessian of each row."""

    def function(x: Tensor) -> Tensor:
        outputs: Tensor = model(x.unsqueeze(0))
        return outputs.squeeze()

    hessians: Tensor = torch.func.vmap(torch.func.hessian(function))(inputs)
    return hessians.diagonal(dim1=-2, dim2=-1).sum(-1)


def laplacian_by_deepxde(model: nn.Module, inputs: Tensor) -> Tensor:
    """Add up the Hessian's diagonal."""
    outputs = model(inputs)
    terms = (deepxde.grad.hessian(outputs, inputs, i=c, j=c) for c in range(inputs.shape[1]))
    total = next(terms)
    for term in terms:
        total = total + term
    result: Tensor = total
    return result


def ways_to_derive(order: int, rows: int) -> dict[str, Way]:
    """Give the ways to an order, and the least work: v x and y y forward, v g and y g backward."""
    ways = {"nested": nested(order)} if rows * 3**order < HEAVY else {}
    if order < SLOW:
        ways["func"] = by_func(order)
    if deepxde is not None and order < SLOW:
        ways["deepxde"] = by_deepxde(order)
    products = order * (order + 1) // 2
    ways["floor"] = floor(order, 2 * products + order * order // 4 + order)
    return ways | {"leafgrad": lambda model, x: higher_order_grad(model(x), x, order)}


def ways_to_laplacian(columns: int) -> dict[str, Way]:
    """Give the ways to a Laplacian, and the least work as for a derivative."""
    ways: dict[str, Way] = {"nested": nested_laplacian, "func": laplacian_by_func}
    if deepxde is not None:
        ways["deepxde"] = laplacian_by_deepxde
    ways["floor"] = floor(columns + 1, 5 * columns + 3)
    return ways | {"leafgrad": lambda model, x: laplacian(model(x), x)}


def compare(
    name: str, model: nn.Module, inputs: Tensor, ways: dict[str, Way], rounds: int
) -> float:
    """Print one line of the table, under its own heading as the ways differ; give our time."""
    turns = take_turns(model, inputs, ways, rounds)
    measured = [way for way in ways if way not in ("func", "floor")]
    peaks = {way: [peak(model, inputs, ways[way])] for way in measured}
    print(f"{'':28}{heading(turns)} || MB {heading(peaks)}")
    print(f"{name:28}{per_row(turns)} || MB {per_row(peaks)}", flush=True)
    return statistics.median(turns["leafgrad"])


def growth(times: dict[int, float]) -> str:
    """Tell how many times more an order takes than the one before, and so on average."""
    orders = sorted(times)
    steps = {f"{b}": (a, b) for a, b in pairwise(orders)} | {"average": (orders[0], orders[-1])}
    rates = {step: (times[b] / times[a]) ** (1 / max(b - a, 1)) for step, (a, b) in steps.items()}
    return "  ".join(f"{step}: {rate:.2f}" for step, rate in rates.items())


def main() -> None:
    """Print time and memory of each way, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--orders", type=int, nargs="*", default=[1, 2, 3, 4, 5, 6, 8])
    parser.add_argument("--shapes", nargs="*", default=SHAPES)
    parser.add_argument("--rows", type=int, nargs="*", default=[256, 4096])
    parser.add_argument("--dims", type=int, nargs="*", default=[2, 10, 50])
    parser.add_argument("--quick", action="store_true", help="one network and size, up to order 4")
    options = parser.parse_args()
    if options.quick:
        options.shapes, options.rows, options.dims = SHAPES[:1], [256], [2]
        options.orders = [1, 2, 3, 4]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for rows in options.rows:
        for shape in options.shapes:
            depth, width = map(int, shape.split("x"))
            model = network(1, width, depth)
            inputs = torch.linspace(-1, 1, rows).unsqueeze(1).requires_grad_()
            ours = {}
            for order in options.orders:
                rounds = options.rounds if order * rows < LARGE else min(5, options.rounds)
                name = f"{shape} rows {rows} order {order}"
                ours[order] = compare(name, model, inputs, ways_to_derive(order, rows), rounds)
            print(f"{'':28}growth per order  {growth(ours)}", flush=True)
        for columns in options.dims:
            model = network(columns, 64, 5)
            inputs = torch.rand(rows, columns, requires_grad=True)
            rounds = options.rounds if columns * rows < LARGE else min(5, options.rounds)
            name = f"5x64 rows {rows} Laplacian {columns}"
            compare(name, model, inputs, ways_to_laplacian(columns), rounds)


if __name__ == "__main__":
    main()
