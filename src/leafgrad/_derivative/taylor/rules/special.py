"""Rules for special functions of each element by itself: gamma and error functions, logarithms.

All of them keep the shape: of a value a ``[*shape]`` and a series h ``[K, *shape]`` they return
``F(a + h) - F(a)``, ``[K, *shape]``, in one of two ways:

    by all derivatives        sum_n F^(n)(a) h**n / n!, where PyTorch has these
    by a differential         y' = s(x, y), whose solution is improved by one degree each time it
    equation                  is put in on the right (Picard's iteration, which ends here)

or, where one follows from functions that have rules, from those.

The equations are those of NIST's Digital Library of Mathematical Functions, chapters 5 and 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from leafgrad._derivative.taylor import jet as jets
from leafgrad._derivative.taylor.jet import Jet, compose, integral, multiply
from leafgrad._derivative.taylor.rule import Propagate, Rule, Step
from leafgrad._derivative.taylor.series import Series


def _by_polygamma(lowest: int, step: Step, x: Series) -> Series:
    """Return a function whose n-th derivative is polygamma of ``n + lowest``, of the shape of x."""
    value = step.tensor("self")
    degrees = range(1, x.algebra.order + 1)
    found = [torch.polygamma(n + lowest, value) / math.factorial(n) for n in degrees]
    return compose(x, found)


def _solution(slope: Callable[[Jet], Jet], y: Jet, x: Series) -> Series:
    """Return the series of y whose derivative in x is a function of y, all of one shape.

    The value of y is given, and its series is of no account.
    """
    series = integral(slope(Jet(y.value, None)), x)
    for _ in range(x.algebra.order - 1):
        series = integral(slope(Jet(y.value, series)), x)
    return series


def _erfinv(step: Step, x: Series) -> Series:
    """Return the solution of ``y' = sqrt(pi) / 2 exp(y**2)``, of the shape of x."""
    value = step.tensor("self").erfinv()
    return _solution(lambda y: (y * y).exp() * (math.sqrt(math.pi) / 2), Jet(value, None), x)


def _log_ndtr(step: Step, x: Series) -> Series:
    """Return the integral of s, the solution of ``s' = -s (x + s)``, of the shape of x.

    What is distributed normally has the density s times the distribution function.
    """
    jet = step.jet("self", x)
    half = jet.value * -math.sqrt(0.5)
    value = math.sqrt(2 / math.pi) / torch.special.erfcx(half)
    slope = Jet(value, _solution(lambda s: -s * (jet + s), Jet(value, None), x))
    return integral(slope, x)


def _logit(step: Step, x: Series) -> Series:
    """Return ``log(x / (1 - x))``, of the shape of x, constant where x is clamped."""
    value, eps = step.tensor("self"), step.saved("eps")
    if eps is None:
        return _log_odds(value, x)
    inside = (value >= eps) & (value <= 1 - eps)
    return _log_odds(value.masked_fill(~inside, 0.5), x).masked(inside)


def _log_odds(value: Tensor, x: Series) -> Series:
    """Return ``log(x / (1 - x))``, of the shape of x."""
    return jets.log_of(x.scaled(1 / value)) - jets.log_of(x.scaled(1 / (value - 1)))


def _entropy(step: Step, x: Series) -> Series | None:
    """Return ``-x log(x)``, of the shape of x, as the integral of its slope: infinite at zero."""
    return integral(-step.jet("self", x).log() - 1, x)


Logarithm = Callable[[Tensor, Series | None], Jet]  # of a value and its series


def _log(value: Tensor, y: Series | None) -> Jet:
    """Return ``log(y)``, of the shape of y."""
    return Jet(value, y).log()


def _log_of_one_and(value: Tensor, y: Series | None) -> Jet:
    """Return ``log(1 + y)``, of the shape of y."""
    return Jet(value.log1p(), y and jets.log_of(y.scaled(1 / (1 + value))))


def _times_log(value: Tensor, x: Series | None, logarithm: Jet) -> Series | None:
    """Return x times a logarithm, of the broadcast shape.

    Where zero is multiplied by no number, it is constant if one of the two is, and else it is no
    number, as in PyTorch: ``x log(x)`` falls ever more steeply towards zero.
    """
    if x is not None and logarithm.series is not None:
        return multiply(Jet(value, x), logarithm)
    is_gone = (value == 0) & ~logarithm.value.isfinite()
    finite = Jet(logarithm.value.masked_fill(is_gone, 0), logarithm.series)
    product = multiply(Jet(value, x), finite)
    return product and product.masked(~is_gone)


def _two_tensors(log: Logarithm) -> Propagate:
    """Make the rule of ``x log(y)``, of the broadcast shape."""
    return lambda step, x, y: _times_log(step.tensor("self"), x, log(step.tensor("other"), y))


def _number_and_tensor(log: Logarithm) -> Propagate:
    """Make the rule of ``x log(y)`` for a number x, of the shape of y."""

    def rule(step: Step, y: Series) -> Series | None:
        other = step.tensor("other")
        return _times_log(torch.full_like(other, step.saved("self")), None, log(other, y))

    return rule


def _tensor_and_number(log: Logarithm) -> Propagate:
    """Make the rule of ``x log(y)`` for a number y, of the shape of x."""

    def rule(step: Step, x: Series) -> Series | None:
        value = step.tensor("self")
        return _times_log(value, x, log(torch.full_like(value, step.saved("other")), None))

    return rule


def _sinc(step: Step, x: Series) -> Series:
    """Return ``sin(pi x) / (pi x)``, which is 1 at zero, of the shape of x."""
    found = _derivatives_of_sinc(step.tensor("self") * math.pi, x.algebra.order)
    terms = [derivative / math.factorial(n) for n, derivative in enumerate(found, start=1)]
    return compose(x.scaled(math.pi), terms)


def _derivatives_of_sinc(z: Tensor, order: int) -> list[Tensor]:
    """Return the derivatives of ``f = sin(z) / z``, ``[*shape]``, from the first on.

    As ``z f^(n) + n f^(n-1)`` is the n-th derivative of the sine, each follows from the one before,
    which loses no digits where z is beyond n. Elsewhere their power series are added up.
    """
    is_near = z.abs() < order + 1
    near, far = torch.where(is_near, z, 0), torch.where(is_near, order + 1, z)
    lower, found = far.sin() / far, []
    for n in range(1, order + 1):
        lower = ((far + n * math.pi / 2).sin() - n * lower) / far
        found.append(torch.where(is_near, _sinc_near_zero(near, n, 2 * order + 12), lower))
    return found


def _sinc_near_zero(z: Tensor, n: int, last: int) -> Tensor:
    """Return the n-th derivative of the sum of ``(-1)**k z**(2 k) / (2 k + 1)!``, ``[*shape]``.

    That of ``z**(2 k) / (2 k + 1)!`` is ``z**(2 k - n) / ((2 k - n)! (2 k + 1))``.
    """
    first = -(-n // 2)
    total = torch.zeros_like(z)
    for k in range(last, first - 1, -1):
        total = total * z * z + (-1) ** k / (math.factorial(2 * k - n) * (2 * k + 1))
    return total * z ** (2 * first - n)


RULES: dict[str, Rule] = {
    "SincBackward0": Rule(_sinc, rowwise=True),
    "XlogyBackward0": Rule(_two_tensors(_log), rowwise=True),
    "XlogyBackward1": Rule(_number_and_tensor(_log), rowwise=True),
    "XlogyBackward2": Rule(_tensor_and_number(_log), rowwise=True),
    "SpecialXlog1PyBackward0": Rule(_two_tensors(_log_of_one_and), rowwise=True),
    "SpecialXlog1PyBackward1": Rule(_number_and_tensor(_log_of_one_and), rowwise=True),
    "SpecialXlog1PyBackward2": Rule(_tensor_and_number(_log_of_one_and), rowwise=True),
    "LgammaBackward0": Rule(lambda step, x: _by_polygamma(-1, step, x), rowwise=True),
    "DigammaBackward0": Rule(lambda step, x: _by_polygamma(0, step, x), rowwise=True),
    "PolygammaBackward0": Rule(
        lambda step, x: _by_polygamma(step.saved("n"), step, x), rowwise=True
    ),
    "ErfinvBackward0": Rule(_erfinv, rowwise=True),
    "SpecialLogNdtrBackward0": Rule(_log_ndtr, rowwise=True),
    "LogitBackward0": Rule(_logit, rowwise=True),
    "SpecialEntrBackward0": Rule(_entropy, rowwise=True),
}
