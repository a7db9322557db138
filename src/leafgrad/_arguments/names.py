"""The tensors and modules in a `names` argument."""

from collections.abc import Iterator, Mapping

import torch

from leafgrad import _autograd


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
        case _:
            raise TypeError(
                "names must be a module or a mapping from name to tensor, not "
                f"{type(names).__name__}; pass the model, or name tensors as in names={{'x': x}}"
            )


def _of_module(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return parameters and buffers by all names, or by one each if a module contains itself."""
    try:
        return _listed(module, remove_duplicate=False)
    except RecursionError:
        return _listed(module, remove_duplicate=True)


def _listed(module: torch.nn.Module, *, remove_duplicate: bool) -> list[tuple[str, torch.Tensor]]:
    parameters = module.named_parameters(remove_duplicate=remove_duplicate)
    return [*parameters, *module.named_buffers(remove_duplicate=remove_duplicate)]
