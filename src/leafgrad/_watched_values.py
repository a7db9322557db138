"""What the operations of a recording make, in a few numbers each."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode

from leafgrad import _autograd
from leafgrad._calls import tensors_in
from leafgrad._log import Log
from leafgrad._summary import summary_of


class WatchedValues(TorchFunctionMode):
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
        result = func(*args, **(kwargs or {}))
        with _autograd.unobserved():
            for tensor in tensors_in((result, *args), kwargs):
                place = _autograd.numbered_output(tensor)
                if place is not None and place not in self.log.values:
                    self.log.values[place] = summary_of(tensor)
            self.log.trim()
        return result
