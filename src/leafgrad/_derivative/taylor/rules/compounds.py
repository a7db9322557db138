"""Rules for what PyTorch computes in one node, and series in a few steps."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leafgrad._derivative.taylor import batch_axes, jet
from leafgrad._derivative.taylor.jet import Jet, add, integral, multiply
from leafgrad._derivative.taylor.rules.arithmetic import divide
from leafgrad._derivative.taylor.series import Series, together
from leafgrad._derivative.taylor.step import Rule, Step
from leafgrad._derivative.taylor.unsupported import unsupported_if


def _hypot(step: Step, x: Series | None, y: Series | None) -> Series | None:
    squares = [
        jet.square(step.tensor(name), series)
        for name, series in (("self", x), ("other", y))
        if series is not None
    ]
    return jet.sqrt_from(step.tensor("result"), sum(squares[1:], squares[0]))


def _log_add_exp(step: Step, x: Series | None, y: Series | None) -> Series | None:
    # y + softplus(x - y), in which nothing overflows.
    one, two = step.jet("self", x), step.jet("other", y)
    are_gone = (one.value == two.value) & one.value.isinf()  # exponentials of zero, as masks make
    difference = one - two
    between = Jet(difference.value.masked_fill(are_gone, 0), difference.series)
    softplus = between.to(between.value, lambda series: integral(between.sigmoid(), series))
    return add(y, softplus.series)


def _remainder(_: Step, x: Series | None, divisor: Series | None = None) -> Series | None:
    unsupported_if(divisor is not None, "its divisor depends on inputs")
    return x


def _divided_and_rounded(step: Step, x: Series | None, y: Series | None) -> Series | None:
    return divide(step, x, y) if step.saved("rounding_mode") is None else None


def _divided_by_a_number_and_rounded(step: Step, x: Series) -> Series | None:
    return x.scaled(1 / step.saved("other")) if step.saved("rounding_mode") is None else None


def _addcdiv(step: Step, z: Series | None, x: Series | None, y: Series | None) -> Series | None:
    divisor = step.tensor("tensor2")
    if y is not None:
        quotient = multiply(step.jet("tensor1", x), Jet(divisor, y).reciprocal())
    else:
        quotient = None if x is None else x.divided(divisor)
    return add(z, None if quotient is None else quotient.scaled(step.saved("value")))


def _cross(step: Step, x: Series | None, y: Series | None) -> Series | None:
    dim = step.saved("dim") - len(step.shape) * (step.saved("dim") >= 0)
    by_x = None if x is None else _crossed(x, step.tensor("other"), dim)
    by_y = None if y is None else -_crossed(y, step.tensor("self"), dim)
    linear = add(by_x, by_y)
    if linear is None or x is None or y is None:
        return linear
    x, y = together(x, y)
    up = linear.plus_product(_turned(x, 1, dim), _turned(y, 2, dim))
    return up.plus_product(-_turned(x, 2, dim), _turned(y, 1, dim))


def _crossed(x: Series, other: Tensor, dim: int) -> Series:
    wide = x.broadcast(torch.broadcast_shapes(x.shape, other.shape))
    batch_axes.free(wide.axes, [dim])
    return wide.changed(torch.linalg.cross(wide.full(dim), other.unsqueeze(0), dim=dim))


def _turned(x: Series, count: int, dim: int) -> Series:
    """Let each entry of three take the place of the one that many before it."""
    return x.changed(x.full(dim).roll(-count, dim))


def _diagonal(step: Step, x: Series) -> Series:
    batch_axes.free(x.axes, [-1])
    ndim = len(step.shape)
    dims = [step.saved(name) % ndim for name in ("dim1", "dim2")]
    axes = iter(x.axes[:-1])
    stack = x.full(-1).diag_embed(step.saved("offset"), *(dim - ndim for dim in dims))
    wide = tuple(() if n in dims else next(axes) for n in range(ndim))
    return x.changed(stack, shape=step.shape, axes=wide)


RULES: dict[str, Rule] = {
    "HypotBackward0": Rule(_hypot, rowwise=True),
    "LogaddexpBackward0": Rule(_log_add_exp, rowwise=True),
    "RemainderBackward0": Rule(_remainder, rowwise=True),
    "RemainderBackward1": Rule(_remainder, rowwise=True),
    "FmodBackward0": Rule(_remainder, rowwise=True),
    "FmodBackward1": Rule(_remainder, rowwise=True),
    "DivBackward2": Rule(_divided_and_rounded, rowwise=True),
    "DivBackward3": Rule(_divided_by_a_number_and_rounded, rowwise=True),
    "AddcdivBackward0": Rule(_addcdiv, rowwise=True),
    "LinalgCrossBackward0": Rule(_cross),
    "DiagEmbedBackward0": Rule(_diagonal),
    "Deg2RadBackward0": Rule(lambda _, x: x.scaled(math.pi / 180), rowwise=True),
    "Rad2DegBackward0": Rule(lambda _, x: x.scaled(180 / math.pi), rowwise=True),
}
