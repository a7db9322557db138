"""What `record` costs: a forward pass of a 12-layer transformer with and without it, in turns."""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from leafgrad import record

ROUNDS = 41
WAYS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "plain": nullcontext,
    "modules only": lambda: record(lines=False),
    "lines and modules": record,
    "plain again": nullcontext,
}
SIZES = {"small": (2, 64, 128), "larger": (4, 128, 256)}


def transformer(width: int) -> nn.Module:
    """Stack 12 of PyTorch's own layers."""
    layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True)
    return nn.TransformerEncoder(layer, num_layers=12, enable_nested_tensor=False)


def seconds(work: Callable[[], object], way: Callable[[], AbstractContextManager[object]]) -> float:
    """Measure the CPU time of one run."""
    start = time.process_time()
    with way():
        work()
    return time.process_time() - start


def main() -> None:
    """Print the median of the ratios to the plain run of the same round."""
    torch.set_num_threads(1)
    for size, (batch, steps, width) in SIZES.items():
        model, x = transformer(width), torch.ones(batch, steps, width)
        rounds = [[seconds(lambda: model(x), way) for way in WAYS.values()] for _ in range(ROUNDS)]  # noqa: B023
        shape = f"{size}: batch {batch}, {steps} steps, width {width}"
        print(f"{shape}, {1e3 * statistics.median(plain for plain, *_ in rounds):.1f} ms plain")
        for way, runs in zip(WAYS, zip(*rounds, strict=True), strict=True):
            ratios = [run / plain for run, (plain, *_) in zip(runs, rounds, strict=True)]
            print(f"  {way:18} {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
