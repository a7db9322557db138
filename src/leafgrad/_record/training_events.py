"""The order of backward passes, optimizer steps and gradient resets, and mistakes in it."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

from torch import Tensor
from torch.optim import Optimizer
from torch.utils.weak import WeakTensorKeyDictionary

from leafgrad import _autograd
from leafgrad._graph.nodes import Source
from leafgrad._record.place import Place

MOST_GRADIENTS = 20
"""The number of gradients per optimizer that are compared between its steps."""


FEW = 0.5


class Mistake(NamedTuple):
    """Two lines of a training loop in the wrong order.

    Attributes:
        step: The place of the optimizer step.
        other: The place that reset the gradients before it, or that accumulated into them.
        in_closure: Whether `other` is in a closure that the optimizer step called.
    """

    step: Place | None
    other: Place | None
    in_closure: bool = False


_last_seen: WeakKeyDictionary[Optimizer, WeakTensorKeyDictionary] = WeakKeyDictionary()
"""The versions of the gradients of each optimizer at its last recorded step."""


class TrainingEvents:
    """The mistakes in the order of training events.

    Attributes:
        accumulated: An optimizer step whose gradients still contain those of the previous one.
        emptied: An optimizer step whose gradients were reset between the backward pass and it.
        rounded: An optimizer step that changed only a small share of the half-precision parameters,
            and that share.
        unscaled: The place where `GradScaler` unscaled, and the line of the last write before.
    """

    def __init__(self) -> None:
        """Start before the first event."""
        self.accumulated: Mistake | None = None
        self.emptied: Mistake | None = None
        self.unscaled: tuple[Place | None, Source | None] | None = None
        self.rounded: tuple[Place | None, float] | None = None
        self._backward: Place | None = None
        self._zero: Place | None = None
        # Assume that an optimizer's gradients were reset if any of them changed since its last
        # recorded step.
        self._zeroed: set[int] = {
            id(optimizer)
            for optimizer, before in [*_last_seen.items()]
            if any(_autograd.version(one) != version for one, version in before.items())
        }
        self._cleared: set[int] = set()
        self._closure: tuple[Optimizer, Place | None, WeakTensorKeyDictionary] | None = None

    def note_backward(self, place: Place | None) -> None:
        """Record a backward pass that accumulated into gradients.

        `place` is its place in the code, or None if unknown.
        """
        if self._closure is not None:
            optimizer, step, before = self._closure
            gradients = _gradients_of(optimizer)
            kept = [one for one in gradients if id(one) not in self._cleared]
            if _has_grown(kept, before):
                self.accumulated = Mistake(step, place, in_closure=True)
            self._closure = optimizer, step, _versions_of(gradients)
        self._backward, self._zero, self._cleared = place, None, set()

    def note_zero(
        self, find_place: Callable[[], Place | None], tensors: Iterable[Tensor] = ()
    ) -> None:
        """Record a possible reset: a gradient was set to None, or a tensor was filled.

        `find_place` is called only if the place is needed. `tensors` has the tensor that was
        filled, or the one whose gradient was set to None.
        """
        self._zeroed.update(map(id, _last_seen))
        self._cleared.update(map(id, tensors))
        if self._zero is None and self._backward is not None:
            self._zero = find_place()

    def note_rounding(
        self, place: Place | None, pairs: Iterable[tuple[Tensor | None, Tensor]]
    ) -> None:
        """Record how few parameter values an optimizer step changed, if fewer than half.

        Rounding to half precision may undo an update. Only values with a nonzero gradient count.

        Args:
            place: The place in the code of the optimizer step.
            pairs: Each parameter after the optimizer step, None if it was deleted, and a copy from
                before.
        """
        moved = wanted = 0
        for now, before in pairs:
            if now is not None and now.grad is not None and not now.grad.is_sparse:
                has_gradient = now.grad != 0
                wanted += int(has_gradient.sum())
                moved += int((has_gradient & (now != before)).sum())
        if moved < wanted * FEW:
            self.rounded = place, moved / wanted

    def note_step(self, optimizer: Optimizer, place: Place | None, *, has_closure: bool) -> None:
        """Record that an optimizer starts a step, and check its gradients for mistakes.

        `place` is the place of the step in the code, or None if unknown.
        """
        gradients = _gradients_of(optimizer)
        self._closure = (optimizer, place, _versions_of([])) if has_closure else None
        is_cleared = self._cleared.issuperset(map(id, gradients))
        is_empty = is_cleared and not any(map(Tensor.any, gradients))
        if self._zero is not None and is_empty and not has_closure:
            self.emptied = Mistake(place, self._zero)
        is_added = _has_grown(gradients, _last_seen.get(optimizer, {}))
        if (
            is_added
            and not has_closure
            and id(optimizer) not in self._zeroed
            and self._backward is not None
        ):
            self.accumulated = Mistake(place, self._backward)
        _last_seen[optimizer] = _versions_of(gradients)
        self._zeroed.discard(id(optimizer))
        self._backward = self._zero = None


def _gradients_of(optimizer: Optimizer) -> list[Tensor]:
    """Return the first few gradients of the parameters of an optimizer."""
    held = [one.grad for group in optimizer.param_groups for one in group["params"]]
    return [one for one in held if one is not None][:MOST_GRADIENTS]


def _has_grown(gradients: Iterable[Tensor], before: Mapping[Tensor, float | None]) -> bool:
    """Check whether the version of a gradient increased since the versions in `before`."""
    return any(
        (_autograd.version(one) or 0) > (before.get(one, math.inf) or 0) for one in gradients
    )


def _versions_of(gradients: Iterable[Tensor]) -> WeakTensorKeyDictionary:
    return WeakTensorKeyDictionary({one: _autograd.version(one) for one in gradients})
