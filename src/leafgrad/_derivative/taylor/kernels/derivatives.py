"""Derivatives F', F'', ... of elementwise functions, up to the fifth or the last nonzero one.

Each generator `of_...` takes the argument x ``[*shape]`` as `value` and yields one pair for each
derivative: a tensor ``[*shape]`` and a number. The derivative is their product. The generators use
differentiable operations and compute a derivative only when the caller requests it. Some formulas
multiply x by a factor that vanishes at infinity. They clamp x first, because infinity times zero is
NaN. The bounds do not change the result: ``exp(-40**2 / 2)`` and ``sigmoid(-800)`` are zero in
double precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import cycle, islice, repeat

import torch
from torch import Tensor

from leafgrad._derivative.taylor.constants import number
from leafgrad._derivative.taylor.kernels.composed import MOST, Term
from leafgrad._derivative.taylor.kernels.products import keep_where, product_times

_NORMAL_IS_ZERO = 40.0
_LOGISTIC_IS_ZERO = 800.0


# --- Powers, waves and exponentials


def of_square(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of the square at `value`, elementwise: ``2 x`` and 2."""
    yield value, 2
    yield number(1.0, value.dtype, value.device), 2


def of_cube(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of the cube at `value`, elementwise: ``3 x**2``, ``6 x`` and 6."""
    yield value * value, 3
    yield value, 6
    yield number(1.0, value.dtype, value.device), 6


def of_sin(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of sin at `value`, elementwise: cos, -sin, -cos, sin and so on."""
    sine, cosine = value.sin(), value.cos()
    yield from cycle([(cosine, 1), (sine, -1), (cosine, -1), (sine, 1)])


def of_cos(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of cos at `value`, elementwise: -sin, -cos, sin, cos and so on."""
    yield from islice(of_sin(value), 1, None)


def of_sinh(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of sinh at `value`, elementwise: cosh, sinh and so on."""
    yield from cycle([(value.cosh(), 1), (value.sinh(), 1)])


def of_cosh(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of cosh at `value`, elementwise: sinh, cosh and so on."""
    yield from islice(of_sinh(value), 1, None)


def of_asin(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of arcsin, elementwise.

    They are ``F' = (1 - x**2)**(-1/2)``, ``F'' = x F' / (1 - x**2)`` and so on. Differentiate
    ``(1 - x**2) F'' = x F'`` k times to get

        (1 - x**2) F^(k+2) = k**2 F^(k) + (2 k + 1) x F^(k+1)

    All terms have the same sign, so nothing cancels.
    """
    one = number(1.0, value.dtype, value.device)
    inverse = ((one - value) * (one + value)).reciprocal()
    slope = value * inverse
    below = inverse.sqrt()
    yield below, 1
    last = below * slope
    yield last, 1
    for k in range(1, MOST):
        start = product_times(below, inverse, k * k)
        below, last = last, torch.addcmul(start, slope, last, value=2 * k + 1)
        yield last, 1


def of_acos(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of arccos at `value`, elementwise.

    They are those of arcsin with the opposite sign.
    """
    yield from ((tensor, -factor) for tensor, factor in of_asin(value))


def of_erf(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of erf at `value`, elementwise.

    They are ``2 / sqrt(pi) exp(-x**2)`` times polynomials.
    """
    scale = 2 / math.sqrt(math.pi)
    value = value.clamp(-_NORMAL_IS_ZERO, _NORMAL_IS_ZERO)
    square = value * value
    bell = (-square).exp()
    yield bell, scale
    odd = bell * value
    yield odd, -2 * scale
    yield bell * (2 * square - 1), 2 * scale
    yield odd * (3 - 2 * square), 4 * scale
    yield bell * (square * (4 * square - 12) + 3), 4 * scale


# --- Activations


def of_softplus(value: Tensor, threshold: float) -> Iterator[Term]:
    """Yield the derivatives of softplus, elementwise: the logistic function and its derivatives.

    For x above the threshold, yield 1, and zeros for the higher derivatives.
    """
    most = torch.full_like(value, 2 * _LOGISTIC_IS_ZERO)
    far: Tensor = torch.ops.aten.threshold_backward(most, value, threshold)
    yield from zip(_logistic(value + far), repeat(1), strict=False)


def of_log_sigmoid(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of the logarithm of the logistic function, elementwise.

    The first is the logistic function at -x.
    """
    yield from zip(_logistic(-value), cycle([1, -1]), strict=False)


def of_silu(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of SiLU, elementwise.

    They are ``d s^(d-1) + x s^(d)`` for d = 1, 2, ..., where s is the logistic function.
    """
    value = value.clamp(-_LOGISTIC_IS_ZERO, _LOGISTIC_IS_ZERO)
    yield from _gated(value, _logistic(value))


def of_mish(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of Mish, elementwise.

    They are ``d t^(d-1) + x t^(d)`` for d = 1, 2, ..., where t is tanh of softplus.
    """
    value = value.clamp(-_LOGISTIC_IS_ZERO, _LOGISTIC_IS_ZERO)
    yield from _gated(value, _tanh_of_softplus(value))


def _gated(value: Tensor, gates: Iterator[Tensor]) -> Iterator[Term]:
    """Yield the derivatives of ``x g(x)``, elementwise, where x is `value`.

    `gates` yields g and its derivatives.
    """
    below = next(gates)
    for d, slope in enumerate(gates, start=1):
        yield torch.addcmul(below if d == 1 else below * d, value, slope), 1
        below = slope


def _tanh_of_softplus(value: Tensor) -> Iterator[Tensor]:
    """Yield ``t = tanh(softplus(x))`` and its derivatives, up to the fifth, elementwise.

    With ``s = sigmoid(x)`` and ``c = sigmoid(-x)``,

        t = (s + s c) / (1 + c**2),   t' = s (2 c / (1 + c**2))**2,   t'' = t' a,   a = c - 2 t s.

    The formulas for t and t' have no cancellation. The other derivatives follow from the product
    rule.
    """
    s, c = value.sigmoid(), (-value).sigmoid()
    below = 1 + c * c
    t = torch.addcmul(s, s, c) / below
    yield t
    half = c / below
    first = half * half * s * 4
    yield first
    a = torch.addcmul(c, t, s, value=-2)
    second = first * a
    yield second
    v = s * c
    a1 = -v - 2 * torch.addcmul(first * s, t, v)
    third = torch.addcmul(second * a, first, a1)
    yield third
    v1 = v * (c - s)
    a2 = -v1 - 2 * (second * s + 2 * first * v + t * v1)
    fourth = third * a + 2 * second * a1 + first * a2
    yield fourth
    v2 = v * (1 - 6 * v)
    a3 = -v2 - 2 * (third * s + 3 * second * v + 3 * first * v1 + t * v2)
    yield fourth * a + 3 * third * a1 + 3 * second * a2 + first * a3


def _logistic(value: Tensor) -> Iterator[Tensor]:
    """Yield the logistic function s and its derivatives, up to the fifth, elementwise.

    They are polynomials in ``v = s(x) s(-x)``; those of even order are multiplied by
    ``-tanh(x / 2)``. The equal expressions ``s - s**2`` and ``1 - 2 s`` lose all digits if s is
    close to 1 or to 1/2.
    """
    s = value.sigmoid()
    yield s
    v = s * (-value).sigmoid()
    yield v
    second = -v * (value / 2).tanh()
    yield second
    yield torch.addcmul(v, v, v, value=-6)
    yield torch.addcmul(second, second, v, value=-12)
    yield v * (1 + v * (120 * v - 30))


def of_gelu(value: Tensor) -> Iterator[Term]:
    """Yield the derivatives of GELU, elementwise.

    GELU is ``x P(x)`` for the normal distribution function P. From the second on, each derivative
    is the normal density times a polynomial.
    """
    value = value.clamp(-_NORMAL_IS_ZERO, _NORMAL_IS_ZERO)
    first: Tensor = torch.ops.aten.gelu_backward(torch.ones_like(value), value)
    yield first, 1
    scale = math.sqrt(0.5 / math.pi)
    square = value * value
    bell = (square * -0.5).exp()
    yield bell * (2 - square), scale
    odd = bell * value
    yield odd * (square - 4), scale
    yield bell * (square * (7 - square) - 4), scale
    yield odd * (square * (square - 11) + 18), scale


def of_elu(value: Tensor, slope: float, depth: float) -> Iterator[Term]:
    """Yield the derivatives of ELU, elementwise.

    Below zero, all are ``depth exp(x)``. Above zero, the first is `slope` and the others are zero.
    At zero, the first is that from the left and the others are zero, as in PyTorch's formula.
    """
    one = torch.ones_like(value)
    falling: Tensor = torch.ops.aten.elu_backward(one, depth / slope, slope, 1, False, value)  # noqa: FBT003
    first = torch.add(falling, value.clamp(-1, 1), alpha=0)  # NaN where the value is NaN
    yield first, 1
    yield from cycle([(keep_where(-value, first), 1)])
