"""The modules behind the nodes of a trace, read into values."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import torch
from torch.nn import Module

from leafgrad import _autograd
from leafgrad._graph.modules import TracedModule, outwards
from leafgrad._graph.nodes import TracedNode
from leafgrad._record.module_paths import ModuleCall, Roots, join

Parameters = Mapping[int, torch.Tensor]
"""Parameters by their identities, so that a tied one counts once."""


def traced_modules(
    nodes: Sequence[TracedNode], roots: Roots, calls: Mapping[str, ModuleCall]
) -> tuple[TracedModule, ...]:
    """Read the modules that nodes belong to and those around them, by what has a name or ran."""
    paths = {node.module for node in nodes if node.module is not None}
    wanted = {path for inner in paths for path in ("", *outwards(inner))}
    there: dict[str, Module] = {}
    for name, root in roots.items():
        for path, module in root.named_modules():
            there.setdefault(join(name, path), module)
    for path, call in calls.items():
        if path not in there and (called := call.module()) is not None:
            there |= {join(path, inner): module for inner, module in called.named_modules()}
    held = _parameters_within(there, wanted)
    gone = [path for path in calls if path in wanted and path not in there]
    return tuple(
        [_read(path, module, held[path]) for path, module in there.items() if path in wanted]
        + [_gone(path, calls[path].kind) for path in gone]
    )


def _parameters_within(modules: Mapping[str, Module], wanted: set[str]) -> Mapping[str, Parameters]:
    """Collect the parameters of each module that is wanted and of all within it."""
    held: dict[str, dict[int, torch.Tensor]] = {path: {} for path in wanted}
    for path, module in modules.items():
        registered = Module.named_parameters(module, recurse=False)  # however it is overridden
        if own := {id(parameter): parameter for _, parameter in registered}:
            for outer in ("", *outwards(path)):
                if outer in wanted:
                    held[outer].update(own)
    return held


def _read(path: str, module: Module, parameters: Parameters) -> TracedModule:
    frozen = [one for one in parameters.values() if not _autograd.plain(one, "requires_grad")]
    return TracedModule(
        path=path,
        class_name=type(module).__name__,
        has_forward=_has_forward(module),
        parameters=len(parameters),
        frozen=len(frozen),
        frozen_numbers=sum(_sizes(frozen)),
    )


def _has_forward(module: Module) -> bool:
    """Return whether a module can be called, which `Module` alone refuses."""
    if "forward" in vars(module):
        return True
    return next(kind for kind in type(module).__mro__ if "forward" in vars(kind)) is not Module


def _sizes(tensors: Sequence[torch.Tensor]) -> Iterator[int]:
    """Yield how many numbers are in each tensor whose sizes are numbers."""
    for tensor in tensors:
        sizes = _autograd.shape(tensor)
        if sizes is not None and all(isinstance(size, int) for size in sizes):
            yield prod(map(int, sizes))


def _gone(path: str, class_name: str) -> TracedModule:
    return TracedModule(
        path=path,
        class_name=class_name,
        has_forward=True,
        parameters=None,
        frozen=None,
        frozen_numbers=None,
    )
