"""Measure alternatives in interleaved rounds: the CPU time and peak memory of a training step.

An alternative is called a way: a function that computes the result whose mean square is the loss.
"""

import importlib
import os
import statistics
import time
from collections.abc import Callable, Container, Mapping, Sequence
from operator import truediv
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only


def peer(name: str) -> Any:
    """Import and return another library; if it is not installed, print that and return None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed, so there is no column for it")
        return None


os.environ.setdefault("DDE_BACKEND", "pytorch")
deepxde = peer("deepxde")

Way = Callable[[nn.Module, Tensor], Tensor | None]
Turns = Mapping[str, Sequence[float]]  # CPU milliseconds of each way, by round
Launch = tuple[Any, tuple[Any, ...], dict[str, Any]]  # An operation with its args and kwargs.
PRODUCTS = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default}


def network(columns: int, width: int, depth: int, channels: int = 1) -> nn.Sequential:
    """Return a tanh perceptron with `depth` hidden layers."""
    layers: list[nn.Module] = [nn.Linear(columns, width), nn.Tanh()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, channels))


def step(model: nn.Module, inputs: Tensor, way: Way) -> None:
    """Run a training step without the optimizer's update.

    `way` computes the result of the model whose mean square is the loss.
    """
    result = way(model, inputs)
    if result is not None:
        result.square().mean().backward()
    model.zero_grad()
    if deepxde is not None:
        deepxde.gradients.clear()


def milliseconds(model: nn.Module, inputs: Tensor, way: Way) -> float:
    """Run one training step (see `step`) and return its CPU time in milliseconds."""
    start = time.process_time()
    step(model, inputs, way)
    return 1e3 * (time.process_time() - start)


def take_turns(model: nn.Module, inputs: Tensor, ways: Mapping[str, Way], rounds: int) -> Turns:
    """Return the CPU milliseconds of each way by round; a round runs all ways in random order.

    Each timed step follows an untimed step of the same way, so that it finds the caches as in
    training.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    shuffled = Random(0)
    for _ in range(rounds):
        for name in shuffled.sample([*ways], len(ways)):
            step(model, inputs, ways[name])
            times[name].append(milliseconds(model, inputs, ways[name]))
    return times


def peak(model: nn.Module, inputs: Tensor, way: Way) -> float:
    """Return the peak memory in megabytes that PyTorch's tensors use in one `step`."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step(model, inputs, way)
    now = most = 0
    for event in sorted(profiler.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most / 1e6


def floor(coefficients: int, products: int) -> Way:
    """Return a way that does only the work that any propagation of `coefficients` must do.

    This is the training step of the model itself, and the matrix products of this number of Taylor
    coefficients, forward and backward. Each hidden layer also adds up `products` products of two
    coefficients.
    """

    def work(model: nn.Module, inputs: Tensor) -> None:
        model(inputs).square().mean().backward()
        with torch.no_grad():
            for layer in model.modules():
                if isinstance(layer, nn.Linear):
                    carry(layer.weight, coefficients * len(inputs))
                    rows = torch.ones(2, len(inputs), layer.out_features).unbind(0)
                    for _ in range(products if layer.out_features > 1 else 0):
                        rows[0].addcmul_(rows[1], rows[1])

    return work


class _Launches(TorchDispatchMode):
    """Records all operations that run, except views."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[Launch] = []

    def __torch_dispatch__(
        self, function: Any, _: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not function.is_view:
            given = tree_map_only(Tensor, Tensor.detach, (args, kwargs or {}))
            self.found.append((function, *given))
        return function(*args, **kwargs or {})


def launches(run: Callable[[], object]) -> list[Launch]:
    """Call `run` and return its operations, except views, with their arguments."""
    noted = _Launches()
    with noted:
        run()
    return noted.found


def least(run: Callable[[], object], kinds: Container[Any]) -> Callable[[], None]:
    """Return a function that repeats only those operations of `run` that are in `kinds`.

    Sizes and strides stay the same.
    """
    found = [launch for launch in launches(run) if launch[0] in kinds]

    @torch.no_grad()
    def work() -> None:
        for function, args, kwargs in found:
            function(*args, **kwargs)

    return work


def carry(weight: Tensor, rows: int) -> None:
    """Compute the three matrix products of a linear layer: one forward and two backward.

    `weight` is the weight of the layer. The input is a batch of ones with `rows` rows.
    """
    inputs = weight.new_ones(rows, weight.shape[1])
    gradient = inputs @ weight.t()
    gradient @ weight
    gradient.t() @ inputs


def per_row(turns: Turns, ours: str = "leafgrad") -> str:
    """Return a table row: medians, then the ratio of each other way to `ours`.

    `turns` has the times or sizes of each way, one per round. Ratios are medians of the ratios
    within a round, because the machine's speed varies between rounds.
    """
    cells = [f"{statistics.median(taken):9.1f}" for taken in turns.values()]
    ratios = [
        f"{statistics.median(map(truediv, taken, turns[ours])):9.2f}"
        for name, taken in turns.items()
        if name != ours
    ]
    return "".join(cells) + " |" + "".join(ratios)


def heading(names: Mapping[str, object] | list[str], ours: str = "leafgrad") -> str:
    """Return the heading of a table whose rows `per_row` returns.

    It contains `names`, the names of all ways that are compared. After a bar, it repeats all of
    them except `ours`, for the ratios.
    """
    cells = [f"{name:>9}" for name in names]
    ratios = [f"{name:>9}" for name in names if name != ours]
    return "".join(cells) + " |" + "".join(ratios)
