"""The modules of a graph as values, and which contain which."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedModule:
    """A module that nodes of a trace belong to, or that such a module stands in.

    Attributes:
        path: Its path, as in ``named_modules()``, where the outermost has an empty one.
        class_name: The name of its class.
        has_forward: Whether it can be called; a `torch.nn.ModuleList` only holds others.
        parameters: How many parameters it and the modules within it have; None where a recording
            knows of the module, but it was gone when the graph was read.
        frozen: How many of these do not require a gradient.
        frozen_numbers: How many numbers are in the frozen ones, as far as their sizes are known.
        settings: What a module of PyTorch shows of itself, such as ``"p=0.1, inplace=False"``.
    """

    path: str
    class_name: str
    has_forward: bool
    parameters: int | None = None
    frozen: int | None = None
    frozen_numbers: int | None = None
    settings: str = ""


def outwards(path: str | None) -> Iterator[str]:
    """Yield the paths of the modules around a module, the outermost first, then its own."""
    return accumulate(path.split(".") if path else (), "{}.{}".format)


class ModuleLevels:
    """Which modules contain which, without containers that are never called."""

    def __init__(self, modules: Sequence[TracedModule]) -> None:
        """Use these modules; if there are none, each part of a path counts as a module."""
        self.called = {module.path for module in modules if module.has_forward}
        self.is_known = bool(modules)

    def chain(self, path: str | None) -> list[str]:
        """Return the callable modules on the way to a path, the outermost first."""
        return [one for one in outwards(path) if one in self.called or not self.is_known]
