"""A floor: the calls of PyTorch's operators that a training step makes, and nothing else.

They are written down once, and then made again one after the other from Python, on tensors that
are let go of as early as in the step. What the step takes beyond that is the Python around them. A
call takes about a microsecond more from Python than from PyTorch's own backward: this is a floor
for a sequence of operators, and a small step of another one may be below it.
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
    """The slot of a tensor that an earlier call returned."""


class Call(NamedTuple):
    """A call of an operator, with places for tensors that were made on the way."""

    operator: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    are_placed: bool  # whether a place is among the arguments
    results: list[int]
    last: list[int]  # places that no later call reads


class Tape(TorchDispatchMode):
    """Records each operator call with its arguments and results."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, operator: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the operator."""
        result = operator(*args, **(kwargs or {}))
        self.calls.append((operator, args, kwargs or {}, result))
        return result

    def program(self) -> list[Call]:
        """Return the calls, each tensor that one of them made in a place of its own."""
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
    """Return a way that makes the calls of one step again; a step was made before."""
    # leafgrad takes other kernels where a mode sees its operators, so it is not told of this one.
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
    """Replace slots by the tensors stored in them."""
    if isinstance(argument, Place):
        return tensors[argument]
    if isinstance(argument, list | tuple):
        return [_filled(one, tensors) for one in argument]
    return argument
