"""Replay only the operator calls of a training step, as a floor for its time.

The calls are recorded once and then repeated from Python. Tensors are freed as early as in the
training step. Any time that the step takes beyond that is spent in its Python code. A call from
Python takes about a microsecond longer than one from PyTorch's backward pass. So another sequence
of operators may be faster than this floor if the step is small.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from in_turns import Way, step
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only


class Place(int):
    """The number of a tensor that an earlier call returned."""


class Call(NamedTuple):
    """An operator call; a `Place` stands for each tensor that an earlier call returned."""

    operator: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    are_placed: bool  # whether an argument contains a `Place`
    results: list[int]
    last: list[int]  # tensors to free: no later call reads them


class Tape(TorchDispatchMode):
    """Records each operator call with its arguments and results."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, operator: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the operator and record the call."""
        result = operator(*args, **(kwargs or {}))
        self.calls.append((operator, args, kwargs or {}, result))
        return result

    def program(self) -> list[Call]:
        """Return the recorded calls, with a `Place` for each tensor that one of them returned."""
        places: dict[int, int] = {}
        last: dict[int, int] = {}
        found: list[Call] = []

        def placed(tensor: Tensor) -> Any:
            place = places.get(id(tensor))
            if place is None:
                return tensor
            last[place] = len(found)
            return Place(place)

        for operator, args, kwargs, result in self.calls:
            arguments, options = tree_map_only(Tensor, placed, (args, kwargs))
            made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
            results = [places.setdefault(id(tensor), len(places)) for tensor in made]
            last |= dict.fromkeys(results, len(found))
            are_placed = any(isinstance(leaf, Place) for leaf in tree_leaves((arguments, options)))
            found.append(Call(operator, arguments, options, are_placed, results, []))
        for place, number in last.items():
            found[number].last.append(place)
        return found


def replay(model: nn.Module, inputs: Tensor, way: Way) -> Way:
    """Run one training step; return a way (a function to time) that repeats its operator calls."""
    # leafgrad uses other kernels if a mode intercepts its operators, so hide this mode from it.
    with patch("leafgrad._autograd.is_intercepted", lambda: False), Tape() as tape:
        step(model, inputs, way)
    program = tape.program()

    def calls_alone(_: nn.Module, __: Tensor) -> None:
        tensors: dict[int, Any] = {}
        with torch.no_grad():
            for call in program:
                arguments, options = call.arguments, call.options
                if call.are_placed:
                    arguments = tuple([_filled(one, tensors) for one in arguments])
                    options = {name: _filled(one, tensors) for name, one in options.items()}
                result = call.operator(*arguments, **options)
                if call.results:
                    made = (result,) if isinstance(result, Tensor) else tree_leaves(result)
                    tensors.update(zip(call.results, made, strict=False))
                for place in call.last:
                    tensors.pop(place, None)

    return calls_alone


def _filled(argument: Any, tensors: dict[int, Any]) -> Any:
    """Return an argument of a recorded call, with each `Place` replaced by a tensor.

    `tensors` maps the places to the tensors that the earlier calls of this replay returned.
    """
    if isinstance(argument, Place):
        return tensors[argument]
    if isinstance(argument, list | tuple):
        return [_filled(one, tensors) for one in argument]
    return argument
