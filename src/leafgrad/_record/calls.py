"""Which line calls PyTorch, which numbers the nodes get, and what is written in place."""

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
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
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

from leafgrad import _autograd
from leafgrad._graph.nodes import Write
from leafgrad._record.cut_tracker import LEAVING, Site, takes_shape
from leafgrad._record.leaf_uses import Use
from leafgrad._record.log import Log, Place, place_of, running_custom_function, source_at

Versions = list[tuple[Tensor, int | None]]

_ATTRIBUTE = type(Tensor.shape.__get__)  # type: ignore[attr-defined]


class WatchedCalls(TorchFunctionMode):
    """Sees each call that this thread makes of a PyTorch function, and writes a log of them."""

    def __init__(self, log: Log) -> None:
        """Write into `log`."""
        super().__init__()
        self.log = log
        self.touched = log.losses.touched
        self.shown = log.losses.shown
        self.used = log.uses.known
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
        if type(result) not in _NO_TENSORS:
            place = self.log.spans[-1][2] if start < stop else None
            self._note_uses(func, args, kwargs, result, place)
        if not self._is_unharmed(result) or (kwargs and "requires_grad" in kwargs):
            self._note_losses(func, args, kwargs, result)
        return result

    def _note_uses(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        result: Any,
        place: Place | None = None,
    ) -> None:
        """Note the leaves among the arguments that were not used before.

        Where the call made nodes, which is at `place`, a parameter takes the short way.
        """
        used, is_outermost = self.used, self.is_outermost
        first, use = args[0] if args else None, None
        for argument in (*args, *kwargs.values()) if kwargs else args:
            kind = type(argument)
            if kind in _NO_ARGUMENTS or argument is result:
                continue
            known = used.get(id(argument))
            if known is not None and known[0]() is argument:
                continue
            if kind in _PLAIN and is_outermost:
                if place and kind is Parameter and argument is not first and argument.requires_grad:
                    use = use or Use(name_of(func), place, required_grad=True)
                    if not takes_shape(use.operation, is_first=False):
                        self.log.uses.note(argument, use)
                    continue
                try:
                    is_leaf = argument.is_leaf
                except RuntimeError:  # an invalid view
                    continue
                if is_leaf:
                    self._note_use(func, args, argument, result)
            else:
                self._note_uses_in(func, args, argument, result)

    def _note_uses_in(self, func: Any, args: Sequence[Any], argument: Any, result: Any) -> None:
        """Note the leaves in a list or of a subclass; no other mode is shown the question."""
        for tensor in tensors_in((argument,)):
            with _autograd.unobserved():
                is_leaf = not self.log.uses.of(tensor) and _autograd.is_plain_leaf(tensor)
            if is_leaf and tensor is not result:
                self._note_use(func, args, tensor, result)

    def _note_use(self, func: Any, args: Sequence[Any], leaf: Tensor, result: Any) -> None:
        """Note where a leaf was used first, if it was, and what is known of its memory.

        What needs no gradient, where nothing is recorded, has none to lose.
        """
        name = name_of(func)
        with _autograd.unobserved():
            requires_grad = _autograd.plain(leaf, "requires_grad")
            if not (requires_grad or torch.is_grad_enabled()):
                return
            if not self._is_use(name, args, leaf, result):
                return
            place = place_of(inspect.currentframe())
            self.log.uses.note(leaf, Use(name, place, requires_grad))
            if type(leaf) is not Parameter:
                self.log.uses.note_memory(leaf)
                self.log.losses.look_up_memory(leaf)

    def _is_use(self, name: str, args: Sequence[Any], leaf: Tensor, result: Any) -> bool:
        """Say whether a call made something of a leaf's values."""
        if takes_shape(name, is_first=bool(args) and leaf is args[0]):
            return False
        if type(result) is Tensor or name in LEAVING:
            return True
        return any(one is not leaf for one in tensors_in((result,)))

    def note_parameter(self, data: Tensor, parameter: Tensor) -> None:
        """Note what a parameter is made of, which no mode is shown."""
        with _autograd.unobserved():
            self.log.losses.follow("Parameter", [data], [parameter], _site)

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
        goes_past_graph = self._goes_past_graph(func, made, before)
        if goes_past_graph or torch.is_grad_enabled():
            self._note_uses(func, args, kwargs, made)
        if goes_past_graph or not self._is_unharmed(made):
            self._note_losses(func, args, kwargs, made)
        return result

    def _goes_past_graph(self, func: Any, made: Any, before: Versions) -> bool:
        """Say whether a write may have changed a tensor with a graph without its graph."""
        is_recorded = torch.is_grad_enabled() and id(made) not in self.shown
        if len(before) < _TARGET_AND_SOURCE or (is_recorded and func != _SET_DATA):
            return False
        if self.is_outermost:
            return any(one.requires_grad and one is not made for one, _ in before)
        with _autograd.unobserved():
            return any(
                _autograd.plain(one, "requires_grad") for one, _ in before if one is not made
            )

    def _is_unharmed(self, result: Any) -> bool:
        """Say whether it is clear at a glance that the result has not lost a graph.

        To ask a tensor shows the question to other modes and to subclasses, so they are not asked.
        """
        if type(result) is Tensor:
            return self.is_outermost and result.requires_grad and not self.touched
        if type(result) is tuple and result:
            return all(map(self._is_unharmed, result))
        return type(result) in _NO_TENSORS

    def _note_losses(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, result: Any
    ) -> None:
        inputs, outputs = [*tensors_in(args, kwargs)], [*tensors_in((result,))]
        with _autograd.unobserved():
            self.log.losses.follow(name_of(func), inputs, outputs, _site)
            self.log.trim()

    def _note_pass(self, start: int, stop: int, outputs: Any) -> None:
        with _autograd.unobserved():
            self.log.passes.note(start, stop, outputs)

    def _note_writes(self, func: Any, before: Versions, frame: FrameType | None) -> None:
        with _autograd.unobserved():
            for storage, write in _writes(func, before, frame):
                self.log.writes.append((storage, write))
            self.log.trim()


def _site(name: str) -> Site:
    """Tell where a call stands; one within a custom function is that function's."""
    frame = inspect.currentframe()
    running = None if torch.is_grad_enabled() else running_custom_function(frame)
    if running is None:
        name = _SAMPLE if _is_sampling(frame) else name
        return Site(name, source_at(place_of(frame)), is_inside=False)
    function = running.f_locals.get("cls")
    name = getattr(function, "__name__", running.f_code.co_qualname.rpartition(".")[0])
    return Site(name, source_at(place_of(running.f_back)), is_inside=True)


_SAMPLE = "sample"


def _is_sampling(frame: FrameType | None) -> bool:
    """Say whether a distribution of PyTorch's is drawn from without a gradient."""
    while frame is not None and frame.f_code.co_filename.startswith(_OURS_AND_TORCHS):
        if frame.f_code.co_name == _SAMPLE and _DISTRIBUTIONS in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


_DISTRIBUTIONS = f"{os.sep}distributions{os.sep}"
_OURS_AND_TORCHS = tuple(
    f"{folder}{os.sep}"
    for folder in (PurePath(torch.__file__).parent, PurePath(__file__).parents[1])
)

_BACKWARDS = {torch.autograd.grad, torch.autograd.backward, Tensor.backward}
_NO_TENSORS = {type(None), torch.Size, bool, int, torch.dtype, torch.device, torch.layout}
_NO_ARGUMENTS = {*_NO_TENSORS, float, str, slice, torch.memory_format}
_PLAIN = {Tensor, Parameter}
_SET_DATA: Any = Tensor.data.__set__  # type: ignore[attr-defined]
_TARGET_AND_SOURCE = 2


def name_of(func: Any) -> str:
    """Name a function; an attribute has a dot before it, and one that is set an equals sign behind.

    What stands in for a function, such as a partial one, may have the name of its type alone.
    """
    if type(func) is _ATTRIBUTE:
        return f".{func.__self__.__name__}{' =' * (func.__name__ == '__set__')}"
    name: str = getattr(func, "__name__", type(func).__name__)
    return name


def may_write(func: Any) -> bool:
    """Say whether a function may write into its arguments without being told to by a keyword.

    An operator that PyTorch has no function of its own for may do anything.
    """
    name = name_of(func)
    if type(func) is _ATTRIBUTE:
        return name == ".data ="
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
    """Yield the tensors among the arguments of a call, also those in lists, a few levels deep."""
    level: list[Any] = [*args, *(kwargs or {}).values()]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for argument in level:
            if isinstance(argument, Tensor):
                yield argument
            elif isinstance(argument, list | tuple):
                below += (item for item in argument if isinstance(item, _HOLDING))
        if not below:
            return
        level = below


_HOLDING = (Tensor, list, tuple)
_DEEPEST = 5


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
