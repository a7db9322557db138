"""Compare leafgrad's time and memory with the better of two alternatives.

The CPU milliseconds are those of a training step (forward pass, derivatives, backward pass to the
parameters), or of an evaluation without `create_graph`. leafgrad is compared with nested calls of
`torch.autograd.grad`, which share intermediate results, and with `method="taylor"`; in some cases
also with `torch.func` and DeepXDE. All take turns in one process; figures are medians. A ratio is
leafgrad's time divided by that of the better of nested calls and Taylor mode: above 1, leafgrad is
slower.

    OMP_NUM_THREADS=1 python benchmarks/worth_it.py --write benchmarks/worth_it.json
"""

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from architectures import ARCHITECTURES
from in_turns import Way, deepxde, peak, take_turns
from torch import Tensor, nn
from torch.func import functional_call, hessian, vmap

from leafgrad import hessian as our_hessian
from leafgrad import higher_order_grad, laplacian

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "SiLU": nn.functional.silu,
    "sine": torch.sin,
}
LIMIT = 1.15
Sizes = tuple[int, int, int]  # points, layers, width


class Network(nn.Module):
    """A perceptron whose hidden layers have the same width."""

    def __init__(self, columns: int, layers: int, width: int, activation: str) -> None:
        super().__init__()
        sizes = [columns, *[width] * layers, 1]
        self.layers = nn.ModuleList(map(nn.Linear, sizes, sizes[1:]))
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        """Return one output channel for each row."""
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        result: Tensor = self.layers[-1](x)
        return result


class Attention(nn.Module):
    """A network that treats the columns of a row as tokens that attend to one another."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(1, width), nn.Linear(width, 1)
        self.mixes = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Return one output channel for each row."""
        x = self.enter(x.unsqueeze(-1))
        for mix in self.mixes:
            q, k, v = mix(x).chunk(3, -1)
            x = x + torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
        result: Tensor = self.leave(x.tanh().mean(1))
        return result


class Cell(NamedTuple):
    """One case of the grid: `what` is an order in one column, "laplacian" or "hessian"."""

    model: str
    points: int
    layers: int
    width: int
    what: int | str
    columns: int = 1
    is_apart: bool = False  # whether each column is a separate tensor
    trains: bool = True

    def make(self) -> tuple[nn.Module, Tensor]:
        """Return the model and its points, the same for each way."""
        torch.manual_seed(0)
        x = torch.rand(self.points, self.columns)
        if self.model in ACTIVATIONS:
            return Network(self.columns, self.layers, self.width, self.model), x
        return (Attention() if self.model == "attention" else ARCHITECTURES[self.model]()), x

    def way(self, take: Callable[..., Tensor]) -> Way:
        """Return a training step or evaluation that computes the derivatives with `take`."""

        def run(model: nn.Module, points: Tensor) -> Tensor | None:
            parts = [part.clone().requires_grad_() for part in points.split(1, 1)]
            whole = points.clone().requires_grad_()
            u = model(torch.cat(parts, 1) if self.is_apart else whole)
            found = take(self, model, u, parts if self.is_apart else [whole])
            return found + u if self.trains else None

        return run


def ours(**options: Any) -> Callable[..., Tensor]:
    """Return a function that computes a cell's derivatives with leafgrad and these options."""

    def take(cell: Cell, _: nn.Module, u: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        given: Any = inputs[0] if len(inputs) == 1 else inputs
        settings = {"create_graph": cell.trains, **options}
        if cell.what == "laplacian":
            total: Tensor = laplacian(u, given, **settings)
            return total
        if cell.what == "hessian":
            return our_hessian(u[:, 0], given, **settings).sum((1, 2)).unsqueeze(1)
        order: Any = (cell.what, *[0] * (cell.columns - 1))
        derivative: Tensor = higher_order_grad(u, given, order, **settings)
        return derivative

    return take


def nested(cell: Cell, _: nn.Module, u: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """Return a cell's derivatives by nested `torch.autograd.grad`.

    The last call creates no graph if the cell does not train.
    """

    def grads(v: Tensor, wanted: Sequence[Tensor], *, is_last: bool) -> Sequence[Tensor]:
        is_recorded = cell.trains or not is_last
        return torch.autograd.grad(v.sum(), wanted, create_graph=is_recorded, retain_graph=True)

    if isinstance(cell.what, int):
        for order in range(cell.what):
            is_last = order + 1 == cell.what
            u = grads(u, inputs[:1], is_last=is_last)[0][:, :1]
        return u
    first = torch.cat([*grads(u, inputs, is_last=False)], 1)
    total = torch.zeros_like(u)
    for column in range(cell.columns):
        wanted = inputs if cell.what == "hessian" or len(inputs) == 1 else [inputs[column]]
        row = torch.cat([*grads(first[:, column], wanted, is_last=True)], 1)
        is_whole = cell.what == "hessian" or len(inputs) > 1
        total = total + (row.sum(1) if is_whole else row[:, column]).unsqueeze(1)
    return total


def by_func(cell: Cell, model: nn.Module, u: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """Return the sum of the second derivatives of each row, by `vmap` of `torch.func.hessian`.

    For a `cell` other than a Hessian, leave out the mixed derivatives.
    """
    weights: dict[str, Tensor] = dict(model.named_parameters())
    x = torch.cat([*inputs], 1)

    def of_row(row: Tensor) -> Tensor:
        result: Tensor = functional_call(model, weights, (row[None],))[0, 0]
        return result

    rows = vmap(hessian(of_row))(x)
    is_whole = cell.what == "hessian"
    total: Tensor = rows.sum((1, 2)) if is_whole else rows.diagonal(0, 1, 2).sum(1)
    return total.reshape(u.shape)


def by_deepxde(cell: Cell, _: nn.Module, u: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """Return the Laplacian as the sum of DeepXDE's second derivatives.

    `cell` is the case that is measured.
    """
    pairs = [(i, i) for i in range(cell.columns)]
    return sum((deepxde.grad.hessian(u, inputs[0], i=i, j=j) for i, j in pairs), 0 * u)


def cells(*, is_quick: bool) -> list[Cell]:
    """Return all cells of the grid, or a few if `is_quick`."""
    sizes: list[Sizes] = [(20, 2, 20), (50, 3, 20), (200, 3, 20), (200, 4, 64), (1000, 4, 64)]
    cases: list[tuple[int | str, int]] = [(1, 1), (2, 1), (3, 1), (4, 1)]
    cases += [("laplacian", 2), ("laplacian", 3)]
    grid = [Cell(a, *size, what, n) for what, n in cases for a in ACTIVATIONS for size in sizes]
    large: list[Sizes] = [(1000, 5, 128), (4096, 4, 64)]
    grid += [Cell("tanh", *size, what, n) for what, n in cases[1:5:3] for size in large]
    few = sizes[:2] + sizes[4:5]
    grid += [Cell("tanh", *size, w, 2, is_apart=True) for w in (1, 2, "laplacian") for size in few]
    grid += [Cell("tanh", *size, w, n, trains=False) for w, n in cases[1:5] for size in few]
    names = "KAN", "FastKAN", "DeepONet", "attention"
    grid += [Cell(n, points, 0, 0, w, 2) for n in names for points in (64, 512) for w in (1, 2)]
    grid += [Cell("tanh", 256, 3, 64, "hessian", n) for n in (2, 4, 6, 10)]
    if is_quick:
        return [Cell("tanh", 20, 2, 20, 2), Cell("tanh", 20, 2, 20, "laplacian", 2, is_apart=True)]
    return grid


def measure(cell: Cell, rounds: int, *, with_peers: bool, with_memory: bool) -> dict[str, Any]:
    """Return one cell's median milliseconds, peak megabytes and ratio."""
    model, points = cell.make()
    ways = {"leafgrad": cell.way(ours()), "nested": cell.way(nested)}
    ways["taylor"] = cell.way(ours(method="taylor"))
    if with_peers and cell.what in ("laplacian", "hessian", 2) and cell.columns > 1:
        ways["torch.func"] = cell.way(by_func)
    is_theirs = cell.what == "laplacian" and not cell.is_apart and cell.trains
    if with_peers and deepxde is not None and is_theirs:
        ways["DeepXDE"] = cell.way(by_deepxde)
    turns = take_turns(model, points, ways, rounds)
    times = {name: statistics.median(taken) for name, taken in turns.items()}
    memory = {name: peak(model, points, way) for name, way in ways.items()} if with_memory else {}
    ratio = times["leafgrad"] / min(times["nested"], times["taylor"])
    return {**cell._asdict(), "times": times, "memory": memory, "ratio": ratio}


def main() -> None:
    """Measure the grid twice, and print both ratios of each cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--every", type=int, default=1, help="take only every EVERY-th cell")
    parser.add_argument("--write", help="a file for the results")
    given = parser.parse_args()
    torch.set_num_threads(1)
    grid, runs = cells(is_quick=given.quick)[:: given.every], 1 if given.quick else 2
    found: list[list[dict[str, Any]]] = [[] for _ in grid]
    for run in range(runs):
        for cell, results in zip(grid, found, strict=True):
            options = {"with_peers": run == 0, "with_memory": run == 0}
            results.append(measure(cell, 2 if given.quick else given.rounds, **options))
            times = "  ".join(f"{name} {ms:.2f}" for name, ms in results[-1]["times"].items())
            print(f"{results[-1]['ratio']:.2f}  {cell}  {times}", flush=True)
    both = [min(result["ratio"] for result in results) for results in found]
    print(f"median {statistics.median(both):.2f}, {sum(r > LIMIT for r in both)} above {LIMIT}")
    if given.write:
        rows = [{**one[0], "ratios": [each["ratio"] for each in one]} for one in found]
        about = {"torch": torch.__version__, "rounds": given.rounds, "every": given.every}
        text = json.dumps({**about, "cells": rows}, indent=1)
        Path(given.write).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
