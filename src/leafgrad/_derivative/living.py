"""Derivatives that are alive, so that calls which ask for parts of one share it.

Who writes an equation line by line asks for one column after another, and for one channel after
another. But a reverse pass gives the derivatives of a channel in all columns at once, and Taylor
mode those of all channels. So what a pass gave is remembered as long as something lives that was
taken from it, and the tensors that it belongs to do; nothing is kept alive.

What is read must be what one more pass would give: of and in the same tensors, as often changed in
place, and with a graph of which nothing was freed or changed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple
from weakref import ref

from torch import Tensor

from leafgrad import _autograd


class _Living(NamedTuple):
    """A derivative, what it was taken of and in, and how often each was changed in place."""

    source: ref[Tensor]
    inputs: ref[Tensor]
    derivative: ref[Tensor]
    versions: tuple[int | None, int | None]


_living: dict[Hashable, _Living] = {}


def remember(source: Tensor, inputs: Tensor, what: Hashable, derivative: Tensor) -> None:
    """Remember `what` derivative of a tensor this is, as long as it lives."""
    key = id(source), what

    def forget(_: ref[Tensor]) -> None:
        _living.pop(key, None)

    _living[key] = _Living(
        ref(source, forget),
        ref(inputs),
        ref(derivative, forget),
        (_autograd.version(source), _autograd.version(derivative)),
    )


def recall(source: Tensor, inputs: Tensor, what: Hashable, path: _autograd.Path) -> Tensor | None:
    """Return a copy of what one more pass would give, None where that is not known.

    Where the graph was freed, or something that it saved was changed in place, this raises
    PyTorch's own error, as that pass would.
    """
    found = _living.get((id(source), what))
    derivative = None if found is None else found.derivative()
    if found is None or derivative is None or derivative.grad_fn is None:
        return None
    if found.source() is not source or found.inputs() is not inputs:
        return None
    if found.versions != (_autograd.version(source), _autograd.version(derivative)):
        return None
    if not _autograd.saved_is_at_hand(path.nodes) or _autograd.was_passed(derivative.grad_fn):
        return None
    return derivative.clone()
