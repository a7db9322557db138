"""Rules for losses: a number for each element, of the broadcast shape, or their mean or sum.

Of an input a ``[*shape]`` with a series h ``[K, *shape]`` and a target t, both broadcast, they
return ``L(a + h, t) - L(a, t)``, ``[K, *shape]``, or its mean or sum, ``[K]``: by products where L
is a polynomial of the difference ``a - t``, and else as the integral of L' over h. A mean or a sum
over rows lets these meet, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leafgrad._derivative.taylor import jet as jets
from leafgrad._derivative.taylor.jet import Jet, add, integral
from leafgrad._derivative.taylor.rule import Propagate, Rule, Step
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import Unsupported

_NOTHING, _MEAN, _SUM = range(3)  # how nodes number reductions


def _reduced(step: Step, x: Series) -> Series:
    """Return each element, or the mean or sum of all, ``[K]``."""
    kind = step.saved("reduction")
    if kind == _NOTHING:
        return x
    total = x.summed(range(x.ndim), keepdim=False)
    return total.scaled(1 / torch.Size(x.shape).numel()) if kind == _MEAN else total


def _of_difference(loss: Callable[[Step, Tensor, Series], Series]) -> Propagate:
    """Make the rule of a loss of what input and target differ by, ``[K, *shape]``."""

    def rule(step: Step, x: Series | None, target: Series | None) -> Series | None:
        apart = add(x, target and -target)
        value = step.tensor("self") - step.tensor("target")
        return apart and _reduced(step, loss(step, value, apart.broadcast(value.shape)))

    return rule


def _smooth(name: str, steepness: Callable[[float], float]) -> Propagate:
    """Make the rule of a parabola up to a saved distance, and of lines from there on.

    The lines have a steepness that depends on the distance.
    """

    def loss(step: Step, value: Tensor, apart: Series) -> Series:
        reach = step.saved(name)
        slope = steepness(reach)
        curved = jets.square(value, apart).scaled(slope / (2 * reach))
        is_near = value.abs() < reach
        return curved.masked(is_near) + apart.scaled(slope * value.sgn()).masked(~is_near)

    return _of_difference(loss)


def _by_slope(slope: Callable[[Step, Jet, Tensor], Jet]) -> Propagate:
    """Make the rule of a loss with this slope ``[*shape]``, whose target is constant."""

    def rule(step: Step, x: Series | None, target: Series | None = None) -> Series:
        if x is None or target is not None:
            raise Unsupported("its target depends on inputs")
        weight = step.saved("weight") if step.name.startswith("BinaryCross") else None
        found = integral(slope(step, step.jet("self", x), step.tensor("target")), x.computed())
        return _reduced(step, found if weight is None else found.scaled(weight))

    return rule


def _cross_entropy(_: Step, x: Jet, target: Tensor) -> Jet:
    """Return the slope ``(x - t) / (x (1 - x))`` of the cross entropy, elementwise."""
    return (x - target) / (x * (1 - x))


def _cross_entropy_of_logits(step: Step, x: Jet, target: Tensor) -> Jet:
    """Return the slope ``(1 - t) sigmoid(x) - p t sigmoid(-x)``, elementwise; p is the weight."""
    weight = step.saved("pos_weight")
    true = target if weight is None else weight * target
    share = x.sigmoid()
    value = (1 - target) * share.value - true * (-x.value).sigmoid()
    return share.to(value, lambda series: series.scaled(1 - target + true))


def _soft_margin(_: Step, x: Jet, target: Tensor) -> Jet:
    """Return the slope ``-t sigmoid(-t x)`` of ``log(1 + exp(-t x))``, elementwise."""
    return (x * -target).sigmoid() * -target


def _of_class(step: Step, x: Series) -> Series:
    """Return minus the number of each target's class, ``[rows, classes, ...]`` or ``[classes]``.

    It is weighted by class, and zero where the target is to be ignored.
    """
    target, weight, ignored = (
        step.tensor("target"),
        step.saved("weight"),
        step.saved("ignore_index"),
    )
    axis = 0 if x.ndim == 1 else 1
    counts = target != ignored
    place = target.where(counts, 0)
    share = -counts.to(x.dtype) if weight is None else -weight[place] * counts
    full = x.full()
    index = place.unsqueeze(axis).expand(len(full), *place.unsqueeze(axis).shape)
    taken = x.changed(full.gather(axis + 1, index).squeeze(axis + 1), shape=target.shape)
    taken = taken.scaled(share)
    kind = step.saved("reduction")
    if kind == _NOTHING:
        return taken
    total = taken.summed(range(taken.ndim), keepdim=False)
    return total.divided(step.tensor("total_weight")) if kind == _MEAN else total


RULES: dict[str, Rule] = {
    "NllLossBackward0": Rule(_of_class),
    "NllLoss2DBackward0": Rule(_of_class),
    "MseLossBackward0": Rule(_of_difference(lambda _, value, apart: jets.square(value, apart))),
    "SmoothL1LossBackward0": Rule(_smooth("beta", lambda _: 1)),
    "HuberLossBackward0": Rule(_smooth("delta", lambda delta: delta)),
    "BinaryCrossEntropyBackward0": Rule(_by_slope(_cross_entropy)),
    "BinaryCrossEntropyWithLogitsBackward0": Rule(_by_slope(_cross_entropy_of_logits)),
    "SoftMarginLossBackward0": Rule(_by_slope(_soft_margin)),
}
