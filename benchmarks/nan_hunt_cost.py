"""Measure the cost of searching for NaN in each training step, relative to a plain step.

PyTorch's ``detect_anomaly`` checks only gradients for NaN. ``record(values=True)`` summarizes the
values of the forward pass, which `diagnose` needs. `diagnose` is called only for a step that went
wrong: the last column of ratios includes this one call.
"""

import statistics
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from leafgrad import diagnose, record
from tests.models import Block

ROUNDS = 21


def perceptron() -> tuple[nn.Module, Tensor]:
    """Return a network of eight wide layers and its input."""
    layers = [layer for _ in range(8) for layer in (nn.Linear(512, 512), nn.Tanh())]
    return nn.Sequential(*layers), torch.randn(256, 512)


def small_perceptron() -> tuple[nn.Module, Tensor]:
    """Return a network of very cheap operations and its input."""
    layers = [layer for _ in range(8) for layer in (nn.Linear(32, 32), nn.Tanh())]
    return nn.Sequential(*layers), torch.randn(32, 32)


def transformer() -> tuple[nn.Module, Tensor]:
    """Return a network of 12 hand-written transformer blocks and its input."""
    return nn.Sequential(*(Block(128) for _ in range(12))), torch.randn(4, 64, 128)


MODELS = {"8 x 512": perceptron, "8 x 32": small_perceptron, "12 blocks of 128": transformer}


def plain(model: nn.Module, batch: Tensor) -> None:
    """Run forward and backward."""
    model(batch).square().mean().backward()


def anomaly(model: nn.Module, batch: Tensor) -> None:
    """Run forward and backward under `torch.autograd.detect_anomaly`."""
    with torch.autograd.detect_anomaly(check_nan=True):
        model(batch).square().mean().backward()


def recorded(model: nn.Module, batch: Tensor) -> None:
    """Run forward and backward under `record(values=True)`."""
    with record(values=True):
        loss = model(batch).square().mean()
    loss.backward()


def hunted(model: nn.Module, batch: Tensor) -> None:
    """Run a recorded step, then `diagnose` a NaN."""
    with record(values=True) as recording:
        loss = model(batch).square().mean()
    diagnose(loss, model, recording=recording, gradients=True)
    loss.backward()


WAYS: dict[str, Callable[[nn.Module, Tensor], None]] = {
    "plain": plain,
    "detect_anomaly": anomaly,
    "record(values=True)": recorded,
    "with diagnose": hunted,
}


def seconds(way: Callable[[nn.Module, Tensor], None], model: nn.Module, batch: Tensor) -> float:
    """Run one training step and return its CPU time in seconds.

    `way` runs the step.
    """
    start = time.process_time()
    way(model, batch)
    return time.process_time() - start


def main() -> None:
    """Print the median ratios of each way to the plain step of the same round."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Anomaly Detection")
    print(f"{'':18}" + "".join(f"{name:>21}" for name in [*WAYS][1:]))
    for name, make in MODELS.items():
        model, batch = make()
        rounds = [[seconds(way, model, batch) for way in WAYS.values()] for _ in range(ROUNDS)]
        ratios = [
            statistics.median(run[place] / run[0] for run in rounds)
            for place in range(1, len(WAYS))
        ]
        print(f"{name:18}" + "".join(f"{ratio:21.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
