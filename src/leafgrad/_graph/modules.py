"""The modules of a traced graph, as values, and which of them contain others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedModule:
    """A module that nodes of a trace belong to, or that contains such a module.

    Attributes:
        path: The path of the module, as in ``named_modules()``. Empty for the outermost module.
        class_name: The name of its class.
        has_forward: Whether the module can be called. A `torch.nn.ModuleList` cannot, because it
            only contains other modules.
        parameters: The number of parameters in the module and its submodules. None if the module
            was deleted before the graph was read.
        frozen: The number of parameters that do not require grad.
        frozen_numbers: The number of elements of these parameters, as far as their sizes are known.
        settings: The settings that a PyTorch module prints, such as ``"p=0.1, inplace=False"``.
    """

    path: str
    class_name: str
    has_forward: bool
    parameters: int | None = None
    frozen: int | None = None
    frozen_numbers: int | None = None
    settings: str = ""


def outwards(path: str | None) -> Iterator[str]:
    """Yield the paths of the modules around a module from the outermost inwards, then its own.

    `path` is the path of the module; None, for no module, yields nothing.
    """
    return accumulate(path.split(".") if path else (), "{}.{}".format)


class ModuleLevels:
    """The nesting of modules, without containers that are never called."""

    def __init__(self, modules: Sequence[TracedModule]) -> None:
        """Store the modules. Without any, each part of a path counts as a module."""
        self.called = {module.path for module in modules if module.has_forward}
        self.is_known = bool(modules)

    def chain(self, path: str | None) -> list[str]:
        """Return the paths of the callable modules around a path, the outermost first.

        The list is empty if `path` is None, because the node is in no module.
        """
        return [one for one in outwards(path) if one in self.called or not self.is_known]
