"""What each call of a PyTorch function made, in a few numbers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any
from weakref import ref

from torch import Tensor
from torch.overrides import TorchFunctionMode

from leafgrad import _autograd
from leafgrad._graph.summary import summary_of
from leafgrad._record.log import Given, Log
from leafgrad._record.torch_functions import name_of, tensors_in


class ValueRecorder(TorchFunctionMode):
    """Sees each call that this thread makes of a PyTorch function, and sums up its results.

    Arguments are looked at too: nothing announces what a custom function made before it is used.
    """

    def __init__(self, log: Log) -> None:
        """Write into `log`."""
        super().__init__()
        self.log = log

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Let the call go on as it is, and sum up what is new."""
        start = _autograd.next_sequence_nr()
        result = func(*args, **(kwargs or {}))
        with _autograd.unobserved():
            is_fine = True
            for tensor in tensors_in((result, *args), kwargs):
                place = _autograd.numbered_output(tensor)
                if place is not None and place not in self.log.values:
                    made = self.log.values[place] = summary_of(tensor)
                    is_fine &= place[0] < start or made is None or made.not_finite is None
            if not is_fine:
                self._note_given(start, func, args, kwargs or {})
            self.log.prune_if_large()
        return result

    def _note_given(
        self, start: int, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Note the arguments that are not finite, unless a call that was recorded made one so.

        They are leaves, or results that were finite when they were made and have been written into
        since, out of sight. What the call itself has written into is not one of its arguments.
        """
        given: dict[int, Given] = {}
        for argument, tensor in _arguments(func, args, kwargs):
            place = _autograd.numbered_output(tensor)
            if place is not None and place[0] >= start:
                continue
            made = self.log.values.get(place) if place else None
            if made is not None and made.not_finite:
                return
            found = summary_of(tensor)
            if found is not None and found.not_finite:
                given.setdefault(id(tensor), Given(argument, ref(tensor)))
        self.log.given.append((start, _autograd.next_sequence_nr(), (*given.values(),)))


def _arguments(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that a call was given, and which argument each of them is or is in.

    A normalisation in training only writes into its running statistics, behind the version's back.
    """
    names: Iterable[object] = range(len(args))
    if isinstance(func, FunctionType) and func.__code__.co_argcount >= len(args):
        names = func.__code__.co_varnames
    given: dict[object, Any] = dict(zip(names, args, strict=False))
    given.update(kwargs)
    is_training = any(given.get(flag) is True for flag in ("training", "use_input_stats"))
    for name, argument in given.items():
        if not (is_training and str(name).startswith("running_")):
            for tensor in tensors_in((argument,)):
                yield f"argument {name} of {name_of(func)}", tensor
