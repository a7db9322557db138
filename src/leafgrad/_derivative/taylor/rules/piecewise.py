"""Rules for piecewise functions. At a kink, they use the slope of PyTorch's formula.

Each rule is elementwise, from ``[K, *shape]`` to ``[K, *shape]``. The value of an element decides
which piece of the function applies to its series.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from leafgrad._derivative.taylor import jet as jets
from leafgrad._derivative.taylor.jet import multiply, where
from leafgrad._derivative.taylor.kernels import derivatives
from leafgrad._derivative.taylor.kernels.composed import MOST
from leafgrad._derivative.taylor.rule import Propagate, Rule, Step
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import Unsupported, unsupported_if


def _mask(keep: Callable[[Step], Tensor]) -> Propagate:
    """Return the rule of a function with slope 1 where `keep` returns true, and 0 elsewhere.

    `keep` returns a mask ``[*shape]``.
    """
    return lambda step, x: x.masked(keep(step))


def _clamp(step: Step, x: Series | None, *limits: Series | None) -> Series | None:
    """Return x where its value is within both limits, and 0 elsewhere, in the shape of x.

    Raise `Unsupported` if a limit has a series. None stands for a series that is zero.
    """
    if x is None or any(limit is not None for limit in limits):
        raise Unsupported("reason.limits")
    low, high = step.saved("min"), step.saved("max")
    value = step.tensor("self")
    inside = torch.ones_like(value, dtype=torch.bool)
    for limit, sign in ((low, 1), (high, -1)):
        if limit is not None:
            inside = inside & _keep(value, limit, sign)
    return x.masked(inside)


def _clamp_one(name: str, sign: int) -> Propagate:
    """Return the rule of an elementwise clamp by one limit, saved under `name`.

    `sign` is 1 for a lower limit and -1 for an upper one.
    """

    def rule(step: Step, x: Series | None, limit: Series | None = None) -> Series | None:
        if x is None or limit is not None:
            raise Unsupported("reason.limits")
        return x.masked(_keep(step.tensor("self"), step.saved(name), sign))

    return rule


def _keep(value: Tensor, limit: Tensor | float, sign: int) -> Tensor:
    """Return a mask ``[*shape]`` that is true where a clamp does not change the value.

    `sign` is 1 for a lower limit and -1 for an upper one. Since PyTorch 2.14, the slope at a limit
    is 1, 1/2 or 0, depending on how the limit was passed, so `Unsupported` is raised for a value at
    a limit.
    """
    if torch.__version__ >= "2.14":
        unsupported_if(bool((value == limit).any()), "at-limit")
    return sign * value >= sign * limit


def _inside(step: Step, low: float, high: float) -> Tensor:
    """Return a mask ``[*shape]`` that is true where the saved value is between two numbers."""
    value = step.tensor("self")
    return (value > low) & (value < high)


def _elu(step: Step, x: Series, scale: float, input_scale: float) -> Series | None:
    """Return ``scale (x if x > 0 else alpha (exp(input_scale x) - 1))``, in the shape of x.

    None stands for a series that is zero.
    """
    value = step.tensor("self")
    if x.algebra.order <= MOST:
        sides = partial(
            derivatives.of_elu, slope=scale / input_scale, depth=scale * step.saved("alpha")
        )
        inner = value if input_scale == 1 else value * input_scale
        return x.scaled(input_scale).compose(sides, inner)
    x = x.computed()
    # The exponential must not overflow where it is not used, because its gradient would be NaN.
    depth = scale * step.saved("alpha")
    falling = (value.clamp(max=0) * input_scale).exp() * depth
    curved = jets.exp_of(x.scaled(input_scale)).scaled(falling)
    # At zero, PyTorch's first derivative is that from the left, and higher ones are zero.
    straight = where(value > 0, x.scaled(scale), x.scaled(depth * input_scale))
    return where(value >= 0, straight, curved)


def _hardswish(step: Step, x: Series) -> Series | None:
    """Return ``x (x + 3) / 6`` between -3 and 3, x above and 0 below, in the shape of x.

    None stands for a series that is zero.
    """
    jet = step.jet("self", x)
    curved = multiply(jet, (jet + 3) / 6)
    inside = _inside(step, -3, 3)
    return where(inside, curved, x.masked(jet.value >= 3))  # noqa: PLR2004


def _extreme(sign: int) -> Propagate:
    """Return the rule of `maximum` (sign 1) or `minimum` (sign -1).

    Where the two elements are equal, each contributes one half.
    """

    def rule(step: Step, x: Series | None, y: Series | None) -> Series | None:
        one, two = step.tensor("self"), step.tensor("other")
        share = ((sign * one > sign * two).to(one) + (sign * one >= sign * two).to(one)) / 2
        left = None if x is None else x.scaled(share)
        right = None if y is None else y.scaled(1 - share)
        return jets.add(left, right)

    return rule


def _masked_fill(step: Step, x: Series | None, fill: Series | None = None) -> Series | None:
    """Return the series of the fill value where the mask ``[*shape]`` is true, and x elsewhere.

    None stands for a series that is zero.
    """
    return where(step.tensor("mask"), fill, x)


def _prelu(step: Step, x: Series | None, weight: Series | None) -> Series | None:
    """Return x where it is positive, and x times the weight elsewhere, in the shape of x.

    None stands for a series that is zero.
    """
    jet = step.jet("self", x)
    falling = multiply(jet, step.jet("weight", weight))
    return where(jet.value > 0, x, falling)


def _zero(*_: Any) -> None:
    """Return None, which stands for zero: the function is piecewise constant."""


def _remainder(_: Step, x: Series | None, divisor: Series | None = None) -> Series | None:
    """Return x unchanged, because the derivative of a remainder by the dividend x is 1.

    Raise `Unsupported` if the divisor has a series. None stands for a series that is zero.
    """
    unsupported_if(divisor is not None, "divisor")
    return x


RULES: dict[str, Rule] = {
    "ReluBackward0": Rule(_mask(lambda step: step.tensor("result") > 0), rowwise=True),
    "ThresholdBackward0": Rule(
        _mask(lambda step: step.tensor("self") > step.saved("threshold")), rowwise=True
    ),
    "LeakyReluBackward0": Rule(
        lambda step, x: where(step.tensor("self") > 0, x, x.scaled(step.saved("negative_slope"))),
        rowwise=True,
    ),
    "ClampBackward0": Rule(_clamp, rowwise=True),
    "ClampBackward1": Rule(_clamp, rowwise=True),
    "ClampMinBackward0": Rule(_clamp_one("min", 1), rowwise=True),
    "ClampMinBackward1": Rule(_clamp_one("min", 1), rowwise=True),
    "ClampMaxBackward0": Rule(_clamp_one("max", -1), rowwise=True),
    "ClampMaxBackward1": Rule(_clamp_one("max", -1), rowwise=True),
    "HardtanhBackward0": Rule(
        _mask(lambda step: _inside(step, step.saved("min_val"), step.saved("max_val"))),
        rowwise=True,
    ),
    "HardsigmoidBackward0": Rule(
        lambda step, x: x.scaled(1 / 6).masked(_inside(step, -3, 3)), rowwise=True
    ),
    "HardswishBackward0": Rule(_hardswish, rowwise=True),
    "EluBackward0": Rule(
        lambda step, x: _elu(step, x, step.saved("scale"), step.saved("input_scale")), rowwise=True
    ),
    "CeluBackward0": Rule(lambda step, x: _elu(step, x, 1, 1 / step.saved("alpha")), rowwise=True),
    "PreluKernelBackward0": Rule(_prelu, rowwise=True),
    "WhereBackward0": Rule(
        lambda step, x, y: where(step.tensor("condition"), x, y), rowwise=True, is_for_complex=True
    ),
    "MaskedFillBackward0": Rule(_masked_fill, rowwise=True, is_for_complex=True),
    "MaskedFillBackward1": Rule(_masked_fill, rowwise=True, is_for_complex=True),
    "MaximumBackward0": Rule(_extreme(1), rowwise=True),
    "MinimumBackward0": Rule(_extreme(-1), rowwise=True),
    "NanToNumBackward0": Rule(_mask(lambda step: step.tensor("self").isfinite()), rowwise=True),
    "FloorBackward0": Rule(_zero, rowwise=True),
    "CeilBackward0": Rule(_zero, rowwise=True),
    "RoundBackward0": Rule(_zero, rowwise=True),
    "RoundBackward1": Rule(_zero, rowwise=True),
    "TruncBackward0": Rule(_zero, rowwise=True),
    "SignBackward0": Rule(_zero, rowwise=True),
    "FracBackward0": Rule(lambda _, x: x, rowwise=True),
    "RemainderBackward0": Rule(_remainder, rowwise=True),
    "RemainderBackward1": Rule(_remainder, rowwise=True),
    "FmodBackward0": Rule(_remainder, rowwise=True),
    "FmodBackward1": Rule(_remainder, rowwise=True),
}
