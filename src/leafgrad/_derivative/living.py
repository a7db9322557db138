"""Share one pass between calls that need different parts of the same derivative.

Code for an equation usually requests one column or channel after another. But one reverse pass
computes the derivatives of a channel in all columns, and Taylor mode those of all channels. So the
whole derivative is cached as long as the differentiated tensor and a returned part are alive.

A cached derivative must equal the result of a new pass. So it is used only for the same two tensors
with the same version counters, and only if its graph was neither freed nor changed. Callers get
copies of the parts, so an in-place write to one does not change another.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple
from weakref import ref

from torch import Tensor

from leafgrad import _autograd


class _Living(NamedTuple):
    """A cached derivative of `source` with respect to `inputs`, and the copies callers hold."""

    source: ref[Tensor]
    version: int | None
    inputs: ref[Tensor]
    derivative: Tensor
    parts: dict[int, ref[Tensor]]


_living: dict[Hashable, _Living] = {}


def remember(
    source: Tensor, inputs: Tensor, what: Hashable, derivative: Tensor, part: Tensor
) -> None:
    """Cache `derivative`, a derivative of `source`, under the key `what`, while `part` is alive.

    `part` is the copy of a part of the derivative that the caller receives. The cache entry is
    removed when `source` or the last such copy is gone.
    """
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
    """Return the derivative cached under `what`, or None if there is none that is still valid.

    If the graph was freed, or a tensor that it saved was changed in place, raise PyTorch's own
    error, as a new pass would. `path` contains the nodes between `inputs` and `source`, the tensor
    that was differentiated.
    """
    known = _living.get((id(source), what))
    if known is None or known.source() is not source or known.inputs() is not inputs:
        return None
    derivative = known.derivative
    if known.version != _autograd.version(source) or derivative.grad_fn is None:
        return None
    if not _autograd.saved_is_at_hand(path.nodes) or _autograd.was_freed(derivative.grad_fn):
        return None
    return derivative
