"""The tensors and modules in a `names` argument."""

from collections.abc import Iterable, Iterator, Mapping
from inspect import Parameter, signature
from typing import Any

import torch

from leafgrad import _autograd
from leafgrad._messages import message

Named = torch.Tensor | torch.nn.Module
Names = (
    torch.nn.Module
    | Mapping[str, Any]  # tensors and modules, of which some type checkers make objects
    | Iterable[tuple[str, Any]]
    | torch.optim.Optimizer
    | None
)


def read_names(names: Names) -> torch.nn.Module | Mapping[str, Named] | None:
    """Return names as a module or a mapping, which can be read more than once."""
    if names is None or isinstance(names, torch.nn.Module | Mapping):
        return names
    if isinstance(names, torch.optim.Optimizer):
        return dict(_of_optimizer(names))
    given: Any = names
    pairs: list[Any] = [*given] if isinstance(given, Iterable) else [None]
    if not all(isinstance(one, tuple) and len(one) == _PAIR for one in pairs):
        raise TypeError(
            "names must be a module, an optimizer, a mapping from name to tensor, or pairs of "
            f"both, not {type(given).__name__}; pass the model, or name tensors as in "
            "names={'x': x}"
        )
    if not pairs and isinstance(given, Iterator):
        raise ValueError(message("errors.used-up"))
    found: dict[str, Named] = {}
    for name, named in pairs:
        if isinstance(name, str) and found.setdefault(name, named) is not named:
            raise ValueError(
                f"names must be unique, but {name!r} comes twice; give each model a name, as in "
                "names={'encoder': encoder, 'decoder': decoder}"
            )
    return found if len(found) == len(pairs) else dict(pairs)


_PAIR = 2


def _of_optimizer(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield its parameters, by the names that it was given or else by their places."""
    for number, group in enumerate(optimizer.param_groups):
        places = [
            f"param_groups[{number}].params[{place}]" for place in range(len(group["params"]))
        ]
        yield from zip(group.get("param_names", places), group["params"], strict=True)


def named_modules(names: object) -> dict[str, torch.nn.Module]:
    """Return the modules among names by path, which is empty for a single module."""
    if isinstance(names, torch.nn.Module):
        return {"": names}
    items = names.items() if isinstance(names, Mapping) else ()
    return {name: module for name, module in items if isinstance(module, torch.nn.Module)}


def named_tensors(names: object) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the named tensors; those in modules by all their paths.

    A view that PyTorch refuses to place in a graph has no use for a name, and is left out.
    """
    for name, tensor in _names_and_tensors(names):
        if not isinstance(name, str):
            raise TypeError(
                f"the keys of names must be strings, not {type(name).__name__}; "
                "name tensors as in names={'x': x}"
            )
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"names[{name!r}] must be a tensor, not {type(tensor).__name__}; "
                "a mapping leads from name to tensor, as in names={'x': x}, or to a module"
            )
        if not _autograd.is_invalid_view(tensor):
            yield name, tensor


def _names_and_tensors(names: object) -> Iterator[tuple[object, object]]:
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
    """Return parameters and buffers by all names, or by one each if a module contains itself."""
    try:
        return _listed(module, remove_duplicate=False)
    except RecursionError:
        return _listed(module, remove_duplicate=True)


def _listed(module: torch.nn.Module, *, remove_duplicate: bool) -> list[tuple[str, torch.Tensor]]:
    """Return parameters and buffers, also where an override of the method has the old signature."""
    found: list[tuple[str, torch.Tensor]] = []
    for listing in (module.named_parameters, module.named_buffers):
        accepted = signature(listing).parameters
        is_old = "remove_duplicate" not in accepted and all(
            one.kind is not Parameter.VAR_KEYWORD for one in accepted.values()
        )
        found += listing() if is_old else listing(remove_duplicate=remove_duplicate)
    return found


def buffers_in(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield the buffers of a module, whatever arguments the method takes that lists them."""
    yield from (buffer for _, buffer in module.named_buffers())
