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

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from leafgrad import _autograd
from leafgrad._log import Log, place_of, source_at
from leafgrad._traced import Source, Write

Versions = list[tuple[Tensor, int | None]]

_ATTRIBUTE = type(Tensor.shape.__get__)  # type: ignore[attr-defined]


class WatchedCalls(TorchFunctionMode):
    """Sees each call that this thread makes of a PyTorch function, and writes a log of them."""

    def __init__(self, log: Log) -> None:
        """Write into `log`."""
        super().__init__()
        self.log = log
        self.touched = log.losses.touched
        self.writers: dict[object, bool] = {}
        self.is_outermost = _autograd.function_modes() == 0

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Let the call go on as it is, and note what came of it.

        This is most of what a recording costs, so it takes the short way where it can.
        """
        writes = self.writers.get(func)
        if writes is None:
            writes = self.writers[func] = may_write(func)
        if writes or (kwargs and (kwargs.get("inplace") or "out" in kwargs)):
            return self._call_that_may_write(func, args, kwargs)
        start = _autograd.next_sequence_nr()
        result = func(*args, **kwargs) if kwargs else func(*args)
        stop = _autograd.next_sequence_nr()
        if stop != self.log.numbered:
            self._note_nodes(start, stop, func, args, kwargs)
        if not self._is_unharmed(result):
            self._note_losses(func, args, kwargs, result)
        return result

    def _note_nodes(
        self,
        start: int,
        stop: int,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
    ) -> None:
        """Note which numbers the nodes of a call got."""
        self.log.note_nodes(start, stop, inspect.currentframe())
        if kwargs and func in _BACKWARDS and kwargs["create_graph"]:
            self._note_pass(start, stop, args[0])

    def _call_that_may_write(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None
    ) -> Any:
        before = _versions(args, kwargs)
        if name_of(func) == "detach_":
            self._note_losses(func, args, kwargs, args)
        start = _autograd.next_sequence_nr()
        result = func(*args, **(kwargs or {}))
        self._note_nodes(start, _autograd.next_sequence_nr(), func, args, kwargs)
        self._note_writes(func, before, inspect.currentframe())
        made = args[0] if result is None and before and args else result
        if not self._is_unharmed(made):
            self._note_losses(func, args, kwargs, made)
        return result

    def _is_unharmed(self, result: Any) -> bool:
        """Say whether it is clear at a glance that the result has not lost a graph.

        To ask a tensor shows the question to other modes and to subclasses, so they are not asked.
        """
        if type(result) is Tensor:
            return self.is_outermost and result.requires_grad and not self.touched
        if type(result) is tuple and result:
            return all(map(self._is_unharmed, result))
        return result is None or type(result) in _NO_TENSORS

    def _note_losses(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, result: Any
    ) -> None:
        inputs, outputs = [*tensors_in(args, kwargs)], [*tensors_in((result,))]
        with _autograd.unobserved():
            self.log.losses.follow(name_of(func), inputs, outputs, _current_source)
            self.log.trim()

    def _note_pass(self, start: int, stop: int, outputs: Any) -> None:
        with _autograd.unobserved():
            self.log.passes.note(start, stop, outputs)

    def _note_writes(self, func: Any, before: Versions, frame: FrameType | None) -> None:
        with _autograd.unobserved():
            for storage, write in _writes(func, before, frame):
                self.log.writes.append((storage, write))
            self.log.trim()


def _current_source() -> Source | None:
    return source_at(place_of(inspect.currentframe()))


_BACKWARDS = {torch.autograd.grad, torch.autograd.backward, Tensor.backward}
_NO_TENSORS = {torch.Size, bool, int, torch.dtype, torch.device, torch.layout}


def name_of(func: Any) -> str:
    """Name a function; an attribute that is read has a dot before it.

    What stands in for a function, such as a partial one, may have the name of its type alone.
    """
    if type(func) is _ATTRIBUTE:
        return f".{func.__self__.__name__}"
    name: str = getattr(func, "__name__", type(func).__name__)
    return name


def may_write(func: Any) -> bool:
    """Say whether a function may write into its arguments without being told to by a keyword.

    An operator that PyTorch has no function of its own for may do anything.
    """
    if type(func) is _ATTRIBUTE:
        return False
    name = name_of(func)
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
                            operation=name_of(func),
                            version_before=earlier,
                            version_after=later,
                            through_view=_autograd.is_view(tensor),
                            source=source_at(place_of(frame)),
                        ),
                    )
                seen.add(storage)
