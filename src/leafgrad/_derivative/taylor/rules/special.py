"""Rules for special functions of each element by itself: gamma, error and normal distribution.

All of them keep the shape: of a value a ``[*shape]`` and a series h ``[K, *shape]`` they return
``F(a + h) - F(a)``, ``[K, *shape]``, in one of two ways:

    by all derivatives        sum_n F^(n)(a) h**n / n!, where PyTorch has these
    by a differential         y' = s(x, y), whose solution is improved by one degree each time it
    equation                  is put in on the right (Picard's iteration, which ends here)

The equations are those of NIST's Digital Library of Mathematical Functions, chapters 5 and 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from leafgrad._derivative.taylor import jet as jets
from leafgrad._derivative.taylor.jet import Jet, compose, integral, multiply
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.step import Rule, Step


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


def _ndtri(step: Step, x: Series) -> Series:
    """Return the solution of ``y' = sqrt(2 pi) exp(y**2 / 2)``, of the shape of x."""
    result = step.jet("result", None)
    return _solution(lambda y: (y * y * 0.5).exp() * math.sqrt(2 * math.pi), result, x)


def _erfcx(step: Step, x: Series) -> Series:
    """Return the solution of ``y' = 2 x y - 2 / sqrt(pi)``, of the shape of x."""
    jet, result = step.jet("self", x), step.jet("result", None)
    return _solution(lambda y: jet * y * 2 - 2 / math.sqrt(math.pi), result, x)


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
    """Return ``-x log(x)``, of the shape of x."""
    jet = step.jet("self", x)
    return multiply(-jet, jet.log())


RULES: dict[str, Rule] = {
    "LgammaBackward0": Rule(lambda step, x: _by_polygamma(-1, step, x), rowwise=True),
    "DigammaBackward0": Rule(lambda step, x: _by_polygamma(0, step, x), rowwise=True),
    "PolygammaBackward0": Rule(
        lambda step, x: _by_polygamma(step.saved("n"), step, x), rowwise=True
    ),
    "ErfinvBackward0": Rule(_erfinv, rowwise=True),
    "SpecialNdtriBackward0": Rule(_ndtri, rowwise=True),
    "SpecialErfcxBackward0": Rule(_erfcx, rowwise=True),
    "SpecialLogNdtrBackward0": Rule(_log_ndtr, rowwise=True),
    "LogitBackward0": Rule(_logit, rowwise=True),
    "SpecialEntrBackward0": Rule(_entropy, rowwise=True),
}
