"""What `record` costs: a forward pass of a 12-layer transformer with and without it, in turns.

The limits, 1.15 for lines and modules and 1.05 for modules alone, are meant for PyTorch's own
layers at the larger size, where an operation has some work to do. The others show what is left of
that where operations are small. Hooks on all modules and a ``TorchFunctionMode`` that do nothing
are the floor: what PyTorch takes to tell of a module and of a call at all.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.overrides import TorchFunctionMode

from leafgrad import record
from tests.models import Block

ROUNDS = 41


class Nothing(TorchFunctionMode):
    """Lets every call go on as it is."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call the function."""
        return func(*args, **(kwargs or {}))


@contextmanager
def idle_hooks() -> Iterator[None]:
    """Let each module tell that it begins and ends."""
    begin = register_module_forward_pre_hook(lambda *_: None)
    end = register_module_forward_hook(lambda *_: None, always_call=True)
    try:
        yield
    finally:
        begin.remove()
        end.remove()


@contextmanager
def idle_hooks_and_mode() -> Iterator[None]:
    """Let each call tell of itself as well."""
    with idle_hooks(), Nothing():
        yield


WAYS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "plain": nullcontext,
    "modules only": lambda: record(lines=False),
    "  hooks that do nothing": idle_hooks,
    "lines and modules": record,
    "  hooks and a mode, idle": idle_hooks_and_mode,
    "plain again": nullcontext,
}


def transformer(width: int) -> nn.Module:
    """Stack 12 of PyTorch's own layers."""
    layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True)
    return nn.TransformerEncoder(layer, num_layers=12, enable_nested_tensor=False)


def blocks(width: int) -> nn.Module:
    """Stack 12 layers that are written out in a user's file."""
    return nn.Sequential(*(Block(width) for _ in range(12)))


MODELS = {
    "small": (transformer, (2, 64, 128)),
    "larger": (transformer, (4, 128, 256)),
    "small, written out": (blocks, (2, 64, 128)),
}


def seconds(work: Callable[[], object], way: Callable[[], AbstractContextManager[object]]) -> float:
    """Measure the CPU time of one run."""
    start = time.process_time()
    with way():
        work()
    return time.process_time() - start


def main() -> None:
    """Print the median of the ratios to the plain run of the same round."""
    torch.set_num_threads(1)
    for size, (make, (batch, steps, width)) in MODELS.items():
        model, x = make(width), torch.ones(batch, steps, width)
        rounds = [[seconds(lambda: model(x), way) for way in WAYS.values()] for _ in range(ROUNDS)]  # noqa: B023
        shape = f"{size}: batch {batch}, {steps} steps, width {width}"
        print(f"{shape}, {1e3 * statistics.median(plain for plain, *_ in rounds):.1f} ms plain")
        for way, runs in zip(WAYS, zip(*rounds, strict=True), strict=True):
            ratios = [run / plain for run, (plain, *_) in zip(runs, rounds, strict=True)]
            print(f"  {way:24} {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
