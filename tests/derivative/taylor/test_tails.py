"""Elementwise rules are exact to a few units in the last place, far out and beside each kink.

The unit is what rounding moves the derivative by: ``eps (|F^(n)(x)| + |x F^(n+1)(x)|)``, or the
smallest normal number. The exact values come from mpmath. `pytest -m sweep -s` compares all
functions and prints the worst error of each; the usual run takes those that once were wrong.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from mpmath import mp, mpf
from torch import Tensor
from torch.nn import functional
from torch.special import i0e, i1, i1e, log_ndtr

from leafgrad import higher_order_grad

ORDERS = range(1, 5)
MOST = 16  # units in the last place
INF = math.inf


class Case(NamedTuple):
    """A function, its counterpart in mpmath, its kinks, and the interval on which it is defined.

    The counterpart is F itself. If `derivatives` is true, it returns F and its derivatives.
    Functions that decay exponentially need hundreds of digits, because they are added to 1.
    """

    function: Callable[[Tensor], Tensor]
    exact: Callable[[Any], Any]
    kinks: tuple[float, ...] = ()
    interval: tuple[float, float] = (-INF, INF)
    digits: int = 45
    derivatives: bool = False


def like(value: float) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.full_like(x, value)


def slope(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a function that computes the first derivative in the forward pass, by autograd."""
    return lambda x: torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]


def logistic(z: Any) -> Any:
    return 1 / (1 + mp.exp(-z))


def softplus(z: Any) -> Any:
    return mp.log1p(mp.exp(z)) if z < 0 else z + mp.log1p(mp.exp(-z))


def bell(z: Any, steepness: Any, height: Any) -> list[Any]:
    """Return ``height exp(-steepness z**2)`` and its derivatives."""
    found = [height * mp.exp(-steepness * z * z)]
    for n in range(7):
        found.append(-2 * steepness * (z * found[-1] + (n * found[-2] if n else 0)))
    return found


def density(z: Any) -> list[Any]:
    return bell(z, mpf(0.5), 1 / mp.sqrt(2 * mp.pi))


def gelu(z: Any) -> list[Any]:
    normal = [mp.erfc(-z / mp.sqrt(2)) / 2, *density(z)]
    return [z * normal[n] + (n * normal[n - 1] if n else 0) for n in range(7)]


def log_of_normal(z: Any) -> list[Any]:
    """Return the derivatives of ``log P``, from ``s = P' / P`` and ``s' = -s (z + s)``."""
    s = [2 * density(z)[0] / mp.erfc(-z / mp.sqrt(2))]
    for n in range(5):
        sums = [z + s[0], *((k == 1) + s[k] for k in range(1, n + 1))]
        s.append(-sum(mp.binomial(n, k) * s[k] * sums[n - k] for k in range(n + 1)))
    return [None, *s]


FAR = 345  # digits for functions that decay exponentially
POSITIVE, INSIDE = (0, INF), (-1, 1)
ONCE_WRONG = {
    "logsigmoid": Case(functional.logsigmoid, lambda z: -softplus(-z), digits=FAR),
    "softplus": Case(
        functional.softplus, lambda z: softplus(z) if z <= 20 else z, (20,), digits=FAR
    ),
    "logaddexp": Case(lambda x: torch.logaddexp(x, like(0)(x)), softplus, digits=FAR),
    "logaddexp, other": Case(lambda x: torch.logaddexp(like(0)(x), x), softplus, digits=FAR),
    "logaddexp2": Case(
        lambda x: torch.logaddexp2(x, like(0)(x)),
        lambda z: softplus(z * mp.log(2)) / mp.log(2),
        digits=FAR,
    ),
    "glu": Case(
        lambda x: functional.glu(torch.cat([like(0.75)(x), x], -1)),
        lambda z: mpf(0.75) * logistic(z),
        digits=FAR,
    ),
    "silu": Case(functional.silu, lambda z: z * logistic(z), digits=FAR),
}
CASES = {
    **ONCE_WRONG,
    "tanh": Case(torch.tanh, mp.tanh, digits=FAR),
    "sigmoid": Case(torch.sigmoid, logistic, digits=FAR),
    "sin": Case(torch.sin, mp.sin),
    "cos": Case(torch.cos, mp.cos),
    "tan": Case(torch.tan, mp.tan),
    "sinh": Case(torch.sinh, mp.sinh),
    "cosh": Case(torch.cosh, mp.cosh),
    "exp": Case(torch.exp, mp.exp),
    "expm1": Case(torch.expm1, mp.expm1, digits=FAR),
    "exp2": Case(torch.exp2, lambda z: mpf(2) ** z),
    "log": Case(torch.log, mp.log, interval=POSITIVE),
    "log2": Case(torch.log2, lambda z: mp.log(z) / mp.log(2), interval=POSITIVE),
    "log10": Case(torch.log10, mp.log10, interval=POSITIVE),
    "log1p": Case(torch.log1p, mp.log1p, (-1,), (-1, INF)),
    "sqrt": Case(torch.sqrt, mp.sqrt, interval=POSITIVE),
    "rsqrt": Case(torch.rsqrt, lambda z: 1 / mp.sqrt(z), interval=POSITIVE),
    "reciprocal": Case(torch.reciprocal, lambda z: 1 / z),
    "power": Case(lambda x: x**2.5, lambda z: z ** mpf(2.5), interval=POSITIVE),
    "whole power": Case(lambda x: x**7, lambda z: z**7),
    "negative power": Case(lambda x: x**-3, lambda z: z**-3),
    "power of two tensors": Case(
        lambda x: torch.pow(x, like(1.25)(x)), lambda z: z ** mpf(1.25), interval=POSITIVE
    ),
    "power of a number": Case(lambda x: torch.pow(1.5, x), lambda z: mpf(1.5) ** z),
    "asin": Case(torch.asin, mp.asin, INSIDE, INSIDE),
    "acos": Case(torch.acos, mp.acos, INSIDE, INSIDE),
    "atan": Case(torch.atan, mp.atan),
    "asinh": Case(torch.asinh, mp.asinh),
    "acosh": Case(torch.acosh, mp.acosh, (1,), (1, INF)),
    "atanh": Case(torch.atanh, mp.atanh, INSIDE, INSIDE),
    "erf": Case(
        torch.erf, lambda z: [None, *bell(z, 1, 2 / mp.sqrt(mp.pi))], digits=60, derivatives=True
    ),
    "erfc": Case(
        torch.erfc, lambda z: [None, *bell(z, 1, -2 / mp.sqrt(mp.pi))], digits=60, derivatives=True
    ),
    "mish": Case(functional.mish, lambda z: z * mp.tanh(softplus(z)), digits=FAR),
    "gelu": Case(functional.gelu, gelu, digits=700, derivatives=True),
    "gelu by tanh": Case(
        lambda x: functional.gelu(x, approximate="tanh"),
        lambda z: z * logistic(mp.sqrt(8 / mp.pi) * (z + mpf(0.044715) * z**3)),
        digits=FAR,
    ),
    "atan2": Case(lambda x: torch.atan2(x, like(2)(x)), lambda z: mp.atan(z / 2)),
    "atan2, other": Case(lambda x: torch.atan2(like(2)(x), x), lambda z: mp.atan2(2, z)),
    "hypot": Case(lambda x: torch.hypot(x, like(2)(x)), lambda z: mp.sqrt(z * z + 4)),
    "logsumexp": Case(
        lambda x: torch.logsumexp(torch.cat([x, like(0)(x)], 1), 1), softplus, digits=FAR
    ),
    "logcumsumexp": Case(
        lambda x: torch.cat([x, like(0)(x)], 1).logcumsumexp(1)[:, 1], softplus, digits=FAR
    ),
    "softmax": Case(lambda x: torch.cat([x, like(0)(x)], 1).softmax(1)[:, 0], logistic, digits=FAR),
    "log softmax": Case(
        lambda x: torch.cat([x, like(0)(x)], 1).log_softmax(1)[:, 0],
        lambda z: -softplus(-z),
        digits=FAR,
    ),
    "elu": Case(functional.elu, lambda z: z if z > 0 else mp.expm1(z), (0,), digits=FAR),
    "celu": Case(
        lambda x: functional.celu(x, 2),
        lambda z: z if z > 0 else 2 * mp.expm1(z / 2),
        (0,),
        digits=FAR,
    ),
    "hardswish": Case(
        functional.hardswish, lambda z: 0 if z < -3 else z if z > 3 else z * (z + 3) / 6, (-3, 3)
    ),
    "log_ndtr": Case(log_ndtr, log_of_normal, digits=700, derivatives=True),
    "sinc": Case(torch.sinc, lambda z: mp.sinc(mp.pi * z)),
    "xlogy": Case(lambda x: torch.xlogy(x, x), lambda z: z * mp.log(z), interval=POSITIVE),
    "i0": Case(torch.i0, lambda z: mp.besseli(0, z), interval=(-80, 80)),
    "i1": Case(i1, lambda z: mp.besseli(1, z), interval=(-80, 80)),
    "i0e": Case(i0e, lambda z: mp.besseli(0, z) * mp.exp(-abs(z)), (0,)),
    "i1e": Case(i1e, lambda z: mp.besseli(1, z) * mp.exp(-abs(z)), (0,)),
    "slope of tanh": Case(slope(torch.tanh), lambda z: 1 / mp.cosh(z) ** 2),
    "slope of sigmoid": Case(slope(torch.sigmoid), lambda z: logistic(z) * logistic(-z)),
    "slope of softplus": Case(
        slope(functional.softplus), lambda z: logistic(z) if z <= 20 else mpf(1), (20,), digits=FAR
    ),
    "slope of logsigmoid": Case(slope(functional.logsigmoid), lambda z: logistic(-z), digits=FAR),
    "slope of elu": Case(slope(functional.elu), lambda z: 1 if z > 0 else mp.exp(z), (0,)),
}
# PyTorch saved only the rounded result or, for GELU, computes the first derivative itself.
# Nested reverse mode loses digits here, and Taylor mode may lose at most twice as many.
AS_NESTED = {"tanh", "sigmoid", "expm1", "hypot", "gelu", "softmax", "logsumexp", "logcumsumexp"}
AS_NESTED |= {"log softmax", "slope of tanh", "slope of sigmoid"}
# Digits are also lost where the first derivative cancels.
AS_NESTED |= {"log_ndtr", "i0e", "i1e"}


def places(case: Case) -> Tensor:
    """Return a column of points in single precision: 40 from -1e4 to 1e4, and some near kinks."""
    sizes = torch.logspace(-4, 4, 20, dtype=torch.float64)
    beside = [kink + step for kink in case.kinks for step in (-0.05, -1e-4, 1e-4, 0.05)]
    x = torch.cat([sizes, -sizes, torch.tensor(beside, dtype=torch.float64)]).float()
    low, high = case.interval
    return x[(x > low) & (x < high)].unsqueeze(1)


@cache
def exact(case: Case, point: float) -> list[Any]:
    """Return the derivatives of orders 0 to 5; those below the precision of mpmath become 0."""
    digits = case.digits if abs(point) > 3 or case.derivatives else 45
    with mp.workdps(digits):
        if case.derivatives:
            return [None if found is None else +found for found in case.exact(mpf(point))[:6]]
        found = [mp.re(value) for value in mp.diffs(case.exact, mpf(point), 5)]
        return [mp.chop(value, tol=mpf(10) ** (5 - digits) * abs(found[0])) for value in found]


def nested(case: Case, x: Tensor) -> list[Tensor]:
    lower, found = case.function(x), []
    for _ in ORDERS:
        if lower.requires_grad:
            (lower,) = torch.autograd.grad(
                lower.sum(), x, create_graph=True, allow_unused=True, materialize_grads=True
            )
        else:
            lower = torch.zeros_like(x)
        found.append(lower)
    return found


def error(
    found: float, point: float, right: list[Any], order: int, name: str, info: torch.finfo
) -> float:
    """Return how many units in the last place a derivative is off.

    `found` is its value at `point`, and `right` has the exact derivatives of all orders. If an
    operation saved only its rounded result, the unit is that of a point that was rounded like 1.
    """
    reach = max(abs(point), 1) if name in AS_NESTED else abs(point)
    unit = info.eps * (abs(right[order]) + reach * abs(right[order + 1]))
    if not math.isfinite(found):
        return 0.0 if abs(right[order]) > info.max / 1e4 else INF
    return float(abs(mpf(found) - right[order]) / max(unit, mpf(info.tiny)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "name", [n if n in ONCE_WRONG else pytest.param(n, marks=pytest.mark.sweep) for n in CASES]
)
def test_derivative_in_tail_is_exact_to_last_digits(name: str, dtype: torch.dtype) -> None:
    case, info = CASES[name], torch.finfo(dtype)
    x = places(case).to(dtype).requires_grad_()
    points = x[:, 0].tolist()
    right = [exact(case, point) for point in points]
    ours = higher_order_grad(case.function(x), x, [*ORDERS], method="taylor", create_graph=False)
    theirs = nested(case, x) if name in AS_NESTED else [x] * len(ORDERS)
    for order, one, other in zip(ORDERS, ours, theirs, strict=True):
        errors = [
            [error(*each, order, name, info) for each in zip(found, points, right, strict=True)]
            for found in (one.flatten().tolist(), other.flatten().tolist())
        ]
        theirs_off = max((each for each in errors[1] if each < INF), default=0.0)
        limit = MOST + 2 * theirs_off if name in AS_NESTED else MOST
        worst = max(errors[0])
        where = points[errors[0].index(worst)]
        limits = f"{worst:.2g} units at {where:.4g}, at most {limit:.2g}"
        print(f"{name}, {dtype}, order {order}: {limits}")  # noqa: T201 (for pytest -m sweep -s)
        assert worst <= limit


@pytest.mark.parametrize("name", ["softplus", "elu", "celu", "hardswish"])
def test_derivative_at_kink_matches_autograd(name: str) -> None:
    case = CASES[name]
    x = torch.tensor(case.kinks, dtype=torch.float64).unsqueeze(1).requires_grad_()
    ours = higher_order_grad(case.function(x), x, [*ORDERS], method="taylor", create_graph=False)
    for one, other in zip(ours, nested(case, x), strict=True):
        torch.testing.assert_close(one.flatten(), other.detach().flatten(), equal_nan=True)
