"""Leaves that get a gradient but are not in the names: what no optimizer of the module would step.

Where a module holds them as an attribute that it does not register, the attribute is named.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.nn import Module, Parameter

from leafgrad._explain.origin import origin_of
from leafgrad._record.module_paths import Roots, join


def unregistered(leaves: Sequence[Tensor], modules: Roots) -> dict[int, tuple[str | None, str]]:
    """Return for leaves without a name, by their places, the path of each and what to do.

    Of leaves that are no parameters, such as inputs, those count that a module holds.
    """
    if not (modules and leaves):
        return {}
    held = {id(leaf): (path, cure) for leaf, path, cure in _held(modules)}
    found: dict[int, tuple[str | None, str]] = {}
    for place, leaf in enumerate(leaves):
        if id(leaf) in held:
            found[place] = held[id(leaf)]
        elif isinstance(leaf, Parameter):
            found[place] = None, UNKNOWN
    return found


def _held(modules: Roots) -> Iterator[tuple[Tensor, str, str]]:
    """Yield each leaf that a module holds without registering it, its path and what hides it."""
    for name, root in modules.items():
        for path, module in root.named_modules():
            for key, value in vars(module).items():
                if key not in _OWN:
                    yield from _in_value(value, join(join(name, path), key))


_OWN = vars(Module()).keys()


def _in_value(value: object, path: str) -> Iterator[tuple[Tensor, str, str]]:
    if isinstance(value, Tensor):
        origin = origin_of(value)
        leaf = value if origin is None else origin.leaf
        made = f"{path}, which was made of it" if origin else path
        yield leaf, made, PARAMETER
    yield from _in_container(value, path, MAX_DEPTH)


def _in_container(value: object, path: str, depth: int) -> Iterator[tuple[Tensor, str, str]]:
    """Yield what is in a list or dict, and in those within it, a few levels deep."""
    for key, item in _items(value):
        inner = f"{path}[{key!r}]"
        if isinstance(item, Module):
            for name, parameter in item.named_parameters():
                yield parameter, f"{inner}.{name}", MODULES
        elif isinstance(item, Tensor):
            yield item, inner, PARAMETERS
        elif depth > 1:
            yield from _in_container(item, inner, depth - 1)


MAX_DEPTH = 3


def _items(value: object) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)


MODULES = (
    "Put modules in an nn.ModuleList or nn.ModuleDict, not in a list or dict, so that "
    "parameters() and an optimizer see what is in them."
)
PARAMETERS = (
    "Put parameters in an nn.ParameterList or nn.ParameterDict, not in a list or dict, so that "
    "parameters() and an optimizer see them."
)
PARAMETER = (
    "Assign the nn.Parameter itself to the attribute, made of the final values, as in "
    "self.scale = nn.Parameter(0.1 * torch.ones(2)), and compute with it in forward()."
)
UNKNOWN = (
    "If they belong to the model, register them: as attributes, in an nn.ModuleList or in an "
    "nn.ParameterList. If they belong to another model, such as a discriminator or a teacher, call "
    "requires_grad_(False) on them before the forward pass; gradients still pass through."
)
