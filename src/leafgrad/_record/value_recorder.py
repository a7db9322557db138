"""A function mode that records a summary of each result, and where a NaN or infinity appears."""

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any
from weakref import ref

from torch import Tensor
from torch.overrides import TorchFunctionMode

from leafgrad import _autograd
from leafgrad._graph.summary import TensorSummary, summary_of
from leafgrad._record.log import Birth, Given, Log
from leafgrad._record.place import place_of
from leafgrad._record.tape import ARRAYS
from leafgrad._record.torch_functions import name_of, tensors_in


class ValueRecorder(TorchFunctionMode):
    """A function mode that stores summaries of the results of PyTorch calls in a log.

    It also reads the arguments: the result of a custom function first appears as the argument of
    the next call.
    """

    def __init__(self, log: Log) -> None:
        """Record into `log`."""
        super().__init__()
        self.log = log

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run a PyTorch function unchanged, and store summaries of new values in the log."""
        start = _autograd.next_sequence_nr()
        with _autograd.unobserved():
            written = _finite_target(func, args)
            for tensor in tensors_in(args, kwargs or {}):
                if _autograd.may_belong_to_array(tensor, becomes_array=name_of(func) in ARRAYS):
                    self.log.note_content(start, tensor)
        result = func(*args, **(kwargs or {}))
        with _autograd.unobserved():
            is_fine = True
            self._note_births(func, args, kwargs or {}, result, written)
            for tensor in tensors_in((result, *args), kwargs):
                place = _autograd.numbered_output(tensor)
                if place is not None and place not in self.log.values:
                    made = self.log.values[place] = summary_of(tensor)
                    is_fine &= place[0] < start or made is None or made.not_finite is None
            if not is_fine:
                self._note_given(start, func, args, kwargs or {})
            self.log.drop_if_large()
        return result

    def _note_births(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
        written: Tensor | None,
    ) -> None:
        """Record the call that made each result without a graph non-finite.

        `written` is the argument that the call changed in place, if it was finite before.
        """
        for made in tensors_in((result,)):
            if _autograd.numbered_output(made) is not None or not _is_floating(made):
                continue
            found = summary_of(made)
            self.log.births.pop(made, None)
            if found is None or found.not_finite is None:
                continue
            inputs = [tensor for tensor in tensors_in(args, kwargs) if tensor is not made]
            worse = [one for one in inputs if _is_as_bad(one, found)]
            births = (self.log.births.get(one) for one in worse or inputs)
            birth = next((one for one in births if one and (worse or not _is_meant(one))), None)
            is_cause = birth is None and not worse and (inputs or made is written)
            if is_cause and not any(map(_is_nan, args)):
                place = place_of(inspect.currentframe())
                is_quotient = "div" in name_of(func) and all(map(has_no_zero, args[1:2]))
                name = QUOTIENT if is_quotient else name_of(func)
                birth = Birth(name, place, found.not_finite)
            self.log.births[made] = birth

    def _note_given(
        self, start: int, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Record the non-finite arguments of a call, unless a recorded call produced one of them.

        They are leaves, or results that unrecorded code has changed since. Tensors that the call
        itself wrote into do not count. `start` is the sequence number of the next
        node before the call.
        """
        given = {
            id(number): Given(f"{NUMBER}{number} in {name_of(func)}", lambda: None)
            for number in args
            if _is_nan(number) and "fill" not in name_of(func) and name_of(func) != "__setitem__"
        }
        for argument, tensor in _arguments(func, args, kwargs):
            place = _autograd.numbered_output(tensor)
            if place is not None and place[0] >= start:
                continue
            made = self.log.values.get(place) if place else None
            if made is not None and made.not_finite:
                return
            found = summary_of(tensor)
            if found is not None and found.not_finite:
                birth = self.log.births.get(tensor)
                given.setdefault(id(tensor), Given(argument, ref(tensor), birth))
        self.log.given[start] = (*given.values(),)


def _is_meant(birth: Birth) -> bool:
    """Check whether a call inserts infinities on purpose, as a mask does."""
    return "fill" in birth.operation or birth.operation in {"where", "__setitem__"}


def _finite_target(func: Any, args: Sequence[Any]) -> Tensor | None:
    """Return the tensor that a call changes in place if it is finite and has no graph, or None."""
    is_writing = name_of(func).endswith("_") and not name_of(func).endswith("__")
    if not is_writing or not args or not isinstance(args[0], Tensor) or not _is_floating(args[0]):
        return None
    found = summary_of(args[0]) if _autograd.numbered_output(args[0]) is None else None
    return args[0] if found is not None and found.is_finite else None


NUMBER = "the number "
QUOTIENT = "quotient"
"""The name of a division without zeros in the divisor: a NaN then comes from inf / inf."""


def has_no_zero(divisor: Any) -> bool:
    """Check whether a tensor or number is known to contain no zero."""
    return (
        _autograd.why_unread(divisor) is None and bool(divisor.detach().all())
        if isinstance(divisor, Tensor)
        else bool(divisor)
    )


def _is_nan(argument: object) -> bool:
    return isinstance(argument, float) and math.isnan(argument)


def _is_floating(tensor: Tensor) -> bool:
    dtype = _autograd.plain(tensor, "dtype")
    return bool(dtype.is_floating_point or dtype.is_complex)


def _is_as_bad(given: Tensor, made: TensorSummary) -> bool:
    """Check whether an argument explains a non-finite result: it has NaN, or the same infinity.

    `given` is the argument, and `made` describes the result.
    """
    found = summary_of(given) if _is_floating(given) else None
    return found is not None and found.not_finite in {"NaN", made.not_finite}


def _arguments(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensor arguments of a call, each with a description of the argument.

    Running statistics of a normalisation in training are left out: it only writes to them.
    """
    names: Iterable[object] = range(len(args))
    if isinstance(func, FunctionType) and func.__code__.co_argcount >= len(args):
        names = func.__code__.co_varnames
    given: dict[Any, Any] = {**dict(zip(names, args, strict=False)), **kwargs}
    is_training = any(given.get(flag) is True for flag in ("training", "use_input_stats"))
    for name, argument in given.items():
        if not (is_training and str(name).startswith("running_")):
            for tensor in tensors_in((argument,)):
                yield f"argument {name} of {name_of(func)}", tensor
