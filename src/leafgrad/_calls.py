"""Which line calls PyTorch, which numbers the nodes get, and what is written in place."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from types import (
    BuiltinFunctionType,
    FrameType,
    FunctionType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from leafgrad import _autograd
from leafgrad._log import Log, place_of, source_at
from leafgrad._traced import Write

Versions = list[tuple[Tensor, int | None]]

_ATTRIBUTE = type(Tensor.shape.__get__)  # type: ignore[attr-defined]


class WatchedCalls(TorchFunctionMode):
    """Sees each call that this thread makes of a PyTorch function, and writes a log of them."""

    def __init__(self, log: Log) -> None:
        """Write into `log`."""
        super().__init__()
        self.log = log
        self.writers: dict[object, bool] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Let the call go on as it is, and note what came of it.

        This is most of what a recording costs, so it takes the short way where it can.
        """
        if type(func) is _ATTRIBUTE:
            return func(*args)
        before = _versions(args, kwargs) if self._may_write(func, kwargs) else None
        start = _autograd.next_sequence_nr()
        result = func(*args, **kwargs) if kwargs else func(*args)
        stop = _autograd.next_sequence_nr()
        if stop != self.log.numbered:
            self.log.note_nodes(start, stop, inspect.currentframe())
        if before is not None:
            self._note_writes(func, before, inspect.currentframe())
        return result

    def _may_write(self, func: Any, kwargs: Mapping[str, Any] | None) -> Any:
        """Say whether a call may write into its arguments."""
        if func not in self.writers:
            self.writers[func] = may_write(func)
        return self.writers[func] or (kwargs and (kwargs.get("inplace") or "out" in kwargs))

    def _note_writes(self, func: Any, before: Versions, frame: FrameType | None) -> None:
        with _autograd.unobserved():
            for storage, write in _writes(func, before, frame):
                self.log.writes.append((storage, write))


def may_write(func: Any) -> bool:
    """Say whether a function may write into its arguments without being told to by a keyword.

    An operator that PyTorch has no function of its own for may do anything.
    """
    name = func.__name__
    if name.endswith("_") and not name.endswith("__"):
        return True
    if isinstance(func, FunctionType):
        return "max_norm" in func.__code__.co_varnames  # an embedding that keeps its norms small
    is_writing_operator = name == "__setitem__" or name.startswith("__i")
    return is_writing_operator or not isinstance(func, _PYTORCHS_OWN)


_PYTORCHS_OWN = BuiltinFunctionType | MethodDescriptorType | WrapperDescriptorType


def _versions(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Versions:
    with _autograd.unobserved():
        return [(tensor, _autograd.version(tensor)) for tensor in tensors_in(args, kwargs)]


def tensors_in(args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Iterator[Tensor]:
    """Yield the tensors among the arguments of a call, also those in lists."""
    for argument in (*args, *(kwargs or {}).values()):
        if isinstance(argument, Tensor):
            yield argument
        elif isinstance(argument, list | tuple):
            yield from (item for item in argument if isinstance(item, Tensor))


def _writes(func: Any, before: Versions, frame: FrameType | None) -> Iterator[tuple[int, Write]]:
    """Find what a call wrote into, each piece of memory once."""
    seen: set[int] = set()
    for tensor, version in before:
        match version, _autograd.version(tensor), _autograd.storage(tensor):
            case int(earlier), int(later), (int(storage), _) if later > earlier:
                if storage not in seen:
                    yield (
                        storage,
                        Write(
                            operation=func.__name__,
                            version_before=earlier,
                            version_after=later,
                            through_view=_autograd.is_view(tensor),
                            source=source_at(place_of(frame)),
                        ),
                    )
                seen.add(storage)
