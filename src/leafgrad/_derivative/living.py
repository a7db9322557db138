"""Derivatives that are alive, so that calls which ask for parts of one share it.

Who writes an equation line by line asks for one column after another, and for one channel after
another. But a reverse pass gives the derivatives of a channel in all columns at once, and Taylor
mode those of all channels. So what a pass gave is remembered as long as a part of it is alive that
somebody was given, and the tensor that it is a derivative of is.

What is read must be what one more pass would give: of and in the same tensors, as often changed in
place, and with a graph of which nothing was freed or changed. Parts are copies, so that nothing
that is done to one is seen in another.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple
from weakref import ref

from torch import Tensor

from leafgrad import _autograd


class _Living(NamedTuple):
    """A derivative, what it was taken of and in, and who has a part of it."""

    source: ref[Tensor]
    version: int | None
    inputs: ref[Tensor]
    derivative: Tensor
    parts: dict[int, ref[Tensor]]


_living: dict[Hashable, _Living] = {}


def remember(
    source: Tensor, inputs: Tensor, what: Hashable, derivative: Tensor, part: Tensor
) -> None:
    """Remember `what` derivative of a tensor this is, as long as a part that was copied lives."""
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
    """Return what one more pass would give, None where that is not known.

    Where the graph was freed, or something that it saved was changed in place, this raises
    PyTorch's own error, as that pass would.
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
