"""Compare derivatives with fifty-digit results of mpmath, over orders, scales and dtypes.

For each function and dtype, print the largest error of the derivatives of ``b f(a x)``, and its
order and scales `a` and `b` (powers of two). Errors are in units of the rounding error of the
largest value that the derivative has at the points.
"""

import argparse
import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath
import torch
from torch.nn import functional

from leafgrad import higher_order_grad

Function = Callable[[Any], Any]
POINTS = [-1.25, -0.5, 0.125, 0.75, 1.375]
FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "sin": (torch.sin, mpmath.sin),
    "exp": (torch.exp, mpmath.exp),
    "tanh": (torch.tanh, mpmath.tanh),
    "sigmoid": (torch.sigmoid, lambda z: 1 / (1 + mpmath.exp(-z))),
    "softplus": (functional.softplus, lambda z: mpmath.log(1 + mpmath.exp(z))),
    "gelu": (functional.gelu, lambda z: z * mpmath.erfc(-z / mpmath.sqrt(2)) / 2),
    "log": (lambda z: torch.log(z + 2), lambda z: mpmath.log(z + 2)),
    "sqrt": (lambda z: torch.sqrt(z + 2), lambda z: mpmath.sqrt(z + 2)),
    "whole power": (lambda z: z**7, lambda z: z**7),
    "power": (lambda z: (z + 2) ** 2.5, lambda z: (z + 2) ** mpmath.mpf(2.5)),
    "negative power": (lambda z: (z + 2) ** -3, lambda z: (z + 2) ** -3),
    "product": (lambda z: z**3 * torch.exp(z), lambda z: z**3 * mpmath.exp(z)),
    "quotient": (lambda z: torch.sin(z) / (z + 2), lambda z: mpmath.sin(z) / (z + 2)),
    "angle": (torch.atan, mpmath.atan),
    "network": (
        lambda z: torch.tanh(torch.sin(2 * z) + z),
        lambda z: mpmath.tanh(mpmath.sin(2 * z) + z),
    ),
}
ORDERS = [1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 17, 24, 35, 40]
SCALES = {  # exponents of the factors `a` and `b`: as powers of two, they add no rounding error
    torch.float16: ([-8, -3, 0, 3, 8], [-8, 0, 8]),
    torch.bfloat16: ([-40, -20, -3, 0, 3, 20, 40], [-100, -20, 0, 20, 100]),
    torch.float32: ([-40, -20, -3, 0, 3, 20, 40], [-100, -20, 0, 20, 100]),
    torch.float64: ([-300, -40, -3, 0, 3, 40, 300], [-300, -40, 0, 40, 300]),
}


@cache
def coefficients(name: str, point: float) -> list[Any]:
    """Return the Taylor coefficients of the function `name` at `point`, by mpmath."""
    return list(mpmath.taylor(FUNCTIONS[name][1], mpmath.mpf(point), max(ORDERS)))


def error(name: str, dtype: torch.dtype, order: int, inner: int, outer: int) -> float:
    """Return the largest error of the derivative `order`, in the unit of the module docstring.

    Return 0 if the exact derivative is too large for the dtype, and infinity if only the computed
    one is.
    """
    function = FUNCTIONS[name][0]
    x = (torch.tensor(POINTS, dtype=torch.float64) * 2.0**-inner).to(dtype).unsqueeze(1)
    found = higher_order_grad(
        lambda x: function(x * 2.0**inner) * 2.0**outer, x, order, create_graph=False
    )
    factor = mpmath.factorial(order) * mpmath.mpf(2) ** (order * inner + outer)
    exact = [factor * coefficients(name, point)[order] for point in POINTS]
    info = torch.finfo(dtype)
    if max(map(abs, exact)) > info.max:
        return 0.0  # tests check which values are infinite
    unit = max(max(map(abs, exact)) * info.eps / 2, mpmath.mpf(info.tiny))
    pairs = zip(found[:, 0].tolist(), exact, strict=True)
    return max(float(abs(mpmath.mpf(one) - other) / unit) for one, other in pairs)


def main() -> None:
    """Print the largest error for each function and dtype."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    mpmath.mp.dps = 50
    torch.set_num_threads(1)
    for name, dtype in itertools.product(FUNCTIONS, SCALES):
        cases = list(itertools.product(ORDERS, *SCALES[dtype]))
        worst, order, inner, outer = max((error(name, dtype, *case), *case) for case in cases)
        where = f"order {order}, 2**{inner} inside, 2**{outer} outside"
        print(
            f"{name:10} {dtype!s:15} {len(cases)} cases, worst {worst:6.1f} at {where}", flush=True
        )


if __name__ == "__main__":
    main()
