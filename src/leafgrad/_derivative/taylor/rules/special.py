"""Rules for elementwise special functions: ``sinc``, ``x log(y)`` and ``log_ndtr``.

For a value a, ``[*shape]``, and a series h, ``[K, *shape]``, a rule returns ``F(a + h) - F(a)``,
``[K, *shape]``. The equations are from NIST's Digital Library of Mathematical Functions, chapter 7.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leafgrad._derivative.taylor.jet import Jet, compose, integral, multiply
from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.series import Series


def _log_ndtr(step: Step, x: Series) -> Series:
    """Return the logarithm of the normal distribution function P, in the shape of x.

    It is the integral of s = ``P' / P``, which solves ``s' = -s (x + s)``. Picard's iteration
    solves the equation: after each step, the series of s is right by one more degree.
    """
    jet = step.jet("self", x)
    value = math.sqrt(2 / math.pi) / torch.special.erfcx(jet.value * -math.sqrt(0.5))
    s = Jet(value, None)
    for _ in range(x.algebra.order):
        s = Jet(value, integral(-s * (jet + s), x))
    return integral(s, x)


def _times_log(value: Tensor, x: Series | None, logarithm: Jet) -> Series | None:
    """Return x times a logarithm, in the broadcast shape; `value` is the value of x.

    Where zero is multiplied by an infinite or NaN logarithm, the result is zero if one of the two
    is constant. Otherwise it is NaN, as in PyTorch: the slope of ``x log(x)`` at zero is infinite.
    """
    if x is not None and logarithm.series is not None:
        return multiply(Jet(value, x), logarithm)
    is_gone = (value == 0) & ~logarithm.value.isfinite()
    finite = Jet(logarithm.value.masked_fill(is_gone, 0), logarithm.series)
    product = multiply(Jet(value, x), finite)
    return product and product.masked(~is_gone)


def _number_times_log(step: Step, y: Series) -> Series | None:
    """Return ``x log(y)`` for a Python number x, in the shape of y.

    None stands for a series that is zero.
    """
    number = torch.full_like(step.tensor("other"), step.saved("self"))
    return _times_log(number, None, step.jet("other", y).log())


def _times_log_of_number(step: Step, x: Series) -> Series | None:
    """Return ``x log(y)`` for a Python number y, in the shape of x.

    None stands for a series that is zero.
    """
    value = step.tensor("self")
    number = torch.full_like(value, step.saved("other"))
    return _times_log(value, x, Jet(number.log(), None))


def _sinc(step: Step, x: Series) -> Series:
    """Return ``sin(pi x) / (pi x)``, which is 1 at zero, in the shape of x."""
    found = _derivatives_of_sinc(step.tensor("self") * math.pi, x.algebra.order)
    terms = [derivative / math.factorial(n) for n, derivative in enumerate(found, start=1)]
    return compose(x.scaled(math.pi), terms)


def _derivatives_of_sinc(z: Tensor, order: int) -> list[Tensor]:
    """Return the derivatives of ``f = sin(z) / z``, ``[*shape]``, from the first to `order`.

    Since ``z f^(n) + n f^(n-1)`` is the n-th derivative of the sine, each follows from the one
    before. This loses no digits if z is larger than n. Elsewhere, the power series is used.
    """
    is_near = z.abs() < order + 1
    near, far = torch.where(is_near, z, 0), torch.where(is_near, order + 1, z)
    lower, found = far.sin() / far, []
    for n in range(1, order + 1):
        lower = ((far + n * math.pi / 2).sin() - n * lower) / far
        found.append(torch.where(is_near, _sinc_near_zero(near, n, 2 * order + 12), lower))
    return found


def _sinc_near_zero(z: Tensor, n: int, last: int) -> Tensor:
    """Return the n-th derivative of ``sin(z) / z`` by its power series, ``[*shape]``.

    The series is the sum of ``(-1)**k z**(2 k) / (2 k + 1)!``, up to k = `last`. The n-th
    derivative of ``z**(2 k) / (2 k + 1)!`` is ``z**(2 k - n) / ((2 k - n)! (2 k + 1))``.
    """
    first = -(-n // 2)
    total = torch.zeros_like(z)
    for k in range(last, first - 1, -1):
        total = total * z * z + (-1) ** k / (math.factorial(2 * k - n) * (2 * k + 1))
    return total * z ** (2 * first - n)


RULES: dict[str, Rule] = {
    "SincBackward0": Rule(_sinc, rowwise=True),
    "XlogyBackward0": Rule(
        lambda step, x, y: _times_log(step.tensor("self"), x, step.jet("other", y).log()),
        rowwise=True,
    ),
    "XlogyBackward1": Rule(_number_times_log, rowwise=True),
    "XlogyBackward2": Rule(_times_log_of_number, rowwise=True),
    "SpecialLogNdtrBackward0": Rule(_log_ndtr, rowwise=True),
}
