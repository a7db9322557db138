"""Share one pass between calls that need parts of the same derivative.

An equation that is written line by line needs one column after another, and one channel after
another. But a reverse pass computes the derivatives of a channel in all columns at once, and Taylor
mode those of all channels. So the derivative is remembered while the differentiated tensor and a
part that some caller received are alive.

A shared derivative must equal that of one more pass: it belongs to the same two tensors, with the
same version counters, and its graph is neither freed nor changed. Parts are copies, so a write into
one does not show in another.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple
from weakref import ref

from torch import Tensor

from leafgrad import _autograd


class _Living(NamedTuple):
    """A derivative of `source` with respect to `inputs`, and the parts that callers hold."""

    source: ref[Tensor]
    version: int | None
    inputs: ref[Tensor]
    derivative: Tensor
    parts: dict[int, ref[Tensor]]


_living: dict[Hashable, _Living] = {}


def remember(
    source: Tensor, inputs: Tensor, what: Hashable, derivative: Tensor, part: Tensor
) -> None:
    """Remember which derivative of a tensor this is, while a part that was copied is alive."""
    key = id(source), what
    known = _living.get(key)
    if known is None or known.derivative is not derivative:
        gone = ref(source, lambda _: _living.pop(key, None))
        known = _Living(gone, _autograd.version(source), ref(inputs), derivative, {})
        _living[key] = known
    parts = known.parts
    number = id(part)

    def release(_: ref[Tensor]) -> None:
        del parts[number]
        if not parts and _living.get(key, known) is known:
            _living.pop(key, None)

    parts[number] = ref(part, release)


def recall(source: Tensor, inputs: Tensor, what: Hashable, path: _autograd.Path) -> Tensor | None:
    """Return the derivative that one more pass would compute, None if it is not remembered.

    Raise PyTorch's own error, as that pass would, if the graph was freed or a tensor that it saved
    was changed in place.
    """
    known = _living.get((id(source), what))
    if known is None or known.source() is not source or known.inputs() is not inputs:
        return None
    derivative = known.derivative
    if known.version != _autograd.version(source) or derivative.grad_fn is None:
        return None
    if not _autograd.saved_is_at_hand(path.nodes) or _autograd.was_passed(derivative.grad_fn):
        return None
    return derivative
