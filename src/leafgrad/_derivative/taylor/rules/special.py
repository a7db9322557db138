"""Rules for special functions of each element by itself: gamma, error and normal distribution.

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
from leafgrad._derivative.taylor.unsupported import Unsupported, unsupported_if


def _by_polygamma(lowest: int, step: Step, x: Series) -> Series:
    """Return a function whose n-th derivative is polygamma of ``n + lowest``, of the shape of x."""
    value = step.tensor("self")
    degrees = range(1, x.algebra.order + 1)
    found = [torch.polygamma(n + lowest, value) / math.factorial(n) for n in degrees]
    return compose(x, found)


def _multivariate_log_gamma(step: Step, x: Series) -> Series:
    """Return the sum of ``log(gamma(x - j / 2))`` over j < p, of the shape of x."""
    value, halves = step.tensor("self"), range(step.saved("p"))
    places = torch.stack([value - j / 2 for j in halves])
    degrees = range(1, x.algebra.order + 1)
    return compose(x, [torch.polygamma(n - 1, places).sum(0) / math.factorial(n) for n in degrees])


def _zeta(step: Step, s: Series | None, q: Series | None) -> Series | None:
    """Return Hurwitz' ``zeta(s, q)``, of the broadcast shape."""
    unsupported_if(s is not None, "its exponent depends on inputs")
    return q and _zeta_of(step, step.tensor("self"), q)


def _zeta_of_number(step: Step, q: Series) -> Series:
    """Return Hurwitz' ``zeta(s, q)`` for a number s, of the shape of q."""
    return _zeta_of(step, torch.full_like(step.tensor("other"), step.saved("self")), q)


def _zeta_of(step: Step, s: Tensor, q: Series) -> Series:
    """Return ``zeta(s, q)``, of the broadcast shape, whose slope is ``-s zeta(s + 1, q)``."""
    value, factor, found = step.tensor("other"), torch.ones_like(s), []
    for n in range(1, q.algebra.order + 1):
        factor = factor * (1 - n - s) / n
        found.append(factor * torch.special.zeta(s + n, value))
    return compose(q, found)


def _incomplete_gamma(sign: int) -> Propagate:
    """Make the rule of a function with slope ``sign x**(a - 1) exp(-x) / gamma(a)``.

    The result is of the broadcast shape.
    """

    def rule(step: Step, a: Series | None, x: Series | None) -> Series | None:
        if a is not None or x is None:
            raise Unsupported("its exponent depends on inputs")
        power, jet = step.tensor("self"), step.jet("other", x)
        slope = (jet.log() * (power - 1) - jet - power.lgamma()).exp() * sign
        return integral(slope, x.broadcast(slope.value.shape))

    return rule


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
    "MvlgammaBackward0": Rule(_multivariate_log_gamma, rowwise=True),
    "SpecialZetaBackward0": Rule(_zeta, rowwise=True),
    "SpecialZetaBackward1": Rule(_zeta_of_number, rowwise=True),
    "IgammaBackward0": Rule(_incomplete_gamma(1), rowwise=True),
    "IgammacBackward0": Rule(_incomplete_gamma(-1), rowwise=True),
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
    "SpecialNdtriBackward0": Rule(_ndtri, rowwise=True),
    "SpecialErfcxBackward0": Rule(_erfcx, rowwise=True),
    "SpecialLogNdtrBackward0": Rule(_log_ndtr, rowwise=True),
    "LogitBackward0": Rule(_logit, rowwise=True),
    "SpecialEntrBackward0": Rule(_entropy, rowwise=True),
}
