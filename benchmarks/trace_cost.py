"""What `trace_graph` costs: CPU time on a chain and on a small GPT, beside a bare walk."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from leafgrad import trace_graph

ROUNDS = 7


def chain(steps: int) -> torch.Tensor:
    """Apply one operation after another."""
    x = torch.ones(1, requires_grad=True)
    for _ in range(steps):
        x = x.sin()
    return x


class Block(nn.Module):
    """A transformer block: attention and a perceptron, each with a skip."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attend = nn.MultiheadAttention(width, num_heads=4, batch_first=True)
        layers = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.perceptron = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Keep the shape, (batch, time, width)."""
        y = self.norms[0](x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        x = x + self.perceptron(self.norms[1](x))
        return x  # noqa: RET504 (a module's call has no type)


def gpt(layers: int = 12, width: int = 64) -> torch.Tensor:
    """Give the loss of a stack of blocks."""
    result: torch.Tensor = nn.Sequential(*(Block(width) for _ in range(layers)))(
        torch.ones(2, 16, width)
    )
    return result.mean()


def bare_walk(y: Any) -> int:
    """Count the nodes, which is the least that any reader of a graph does."""
    seen = {y.grad_fn}
    ahead = [y.grad_fn]
    while ahead:
        for node, _ in ahead.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                ahead.append(node)
    return len(seen)


def milliseconds(work: Callable[[], object]) -> float:
    """Measure the median CPU time of a few rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    """Print a line a graph."""
    torch.set_num_threads(1)
    graphs = {
        "12-layer GPT": gpt(),
        "chain of 1,000": chain(1_000),
        "chain of 100,000": chain(100_000),
    }
    print(f"{'':16} {'nodes':>7} {'bare walk':>12} {'trace_graph':>12}")
    for name, y in graphs.items():
        trace_graph(y)  # guards the deep one for the bare walk
        walk = milliseconds(lambda y=y: bare_walk(y))  # type: ignore[misc]
        trace = milliseconds(lambda y=y: trace_graph(y))  # type: ignore[misc]
        print(f"{name:16} {bare_walk(y):7} {walk:9.1f} ms {trace:9.1f} ms")


if __name__ == "__main__":
    main()
