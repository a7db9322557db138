"""Measure the cost of `debug`: recorded training steps, later steps, and memory.

Each ratio is the CPU time of a step divided by that of the same step without `debug`.
"""

import resource
import statistics
import time
import timeit
import tracemalloc
from collections.abc import Callable

import torch
from torch import Tensor, nn

from leafgrad import debug
from tests.models import Block

TURNS = 60
Step = Callable[[], None]


def step_of(model: nn.Module, loss: Callable[[], Tensor]) -> Step:
    """Return a function that takes one step of training."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def small_gpt() -> Step:
    """Return a training step of a GPT with four blocks of width 128, on 4 texts of 64 tokens."""
    blocks = (Block(128) for _ in range(4))
    model = nn.Sequential(nn.Embedding(256, 128), *blocks, nn.Linear(128, 256))
    tokens = torch.randint(0, 256, (4, 64))
    return step_of(
        model,
        lambda: nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()),
    )


def pinn() -> Step:
    """Return a training step of a PINN for the heat equation at 1,000 points."""
    widths = (nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    model, points = nn.Sequential(*widths), torch.rand(1000, 2, requires_grad=True)

    def loss() -> Tensor:
        u = model(points)
        (du,) = torch.autograd.grad(u.sum(), points, create_graph=True)
        (ddu,) = torch.autograd.grad(du[:, 0].sum(), points, create_graph=True)
        return (du[:, 1] - 0.1 * ddu[:, 0]).square().mean()

    return step_of(model, loss)


def seconds(step: Step) -> float:
    """Run one training step and return its CPU time in seconds."""
    return timeit.timeit(step, time.process_time, number=1)


def print_ratios(name: str, step: Step) -> None:
    """Print the ratios of recorded steps (see the module), and the median ratio of later steps."""
    plain = statistics.median(seconds(step) for _ in range(9))
    with debug():
        recorded = [seconds(step) / plain for _ in range(3)]
    after = []
    for _ in range(TURNS):
        before = seconds(step) + seconds(step)
        with debug(first=10**9):  # With this, nothing is recorded, as after the first steps.
            after.append((seconds(step) + seconds(step)) / before)
    shown = ", ".join(f"{ratio:.1f}" for ratio in recorded)
    print(f"{name}: recorded steps {shown}; later steps {statistics.median(after):.3f}")


def print_memory(steps: int) -> None:
    """Print the memory of Python objects and of the process, halfway and at the end.

    `steps` is the number of training steps.
    """
    model = nn.Linear(8, 1)
    step = step_of(model, lambda: model(torch.ones(4, 8)).square().mean())
    tracemalloc.start()
    with debug():
        for half in (1, 2):
            for _ in range(steps // 2):
                step()
            traced = tracemalloc.get_traced_memory()[0] / 1e6
            megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            print(f"after {half * steps // 2} steps: {traced:.2f} MB, process {megabytes:.0f} MB")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print_ratios("small GPT", small_gpt())
    print_ratios("PINN", pinn())
    print_memory(10_000)
