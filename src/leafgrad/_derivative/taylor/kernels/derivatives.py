"""Derivatives of functions at a value: F', F'' and so on, as many as are asked for, up to five.

Fewer are given where all others are zero. Each takes the argument ``[*shape]`` and gives tensors ``[*shape]``, each with a number that it is
multiplied by, made by operations that record themselves. In sums of products with what vanishes far out, arguments are cut off first, so that
infinity gives no NaN: ``exp(-40**2 / 2)`` and ``sigmoid(-800)`` are zero in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle, islice

import torch
from torch import Tensor

from leafgrad._derivative.taylor.constants import number
from leafgrad._derivative.taylor.kernels.composed import Term
from leafgrad._derivative.taylor.kernels.products import kept_where

_NORMAL_IS_ZERO = 40.0
_LOGISTIC_IS_ZERO = 800.0


def of_sin(value: Tensor, count: int) -> Sequence[Term]:
    """Return cos, -sin, -cos, sin and so on."""
    sine, cosine = value.sin(), value.cos()
    return [*islice(cycle([(cosine, 1), (sine, -1), (cosine, -1), (sine, 1)]), count)]


def of_cos(value: Tensor, count: int) -> Sequence[Term]:
    """Return -sin, -cos, sin, cos and so on."""
    return of_sin(value, count + 1)[1:]


def of_sinh(value: Tensor, count: int) -> Sequence[Term]:
    """Return cosh, sinh and so on."""
    return [*islice(cycle([(value.cosh(), 1), (value.sinh(), 1)]), count)]


def of_cosh(value: Tensor, count: int) -> Sequence[Term]:
    """Return sinh, cosh and so on."""
    return of_sinh(value, count + 1)[1:]


def of_cube(value: Tensor, count: int) -> Sequence[Term]:
    """Return 3 x**2, 6 x and 6, after which there is nothing."""
    one = number(1.0, value.dtype, value.device)
    return [(value * value, 3), (value, 6), (one, 6)][:count]


def of_square(value: Tensor, _: int) -> Sequence[Term]:
    """Return 2 x and 2, after which there is nothing."""
    return [(value, 2), (number(1.0, value.dtype, value.device), 2)]


def of_erf(value: Tensor, count: int) -> Sequence[Term]:
    """Return the density ``2 / sqrt(pi) exp(-x**2)`` times a polynomial, each time."""
    value = value.clamp(-_NORMAL_IS_ZERO, _NORMAL_IS_ZERO)
    square = value * value
    bell = (-square).exp()
    odd = bell * value
    makers = [
        lambda: (bell, 1),
        lambda: (odd, -2),
        lambda: (bell * (2 * square - 1), 2),
        lambda: (odd * (3 - 2 * square), 4),
        lambda: (bell * (square * (4 * square - 12) + 3), 4),
    ]
    made = [make() for make in makers[:count]]
    return [(tensor, factor * 2 / math.sqrt(math.pi)) for tensor, factor in made]


def of_asin(value: Tensor, count: int) -> Sequence[Term]:
    """Return odd powers of r = ``1 / sqrt(1 - x**2)`` times a polynomial, each time."""
    inverse = (1 - value) * (1 + value)
    root = inverse.rsqrt()
    square = value * value
    makers = [
        lambda: root,
        lambda: root / inverse * value,
        lambda: root / inverse**2 * (1 + 2 * square),
        lambda: root / inverse**3 * value * (9 + 6 * square),
        lambda: root / inverse**4 * (square * (24 * square + 72) + 9),
    ]
    return [(make(), 1) for make in makers[:count]]


def of_acos(value: Tensor, count: int) -> Sequence[Term]:
    """Return those of the arc sine, with the other sign."""
    return [(tensor, -factor) for tensor, factor in of_asin(value, count)]


def of_softplus(value: Tensor, count: int, *, threshold: float) -> Sequence[Term]:
    """Return the logistic function and its derivatives, 1 and zeros above the threshold."""
    far = torch.ops.aten.threshold_backward(
        torch.full_like(value, 2 * _LOGISTIC_IS_ZERO), value, threshold
    )
    return [(each, 1) for each in _logistic((value + far).sigmoid(), count)]


def of_elu(value: Tensor, count: int, *, slope: float, depth: float) -> Sequence[Term]:
    """Return the slope above zero, and ``depth exp(x)``, as often, below it.

    At zero, PyTorch's formula gives the slope from the left, and no bend.
    """
    one = torch.ones_like(value)
    first = torch.ops.aten.elu_backward(one, depth / slope, slope, 1, False, value)  # noqa: FBT003
    first = torch.add(first, value.clamp(-1, 1), alpha=0)  # not a number where the value is none
    bent = kept_where(-value, first)
    return [(first, 1), *[(bent, 1)] * (count - 1)]


def of_log_sigmoid(value: Tensor, count: int) -> Sequence[Term]:
    """Return the logistic function of -x and its derivatives."""
    slopes = enumerate(_logistic((-value).sigmoid(), count))
    return [(each, (-1) ** d) for d, each in slopes]


def of_silu(value: Tensor, count: int) -> Sequence[Term]:
    """Return ``x s^(d) + d s^(d-1)`` for the logistic function s."""
    value = value.clamp(-_LOGISTIC_IS_ZERO, _LOGISTIC_IS_ZERO)
    s = _logistic(value.sigmoid(), count + 1)
    weighted = (s[d - 1] if d == 1 else s[d - 1] * d for d in range(1, count + 1))
    return [(torch.addcmul(w, value, each), 1) for w, each in zip(weighted, s[1:], strict=True)]


def _logistic(s: Tensor, count: int) -> Sequence[Tensor]:
    """Return the logistic function s and its derivatives, which are polynomials in ``s - s**2``.

    Those of odd order are such polynomials times ``1 - 2 s``.
    """
    v = torch.addcmul(s, s, s, value=-1)
    makers = [
        lambda: torch.addcmul(v, v, s, value=-2),
        lambda: torch.addcmul(v, v, v, value=-6),
        lambda: torch.addcmul(found[2], found[2], v, value=-12),
        lambda: v * (1 + v * (120 * v - 30)),
    ]
    found = [s, v]
    for make in makers[: max(count - 2, 0)]:
        found.append(make())
    return found[:count]


def of_gelu(value: Tensor, count: int) -> Sequence[Term]:
    """Return the normal distribution function plus x times its density, and what follows.

    From the second on, these are the density times a polynomial.
    """
    value = value.clamp(-_NORMAL_IS_ZERO, _NORMAL_IS_ZERO)
    square = value * value
    bell = (square * -0.5).exp()
    odd = bell * value
    polynomials = [
        lambda: bell * (2 - square),
        lambda: odd * (square - 4),
        lambda: bell * (square * (7 - square) - 4),
        lambda: odd * (square * (square - 11) + 18),
    ]
    first = torch.ops.aten.gelu_backward(torch.ones_like(value), value)
    return [(first, 1), *((make(), math.sqrt(0.5 / math.pi)) for make in polynomials[: count - 1])]
