"""Rules for operations that convert between real and complex numbers.

The inputs of a derivative are real, so only the coefficients ``[K, *shape]`` of a complex tensor
``[*shape]`` are complex. Linear and holomorphic functions have a single rule for real and complex
numbers. The rules of this module construct complex numbers, from ``x + i y`` or ``r exp(i phi)``,
or split them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leafgrad._derivative.taylor import jet as jets
from leafgrad._derivative.taylor.jet import Jet, add, multiply
from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.series import Series


def _complex(_: Step, x: Series | None, y: Series | None) -> Series | None:
    """Return ``x + i y``, in the broadcast shape.

    None stands for a series that is zero.
    """
    return add(x, None if y is None else y.scaled(1j))


def _polar(step: Step, r: Series | None, phi: Series | None) -> Series | None:
    """Return ``r exp(i phi)``, in the broadcast shape. As in PyTorch, r must be above zero."""
    result = step.tensor("result")
    turned = None if phi is None else jets.exp_of(phi.scaled(1j))
    by_r = None if r is None else multiply(Jet(result.sgn(), None), Jet(result, r))
    if turned is None:
        return by_r
    by_phi = turned.scaled(result)
    return by_phi if by_r is None else (by_phi + by_r).plus_product(turned, by_r)


def _as_real(step: Step, x: Series) -> Series:
    """Return the real and imaginary parts of x on a new last axis: ``[K, *shape, 2]``."""
    stack = torch.view_as_real(x.stack.resolve_conj())
    return x.changed(stack, shape=step.shape)


def _as_complex(step: Step, x: Series) -> Series:
    """Return the complex series whose real and imaginary parts are the last axis of x."""
    stack = torch.complex(*x.full(-1).unbind(-1))
    return x.changed(stack, shape=step.shape)


def _conjugate(_: Step, x: Series) -> Series:
    """Return the conjugate, in the shape of x."""
    return x.changed(x.stack.conj_physical())


def relative(value: Tensor, x: Series) -> Series:
    """Return the series x divided by `value`, which is complex. It is 0 where `value` is zero."""
    is_zero = value == 0
    return x.masked(~is_zero).scaled(1 / value.masked_fill(is_zero, 1))


def absolute(value: Tensor, x: Series) -> Series:
    """Return the real series of the absolute value of a complex tensor.

    For its value a and its series h, it is ``|a + h| - |a| = |a| (|1 + h / a| - 1)``. With
    ``h / a = p + i q``, the inner absolute value is the root of ``1 + 2 p + p**2 + q**2``. Where a
    is zero, the result is zero, as in PyTorch's formula.
    """
    p, q = _parts(relative(value, x))
    squares = p.scaled(2).plus_product(p, p).plus_product(q, q)
    return jets.root_of(squares).scaled(value.abs())


def _parts(x: Series) -> tuple[Series, Series]:
    """Return the real and the imaginary part of a series, both in the shape of x."""
    return x.changed(x.stack.real), x.changed(x.stack.imag)


def _abs(step: Step, x: Series) -> Series:
    """Return the absolute value, real and in the shape of x."""
    value = step.tensor("self")
    return absolute(value, x) if value.is_complex() else x.scaled(value.sgn())


def _angle(step: Step, x: Series) -> Series | None:
    """Return the angle, in the shape of x: the imaginary part of ``log(1 + h / a)``.

    For real numbers, the angle is constant, so return None. Where a is zero, the result is zero, as
    in PyTorch's formula.
    """
    value = step.tensor("self")
    if not value.is_complex():
        return None
    return _parts(jets.log_of(relative(value, x)))[1]


def _sign(step: Step, x: Series) -> Series | None:
    """Return the sign ``a / |a|``, in the shape of x. For real numbers it is constant: None."""
    value = step.tensor("self")
    if not value.is_complex():
        return None
    size = value.abs()
    is_zero = size == 0
    inverse = Jet(size.masked_fill(is_zero, 1), absolute(value, x)).reciprocal()
    return multiply(Jet(value, x.masked(~is_zero)), inverse)


RULES: dict[str, Rule] = {
    "ComplexBackward0": Rule(_complex, rowwise=True, is_for_complex=True),
    "PolarBackward0": Rule(_polar, rowwise=True, is_for_complex=True),
    "ViewAsRealBackward0": Rule(_as_real, is_for_complex=True),
    "ViewAsComplexBackward0": Rule(_as_complex, is_for_complex=True),
    "ConjBackward0": Rule(_conjugate, rowwise=True, is_for_complex=True),
    "ConjPhysicalBackward0": Rule(_conjugate, rowwise=True, is_for_complex=True),
    "NegViewBackward0": Rule(lambda _, x: -x, rowwise=True, is_for_complex=True),
    "AbsBackward0": Rule(_abs, rowwise=True, is_for_complex=True),
    "AngleBackward0": Rule(_angle, rowwise=True, is_for_complex=True),
    "SgnBackward0": Rule(_sign, rowwise=True, is_for_complex=True),
}
