"""What each call of a PyTorch function did: its line, the numbers of its nodes, its writes."""

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

from leafgrad import _autograd
from leafgrad._graph.nodes import Source, Write
from leafgrad._record.cut import DERIVATIVE
from leafgrad._record.cut_tracker import LEAVING_PYTORCH, CallSite, takes_shape
from leafgrad._record.leaf_uses import LeafUse
from leafgrad._record.log import Log, Pass
from leafgrad._record.place import (
    Place,
    custom_function_frame,
    is_library_file,
    part_of,
    place_of,
)
from leafgrad._record.torch_functions import (
    COLLECTIVES,
    may_write,
    name_of,
    results_of_collective,
    tensors_in,
)

Versions = list[tuple[Tensor, int | None]]


class CallRecorder(TorchFunctionMode):
    """Sees each call that this thread makes of a PyTorch function, and writes a log of them."""

    def __init__(self, log: Log) -> None:
        """Write into `log`."""
        super().__init__()
        self.log = log
        self.cuts_by_tensor = log.cuts.cuts_by_tensor
        self.aliases = log.cuts.aliases
        self.uses_by_leaf = log.uses.by_leaf
        self.may_write: dict[object, bool] = {}
        self.is_outermost = _autograd.function_modes() == 0

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Let the call go on as it is, and note what came of it.

        This is most of what a recording costs, so it takes the short way where it can.
        """
        writes = self.may_write.get(func)
        if writes is None:
            writes = self.may_write[func] = may_write(func) or _is_watched(func)
        if writes or (kwargs and (kwargs.get("inplace") or "out" in kwargs)):
            return self._call_that_may_write(func, args, kwargs)
        start = _autograd.next_sequence_nr()
        result = func(*args, **kwargs) if kwargs else func(*args)
        stop = _autograd.next_sequence_nr()
        if stop != self.log.next_number:
            self._note_nodes(start, stop, func, args, kwargs)
        elif type(result) is Tensor and self.is_outermost and result.requires_grad:
            self._note_refusal(result)  # what has a graph and made no node
        if type(result) not in _NO_TENSORS:
            place = self.log.spans[-1][2] if start < stop else None
            self._note_uses(func, args, kwargs, result, place)
        if not self._has_graph_for_sure(result) or (kwargs and "requires_grad" in kwargs):
            self._observe_cuts(func, args, kwargs, result)
        if self.log.cuts.left:
            self._observe_numbers(func, args, kwargs, result)
        return result

    def _observe_numbers(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, result: Any
    ) -> None:
        given = [*args, *(kwargs or {}).values()]
        with _autograd.unobserved():
            name = name_of(func)
            if name in LEAVING_PYTORCH:
                self.log.cuts.note_numbers(result)
            else:
                self.log.cuts.observe_numbers(name, given, tensors_in((result,)))

    def _note_refusal(self, result: Tensor) -> None:
        """Note where a result was made whose node stands for a derivative that does not exist."""
        with _autograd.unobserved():
            numbers = _autograd.numbers_after_refusal(result)
        if numbers:
            self.log.refusals[numbers] = place_of(inspect.currentframe())

    def _note_uses(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        result: Any,
        place: Place | None,
    ) -> None:
        """Note the leaves among the arguments that were not used before.

        Where the call made nodes, which is at `place`, a parameter takes the short way.
        """
        first, use, takes_values = args[0] if args else None, None, True
        uses, is_outermost = self.uses_by_leaf, self.is_outermost
        for argument in (*args, *kwargs.values()) if kwargs else args:
            kind = type(argument)
            if kind in _NO_ARGUMENTS or argument is result:
                continue
            known = uses.get(id(argument))
            if known is not None and known[0]() is argument:
                continue
            if kind not in _PLAIN or not is_outermost:
                self._note_uses_in(func, args, argument, result)
            elif place and kind is Parameter and argument is not first and argument.requires_grad:
                if use is None:
                    use = LeafUse(name_of(func), place, required_grad=True)
                    takes_values = not takes_shape(use.operation, is_first=False)
                if takes_values:
                    uses[id(argument)] = ref(argument), use
            elif _is_leaf(argument):
                self._note_use(func, args, argument, result)

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
            made = next(tensors_in((result,)), None)
            number = None if made is None else _autograd.number_if_valid(made)
            self.log.uses.note(leaf, LeafUse(name, place, requires_grad, number))
            if type(leaf) is not Parameter:
                self.log.uses.note_storage(leaf)
                self.log.cuts.adopt_cuts_of_storage(leaf)

    def _is_use(self, name: str, args: Sequence[Any], leaf: Tensor, result: Any) -> bool:
        """Return whether a call made something of a leaf's values."""
        if takes_shape(name, is_first=bool(args) and leaf is args[0]):
            return False
        if type(result) is Tensor or name in LEAVING_PYTORCH:
            return True
        return any(one is not leaf for one in tensors_in((result,)))

    def note_parameter(self, data: Tensor, parameter: Tensor) -> None:
        """Note what a parameter is made of, which no mode is shown."""
        with _autograd.unobserved():
            self.log.cuts.observe("Parameter", [data], [parameter], self._call_site)

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
        if kwargs and kwargs.get("create_graph") and _is_backward(func):
            with _autograd.unobserved():
                self.log.passes.note(start, stop, args[0], self.log.cuts.structure)

    def _call_that_may_write(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None
    ) -> Any:
        """Let a call go on that may write into its arguments, and note what it wrote.

        A backward and a switch of gradients come this way too.
        """
        if func is _autograd.SET_GRAD_ENABLED:
            self.log.note_switch(inspect.currentframe(), is_on=args[0])
            return func(*args)
        if func == _SET_GRAD or name_of(func) in _OF_GRADIENTS:
            self._note_change_of_gradients(func, args)
        is_backward = _is_backward(func)
        note = self._backward_to_note(func, args, kwargs or {}) if is_backward else None
        with _autograd.unobserved():
            before = [(one, _autograd.version(one)) for one in tensors_in(args, kwargs)]
        name = name_of(func)
        if name == "detach_":
            self._observe_cuts(func, args, kwargs, args)
        start = _autograd.next_sequence_nr()
        self.log.has_failed = self.log.has_failed or is_backward
        result = func(*args, **(kwargs or {}))
        if note is not None:  # one that fails is not what frees a graph
            self.log.note_backward(note)
        self._note_nodes(start, _autograd.next_sequence_nr(), func, args, kwargs)
        if result is None and is_backward:
            return None
        self._note_writes(func, before, inspect.currentframe())
        made = args[0] if result is None and before and args else result
        if name in COLLECTIVES:
            made = results_of_collective(name, args, kwargs)
        goes_past_graph = self._goes_past_graph(func, made, before)
        if goes_past_graph or torch.is_grad_enabled():
            self._note_uses(func, args, kwargs, made, None)
        if goes_past_graph or not self._has_graph_for_sure(made):
            self._observe_cuts(func, args, kwargs, made)
        if self.log.cuts.left:
            self._observe_numbers(func, args, kwargs, made)
        return result

    def _backward_to_note(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Pass | None:
        """Return what to note of a backward, before it takes place."""
        frees = not (kwargs.get("retain_graph") or kwargs.get("create_graph"))
        with _autograd.unobserved():
            roots = frozenset(map(_autograd.number_if_valid, tensors_in(args[:1])))
        call = "backward()" if kwargs.get("inputs") is None else "backward(inputs=...)"
        if func is torch.autograd.grad:
            call = "torch.autograd.grad()"
        place = place_of(inspect.currentframe())
        number = _autograd.next_sequence_nr()
        return None if place is None else Pass(number, place, call, roots, frees)

    def _note_change_of_gradients(self, func: Any, args: Sequence[Any]) -> None:
        """Note that gradients may be set to zero, or are divided by the scale of a loss."""
        frame = inspect.currentframe()
        if name_of(func) == _UNSCALE:
            last = self.log.writes[-1][1].source if self.log.writes else None
            self.log.training.note_unscale(place_of(frame), last)
        elif func != _SET_GRAD or args[1] is None:
            self.log.training.note_zero(lambda: place_of(frame))

    def _goes_past_graph(self, func: Any, made: Any, before: Versions) -> bool:
        """Return whether a write may have changed a tensor with a graph without its graph."""
        is_recorded = torch.is_grad_enabled() and id(made) not in self.aliases
        if len(before) < _TARGET_AND_SOURCE or (is_recorded and func != _SET_DATA):
            return False
        if self.is_outermost:
            return any(one.requires_grad and one is not made for one, _ in before)
        with _autograd.unobserved():
            return any(
                _autograd.plain(one, "requires_grad") for one, _ in before if one is not made
            )

    def _has_graph_for_sure(self, result: Any) -> bool:
        """Return whether it is clear at a glance that the result has not lost a graph.

        To ask a tensor shows the question to other modes and to subclasses, so they are not asked.
        """
        if type(result) is Tensor:
            return self.is_outermost and result.requires_grad and not self.cuts_by_tensor
        if type(result) is tuple and result:
            return all(map(self._has_graph_for_sure, result))
        return type(result) in _NO_TENSORS

    def _observe_cuts(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, result: Any
    ) -> None:
        inputs, outputs = [*tensors_in(args, kwargs)], [*tensors_in((result,))]
        is_derivative = func is torch.autograd.grad and kwargs and kwargs["create_graph"]
        with _autograd.unobserved():
            name = DERIVATIVE if is_derivative else name_of(func)
            if name in COLLECTIVES:
                inputs = [one for one in inputs if all(one is not other for other in outputs)]
            self.log.cuts.observe(name, inputs, outputs, self._call_site)
            self.log.prune_if_large()

    def _call_site(self, name: str) -> CallSite:
        """Return where the running call stands; one within a custom function is that function's."""
        frame = inspect.currentframe()
        is_off = not torch.is_grad_enabled()
        running = custom_function_frame(frame) if is_off else None
        if running is not None:
            return _site_in_custom_function(running, self.log)
        whole, place = part_of(frame) if is_off else (None, place_of(frame))
        name = whole or _library_function(frame) or name
        switch, switch_source = (None, None) if whole else _switch(self.log)
        return CallSite(
            name,
            self.log.source_at(place),
            is_in_custom_function=False,
            switch=switch,
            switch_source=switch_source,
        )

    def _note_writes(self, func: Any, before: Versions, frame: FrameType | None) -> None:
        with _autograd.unobserved():
            number = _autograd.next_sequence_nr()
            if func == _SET_DATA:
                self.log.replaced.append((ref(before[0][0]), number))
            for storage, write, is_hidden in _writes(func, before, frame, self.log):
                self.log.writes.append((storage, write))
                last = self.log.hidden_writes if is_hidden else self.log.last_writes
                last[storage] = number, write
            self.log.prune_if_large()


def _is_backward(func: Any) -> bool:
    """Return whether a function runs a backward, also where a library has put a wrapper around it.

    PyTorch shows the wrapper then, which it finds under the name of the function.
    """
    return func in {torch.autograd.grad, torch.autograd.backward, Tensor.backward}


def _is_watched(func: Any) -> bool:
    return func is _autograd.SET_GRAD_ENABLED or func == _SET_GRAD or _is_backward(func)


def _is_leaf(tensor: Tensor) -> bool:
    """Return whether a tensor is a leaf; a view that is invalid refuses to tell, and is none."""
    try:
        return tensor.is_leaf
    except RuntimeError:
        return False


def _switch(log: Log) -> tuple[str | None, Source | None]:
    """Return what has switched gradients off, and the line that did, if they are off."""
    if torch.is_grad_enabled():
        return None, None
    if torch.is_inference_mode_enabled():
        return "inference_mode()", None
    name, place = log.switch or (None, None)
    return name, log.source_at(place)


def _site_in_custom_function(running: FrameType, log: Log) -> CallSite:
    """Return where a custom function is called."""
    function = running.f_locals.get("cls")
    name = getattr(function, "__name__", running.f_code.co_qualname.rpartition(".")[0])
    source = log.source_at(place_of(running.f_back))
    return CallSite(name, source, is_in_custom_function=True)


_CUTTING_FUNCTIONS = {
    "__deepcopy__": f"{os.sep}nn{os.sep}parameter.py",
    "sample": f"{os.sep}distributions{os.sep}",
    "state_dict": f"{os.sep}modules{os.sep}module.py",
}
"""Functions of PyTorch that cut what they return off its graph, and a part of their file's path."""


def _library_function(frame: FrameType | None) -> str | None:
    """Return the function of PyTorch that was called and cuts its results off, if that runs."""
    while frame is not None and is_library_file[frame.f_code.co_filename]:
        name = frame.f_code.co_name
        if _CUTTING_FUNCTIONS.get(name, "\0") in frame.f_code.co_filename:
            return name.strip("_")
        frame = frame.f_back
    return None


_NO_TENSORS = {type(None), torch.Size, bool, int, torch.dtype, torch.device, torch.layout}
_NO_ARGUMENTS = {*_NO_TENSORS, float, str, slice, torch.memory_format}
_PLAIN = {Tensor, Parameter}
_SET_DATA: Any = Tensor.data.__set__  # type: ignore[attr-defined]
_SET_GRAD: Any = Tensor.grad.__set__  # type: ignore[union-attr]
_UNSCALE = "_amp_foreach_non_finite_check_and_unscale_"
_OF_GRADIENTS = {"zero_", "_foreach_zero_", "fill_", "copy_", _UNSCALE}
_TARGET_AND_SOURCE = 2


def _writes(
    func: Any, before: Versions, frame: FrameType | None, log: Log
) -> Iterator[tuple[int, Write, bool]]:
    """Yield what a call wrote into, each storage once, with the identity of the storage.

    Also whether it wrote through ``.data``, which has a version of its own.
    """
    seen: set[int] = set()
    for tensor, earlier in before:
        later, storage = _autograd.version(tensor), _autograd.storage(tensor)
        if earlier is None or later is None or later <= earlier or storage is None:
            continue
        identity, _ = storage
        if identity not in seen:
            seen.add(identity)
            within, place = part_of(frame)
            yield (
                identity,
                Write(
                    operation=name_of(func),
                    version_before=earlier,
                    version_after=later,
                    through_view=_autograd.is_view(tensor),
                    source=log.source_at(place),
                    within=within,
                ),
                log.cuts.is_data(tensor),
            )
