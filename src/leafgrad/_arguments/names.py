"""Read the tensors, modules and names in a `names` argument."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from leafgrad import _autograd
from leafgrad._messages import message

# The values are tensors or modules. Some type checkers would infer `object` for a mix of both.
Names = torch.nn.Module | Mapping[str, Any] | torch.optim.Optimizer | None


def read_names(names: Names) -> torch.nn.Module | Mapping[str, Any] | None:
    """Return the argument `names` as a module, a mapping or None.

    An optimizer becomes a mapping. Parameters without names are called
    ``param_groups[0].params[0]`` and so on.
    """
    if isinstance(names, torch.optim.Optimizer):
        return dict(_of_optimizer(names))
    if names is None or isinstance(names, torch.nn.Module | Mapping):
        return names
    raise TypeError(message("errors.names.type", type=type(names).__name__))


def _of_optimizer(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the name and tensor of each parameter of an optimizer."""
    for number, group in enumerate(optimizer.param_groups):
        places = [
            f"param_groups[{number}].params[{place}]" for place in range(len(group["params"]))
        ]
        yield from zip(group.get("param_names", places), group["params"], strict=True)


def named_modules(names: object) -> dict[str, torch.nn.Module]:
    """Return the modules among `names` by path; a single module has the empty path."""
    if isinstance(names, torch.nn.Module):
        return {"": names}
    items = names.items() if isinstance(names, Mapping) else ()
    return {name: module for name, module in items if isinstance(module, torch.nn.Module)}


def named_tensors(names: object) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the name and tensor of every tensor in `names`, and of all parameters and buffers.

    A parameter that modules share is yielded once for each of its paths. Views that PyTorch cannot
    place in the graph are left out.
    """
    for name, tensor in _names_and_tensors(names):
        if not isinstance(name, str):
            raise TypeError(message("errors.names.key", type=type(name).__name__))
        if not isinstance(tensor, torch.Tensor):
            kind = type(tensor).__name__
            raise TypeError(message("errors.names.tensor", name=name, type=kind))
        if not _autograd.is_invalid_view(tensor):
            yield name, tensor


def _names_and_tensors(names: object) -> Iterator[tuple[object, object]]:
    """Yield the keys and values of `names`, without checking their types.

    A module is replaced by its parameters and buffers.
    """
    match names:
        case None:
            pass
        case torch.nn.Module():
            yield from _of_module(names)
        case Mapping():
            for name, named in names.items():
                if isinstance(name, str) and isinstance(named, torch.nn.Module):
                    inside = _names_and_tensors(named)
                    yield from ((f"{name}.{path}", tensor) for path, tensor in inside)
                else:
                    yield name, named


def _of_module(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return the parameters and buffers of a module, each with every one of its names.

    Each has only one name in the result if the module contains itself, or if it overrides
    `named_parameters()` or `named_buffers()` without the argument `remove_duplicate`.
    """
    listings = module.named_parameters, module.named_buffers
    try:
        return [pair for listing in listings for pair in listing(remove_duplicate=False)]
    except (RecursionError, TypeError):
        return [pair for listing in listings for pair in listing()]


def buffers_in(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield the buffers of a module, even if its own `named_buffers()` accepts no arguments."""
    yield from (buffer for _, buffer in module.named_buffers())
