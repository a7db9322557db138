"""A function mode that records each PyTorch call: its line, its graph nodes, its writes.

The calls go to the tape of the recording's log. There, a `Value` stands for each tensor. A call
*loses a graph* if one of its inputs has a graph and a result that was computed from it has none.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from inspect import currentframe
from threading import get_ident
from types import FrameType
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode

from leafgrad import _autograd
from leafgrad._arguments.outputs import Output, gradient_edges
from leafgrad._record.flow import DERIVATIVE, LEAVING_PYTORCH
from leafgrad._record.log import Log, Pass
from leafgrad._record.place import (
    Place,
    custom_function_frame,
    is_library_file,
    part_of,
    place_of,
)
from leafgrad._record.tape import ARRAYS, Call, Site, Tape, Value, WriteOnTape
from leafgrad._record.torch_functions import (
    floats_in,
    is_collective,
    may_write,
    name_of,
    results_of_collective,
    tensors_in,
)


class CallRecorder(TorchFunctionMode):
    """A function mode that adds each PyTorch call of this thread to the tape of a log."""

    def __init__(self, log: Log) -> None:
        """Record into `log`."""
        super().__init__()
        self.log = log
        self.tape = log.tape
        self.is_outermost = _autograd.function_modes() == 0
        self.functions: dict[object, tuple[str, bool]] = {}
        self.step: Step | None = None
        self.thread = get_ident()
        log.finish_step = self.finish_step

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run a PyTorch function unchanged, record the call, and return its result.

        Most of the cost of a recording is here, so it returns early for calls without tensors.
        """
        if self.step is not None:
            if self.step.is_running():
                return func(*args, **(kwargs or {}))
            self.finish_step()
        known = self.functions.get(func)
        if known is None:
            is_switch = func is _autograd.SET_GRAD_ENABLED
            writes = is_switch or _is_backward(func) or may_write(func)
            known = self.functions[func] = name_of(func), writes
        name, writes = known
        if writes or (kwargs and (kwargs.get("inplace") or "out" in kwargs)):
            return self._call_that_may_write(func, name, types, args, kwargs)
        start = _autograd.next_sequence_nr()
        result = func(*args, **kwargs) if kwargs else func(*args)
        stop = _autograd.next_sequence_nr()
        is_quiet = self.is_outermost and types in _USUAL_TYPES and type(result) in _PLAIN
        if stop == self.tape.next_number and name not in LEAVING_PYTORCH:
            is_grad = name == ".grad" and is_quiet
            if type(result) in _NO_TENSORS or (is_grad and not result.requires_grad):
                return result
        if is_quiet:  # reading attributes triggers no subclass or other mode
            self._note_call(start, name, args, kwargs, result)
        else:
            with _autograd.unobserved():
                self._note_call(start, name, args, kwargs, result)
        return result

    def _note_call(self, start: int, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Record a call that wrote into none of its arguments, if it concerns a graph.

        `start` is the sequence number that autograd would give to the next node before the call.
        `result` is what the call returned.
        """
        inputs, graphs = self.tape.read(tensors_in(args, kwargs))
        made = [result] if type(result) is Tensor else tensors_in((result,))
        is_exit = name in LEAVING_PYTORCH and any(one.follows_graph for one in inputs)
        if made or is_exit or graphs or start < _autograd.next_sequence_nr():
            self._note((start, name, inputs, graphs), made, (args, kwargs, result))

    def _note(
        self,
        seen: tuple[int, str, list[Value], list[Value]],
        made: Sequence[Tensor],
        given: Sequence[Any],
        writes: tuple[WriteOnTape, ...] = (),
        roots: tuple[int | None, ...] | None = None,
    ) -> None:
        """Add a finished call to the tape, the list of recorded calls, if a graph may depend on it.

        Args:
            seen: The facts from before the call: the next sequence number, the function's name, the
                input tensors on the tape, and those of them that require grad.
            made: The output tensors.
            given: The arguments and the result of the call.
            writes: The in-place writes.
            roots: For a backward pass, where it began (see `Call.roots`).
        """
        start, name, inputs, graphs = seen
        tape, stop = self.tape, _autograd.next_sequence_nr()
        frame = currentframe().f_back  # type: ignore[union-attr] # its own frame would make a cycle
        if tape.next_number < start:
            running = custom_function_frame(frame)
            called = None if running is None else place_of(running.f_back)
            tape.calls.append(Call(tape.next_number, start, called, "apply"))
        tape.next_number = stop
        is_recording = torch.is_grad_enabled()
        leads_on = (
            graphs
            or is_recording
            or name == "Parameter"
            or tape.has_exits
            or any(value.follows_graph for value in inputs)
        )
        if not (leads_on or writes):
            return  # no graph depends on this call
        inputs, made = (inputs, made) if leads_on else ([], [])
        outputs, recorded = tape.write(made, inputs, graphs, is_unseen=start == stop)
        if name in LEAVING_PYTORCH:
            is_lost = bool(graphs) or any(value.follows_graph for value in inputs)
            tape.has_exits |= is_lost
            if is_lost and name in ARRAYS:
                tape.note_array(inputs[0])
        else:
            is_known = len(outputs) == len(recorded) or (len(graphs) == 1 and graphs[0] in outputs)
            is_lost = bool(graphs) and (name == "detach_" or not is_known)
        site = self._site(frame, is_lost=is_lost) if is_lost or writes else None
        place = place_of(frame) if site is None else site.place
        if len(made) == 1 and start == stop and recorded and roots is None:
            numbers = _autograd.numbers_after_refusal(made[0])
            self.log.refusals.update({numbers: place} if numbers else {})
        floats = (*floats_in(given),) if tape.has_exits else ()
        flow = (*inputs,), (*graphs,), (*outputs,), (*recorded,)
        facts = is_recording, site, writes, floats, roots
        tape.calls.append(_new_call(Call, (start, stop, place, name, *flow, *facts)))
        if len(tape.calls) > self.log.max_entries:
            self.log.drop_if_large()

    def _site(self, frame: FrameType | None, *, is_lost: bool) -> Site:
        """Return the context of a call: optimizer step, custom function and `no_grad()` block.

        `frame` is the frame from which the call was made. `is_lost` is whether the call lost a
        graph. Otherwise it wrote in place.
        """
        is_off = is_lost and not torch.is_grad_enabled()
        running = custom_function_frame(frame) if is_off else None
        if running is not None:
            function = running.f_locals.get("cls")
            called = getattr(function, "__name__", running.f_code.co_qualname.rpartition(".")[0])
            return Site(None, place_of(running.f_back), called, is_in_custom_function=True)
        within, place = part_of(frame) if is_off or not is_lost else (None, place_of(frame))
        switch: tuple[str | None, Place | None] = (None, None)
        if torch.is_inference_mode_enabled():
            switch = ("inference_mode()", None)
        elif is_off and not within:
            switch = next(reversed(self.log.switches), switch)
        return Site(within, place, _library_function(frame) if is_lost else None, switch=switch)

    def note_parameter(self, data: Tensor, parameter: Tensor) -> None:
        """Record that `torch.nn.Parameter(data)` ran; PyTorch does not announce it to modes."""
        with _autograd.unobserved():
            number = _autograd.next_sequence_nr()
            inputs, graphs = self.tape.read([data])
            self._note((number, "Parameter", inputs, graphs), [parameter], ())

    def _call_that_may_write(
        self, func: Any, name: str, types: Any, args: Sequence[Any], kwargs: Any
    ) -> Any:
        """Run a function that may write into its arguments, and record what it wrote.

        It also handles backward passes and `torch.set_grad_enabled`.
        """
        if func is _autograd.SET_GRAD_ENABLED:
            self.log.note_switch(currentframe(), is_on=args[0])
            return func(*args)
        if name in _OF_GRADIENTS:
            self._note_change_of_gradients(name, args)
        if name == ".grad =":
            return func(*args)
        if _is_backward(func):
            return self._backward(func, name, args, kwargs or {})
        is_quiet = self.is_outermost and types in _USUAL_TYPES
        with _QUIET if is_quiet else _autograd.unobserved():
            tensors = tensors_in(args, kwargs)
            # A function such as `add_` writes into one tensor.
            is_method = name[-1] == "_" and name[0] != "_"
            targets = tensors[:1] if is_method else tensors
            versions = [*map(_autograd.version, targets)]
            inputs, graphs = self.tape.read(tensors)
        start = _autograd.next_sequence_nr()
        result = func(*args, **kwargs) if kwargs else func(*args)
        with _QUIET if is_quiet and type(result) in _PLAIN else _autograd.unobserved():
            made = args[0] if result is None and tensors and args else result
            writes = tuple(_writes(zip(targets, versions, strict=True), self.tape))
            if is_collective(name):
                made = results_of_collective(func, args, kwargs)
                filled = {*map(id, tensors_in((made,)))}
                inputs = [one for one in inputs if id(one()) not in filled]
            seen, given = (start, name, inputs, graphs), (args, kwargs, result)
            self._note(seen, tensors_in((made,)), given, writes)
        return result

    def begin_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Record that an optimizer starts a step, if it does so in this thread."""
        if get_ident() == self.thread:
            with _autograd.unobserved():
                self._note_step(optimizer, has_closure=len(args) > 1 or bool(kwargs))

    def _note_step(self, optimizer: Optimizer, *, has_closure: bool) -> None:
        """Record that an optimizer starts a step, and prepare to record the whole step as one call.

        A step of a built-in optimizer makes hundreds of calls, and only its writes matter. The
        steps of other optimizers, steps with a closure or user hooks, and differentiable steps are
        recorded call by call.
        """
        self.finish_step()
        frame = currentframe()
        within, place = part_of(frame)
        self.log.training.note_step(optimizer, place, has_closure=has_closure)
        while frame is not None and _autograd.stepping_optimizer(frame) is None:
            frame = frame.f_back
        if frame is None or has_closure or not _autograd.is_plain_optimizer(optimizer):
            return
        params = [one for group in optimizer.param_groups for one in group["params"]]
        tensors = [*params, *(one.grad for one in params if one.grad is not None)]
        values, versions = (
            self.tape.read(tensors),
            [(ref(one), _autograd.version(one)) for one in tensors],
        )
        groups = [group["params"] for group in optimizer.param_groups if group.get("lr")]
        moving = [one for group in groups for one in group if one.dtype in _HALF]
        short = [(ref(one), one.detach().clone()) for one in moving]
        site = Site(within, place)
        self.step = Step(frame, versions, values, site, short)

    def finish_step(self) -> None:
        """Add the last optimizer step to the tape with its writes, also if the step failed."""
        step, self.step = self.step, None
        if step is None:
            return
        with _autograd.unobserved():
            before = ((one(), version) for one, version in step.versions)
            writes = tuple(_writes(before, self.tape))
            kept = ((one(), before) for one, before in step.short)
            self.log.training.note_rounding(step.site.place, kept)
        (inputs, graphs), number = step.values, self.tape.next_number
        outputs = tuple(write.value for write in writes)
        call = Call(number, number, step.site.place, "step", (*inputs,), (*graphs,), outputs)
        call = call._replace(is_grad_enabled=False, site=step.site, writes=writes)
        self.tape.calls.append(call)

    def _backward(self, func: Any, name: str, args: Sequence[Any], kwargs: Any) -> Any:
        """Run a backward pass and record it, unless it raises an error."""
        call = "backward()" if kwargs.get("inputs") is None else "backward(inputs=...)"
        call = "torch.autograd.grad()" if func is torch.autograd.grad else call
        is_derivative = kwargs.get("create_graph")
        frees = not (kwargs.get("retain_graph") or is_derivative)
        roots, start = None, _autograd.next_sequence_nr()
        with _autograd.unobserved():
            inputs, graphs = self.tape.read(tensors_in(args, kwargs))
            ends = frozenset(map(_autograd.number_if_valid, tensors_in(args[:1])))
            if is_derivative:
                outputs = args[0] if isinstance(args[0], list | tuple) else args[:1]
                edges = gradient_edges([one for one in outputs if isinstance(one, Output)])
                roots = tuple(_autograd.sequence_nr(node) for node, _ in edges)
        self.log.has_failed = True
        result = func(*args, **kwargs)
        self.log.note_backward(Pass(start, place_of(currentframe()), call, ends, frees))
        with _autograd.unobserved():
            called = DERIVATIVE if is_derivative and name == "grad" else name
            self._note((start, called, inputs, graphs), tensors_in((result,)), (), (), roots)
        return result

    def _note_change_of_gradients(self, name: str, args: Sequence[Any]) -> None:
        """Record a possible reset of gradients, or that `GradScaler` unscaled them."""
        frame = currentframe().f_back  # type: ignore[union-attr] # its own frame would make a cycle
        if name == _UNSCALE:
            training = self.log.training
            writes = [] if training.unscaled else self.log.writes
            before = writes[-1].source if writes else None
            training.unscaled = training.unscaled or (place_of(frame), before)
        elif name != ".grad =" or args[1] is None:
            self.log.training.note_zero(lambda: place_of(frame), tensors_in(args[:1]))


class Step(NamedTuple):
    """A running `step()` call of a built-in optimizer.

    Attributes:
        frame: The frame of the call.
        versions: The parameters and gradients, each with its version before the step.
        values: The values of these tensors on the tape, and of those that require grad.
        site: The context of the call, with its line.
        short: The half-precision parameters, each with a copy from before the step.
    """

    frame: FrameType
    versions: list[tuple[ref[Tensor], int | None]]
    values: tuple[list[Value], list[Value]]
    site: Site
    short: list[tuple[ref[Tensor], Tensor]]

    def is_running(self) -> bool:
        """Check whether the optimizer step is still on the call stack of this thread."""
        frame = currentframe()
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None


def _is_backward(func: Any) -> bool:
    """Check whether a function runs a backward pass.

    The names are looked up at each call because a library may have wrapped the functions.
    """
    return func in {torch.autograd.grad, torch.autograd.backward, Tensor.backward}


_CUTTING_FUNCTIONS = {"__deepcopy__", "sample", "state_dict"}
"""Names of PyTorch functions that return tensors without a graph."""


def _library_function(frame: FrameType | None) -> str | None:
    """Return the running PyTorch function that detaches its results, such as `sample`; or None.

    `frame` is the innermost Python frame.
    """
    while frame is not None and is_library_file[frame.f_code.co_filename]:
        if frame.f_code.co_name in _CUTTING_FUNCTIONS:
            return frame.f_code.co_name.strip("_")
        frame = frame.f_back
    return None


_HALF = {torch.half, torch.bfloat16}
_NO_TENSORS = {type(None), torch.Size, bool, int, torch.dtype, torch.device, torch.layout}
_QUIET = nullcontext()
_new_call: Any = tuple.__new__  # calling `Call` itself takes three times as long
_PLAIN = {Tensor, Parameter, type(None), float}
_USUAL_TYPES = {(), (Tensor,), (Parameter,), (Tensor, Parameter), (Parameter, Tensor)}
_UNSCALE = "_amp_foreach_non_finite_check_and_unscale_"
_OF_GRADIENTS = {"zero_", "_foreach_zero_", "fill_", "copy_", ".grad =", _UNSCALE}


def _writes(
    tensors: Iterable[tuple[Tensor | None, int | None]], tape: Tape
) -> Iterator[WriteOnTape]:
    """Yield one write for each storage whose version changed since the given versions."""
    seen: set[int] = set()
    for tensor, earlier in tensors:
        if tensor is None or earlier is None:
            continue
        later = _autograd.version(tensor)
        storage = _autograd.storage_identity(tensor) if later != earlier else None
        if storage is not None and later is not None and storage not in seen:
            seen.add(storage)
            is_view = _autograd.base(tensor) is not None
            yield WriteOnTape(storage, tape.values[id(tensor)], earlier, later, is_view)
