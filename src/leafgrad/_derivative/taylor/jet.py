"""Jets: a value and its series, with the arithmetic and the functions of ordinary tensors.

A jet is a truncated Taylor polynomial: the value ``[*shape]`` is its coefficient of order 0, the
series ``[K, *shape]`` holds all others (see `Series`). Propagating jets through a program, instead
of nesting derivatives, is Taylor mode: Griewank and Walther, Evaluating Derivatives, 2nd edition,
SIAM 2008, chapter 13; Bettencourt, Johnson and Duvenaud, Taylor-Mode Automatic Differentiation for
Higher-Order Derivatives in JAX, 2019.

The functions of this module take the value a and the series h (the coefficients above order 0) as
separate arguments. They return the series of the result, ``F(a + h) - F(a)``, without its value
``F(a)``. So no digits are lost if the series is small compared to the value. The series has the
broadcast shape of the arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from leafgrad._derivative.taylor.dtypes import at_least
from leafgrad._derivative.taylor.kernels import recurrences, sigmoidal
from leafgrad._derivative.taylor.matrix_products import constant_times, product, times_constant
from leafgrad._derivative.taylor.series import Number, Series
from leafgrad._messages import message


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Jet:
    """A tensor together with its Taylor series, for use in a rule (see `taylor_rule`).

    An operation on jets returns a jet: it computes both the value and the series of the result.
    Jets support ``+``, ``-``, ``*``, ``/``, ``**`` and ``@`` like tensors. The other operand can be
    a jet, a number, or a tensor that does not depend on the variables of the derivative. You can
    index a jet with integers, slices, ``...`` and None.

    Jets have these methods for elementwise functions: ``exp``, ``log``, ``sin``, ``cos``, ``tanh``,
    ``sigmoid``, ``erf``, ``sqrt``, ``rsqrt`` and ``reciprocal``. They also have the methods `sum`,
    `mean`, `softmax` and `where`, which are described below.

    Attributes:
        value: The tensor itself. If it is still connected to the graph, so is the derivative.
        series: The Taylor coefficients of orders above 0. None means that they are all zero.

    Raises:
        TypeError: If `value` is not a tensor, or `series` is neither a `Series` nor None.

    Example:
        >>> import torch
        >>> from leafgrad import Jet
        >>> jet = Jet(torch.tensor([0.0, 1.0]), None)
        >>> (2 * jet.exp() - 1).value
        tensor([1.0000, 4.4366])
    """

    value: Tensor
    series: Series | None

    def __init__(self, value: Tensor, series: Series | None) -> None:
        """Check and store both arguments.

        This is faster than the ``__init__`` of a frozen dataclass.
        """
        if not isinstance(value, Tensor):
            raise TypeError(message("derivative.jet.value", type=type(value).__name__))
        if series is not None and type(series) is not Series:
            raise TypeError(message("derivative.jet.series", type=type(series).__name__))
        if series is not None:  # The series may have a wider dtype than the saved value.
            value = at_least(value, series.dtype)
        _set_value(self, value)
        _set_series(self, series)

    def to(self, value: Tensor, function: Callable[[Series], Series]) -> Jet:
        """Return a jet with this value ``[*shape]``, and with the series that `function` computes.

        `function` is called with the series of this jet, unless that is None.
        """
        return Jet(value, None if self.series is None else function(self.series))

    def __neg__(self) -> Jet:
        return self * -1

    def __add__(self, other: Jet | Tensor | Number) -> Jet:
        if isinstance(other, Jet):
            return Jet(self.value + other.value, add(self.series, other.series))
        value = self.value + other
        return self.to(value, lambda series: series.broadcast(value.shape))

    __radd__ = __add__

    def __sub__(self, other: Jet | Tensor | Number) -> Jet:
        return self + -other

    def __rsub__(self, other: Tensor | Number) -> Jet:
        return -self + other

    def __mul__(self, other: Jet | Tensor | Number) -> Jet:
        if isinstance(other, Jet):
            return Jet(self.value * other.value, multiply(self, other))
        return self.to(self.value * other, lambda series: series.scaled(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Jet | Tensor | Number) -> Jet:
        if isinstance(other, Jet):
            return self * other.reciprocal()
        if isinstance(other, Tensor):
            return self.to(self.value / other, lambda series: series.divided(other))
        return self * (1 / other)

    def __rtruediv__(self, other: Tensor | Number) -> Jet:
        return self.reciprocal() * other

    def __pow__(self, exponent: Number) -> Jet:
        return Jet(self.value**exponent, power(self, exponent))

    def __matmul__(self, other: Jet | Tensor) -> Jet:
        other = other if isinstance(other, Jet) else Jet(other, None)
        if min(self.value.dim(), other.value.dim()) < _OF_A_MATRIX:
            words = {"one": self.value.dim(), "other": other.value.dim()}
            raise TypeError(message("derivative.jet.matrix", **words))
        return Jet(self.value @ other.value, _product_of_matrices(self, other))

    def __rmatmul__(self, other: Tensor) -> Jet:
        return Jet(other, None) @ self

    def __getitem__(self, index: Any) -> Jet:
        return self.to(self.value[index], lambda series: series.part(index))

    def sum(self, dim: int | Sequence[int] | None = None, *, keepdim: bool = False) -> Jet:
        """Return the sum of this jet along the axes `dim`, or of all its elements."""
        dims = _dims(self.value, dim)
        value = self.value.sum(dims, keepdim=keepdim)
        return self.to(value, lambda series: series.summed(dims, keepdim=keepdim))

    def mean(self, dim: int | Sequence[int] | None = None, *, keepdim: bool = False) -> Jet:
        """Return the mean of this jet along the axes `dim`, or of all its elements."""
        count = math.prod(self.value.shape[dim] for dim in _dims(self.value, dim))
        return self.sum(dim, keepdim=keepdim) / count

    def softmax(self, dim: int) -> Jet:
        """Return the softmax of this jet along the axis `dim`."""
        value = self.value.softmax(dim)
        return self.to(value, lambda series: softmax_from(value, series, [dim]))

    def where(self, condition: Tensor, other: Jet | Tensor | Number) -> Jet:
        """Return this jet's elements where `condition` is true, and those of `other` elsewhere."""
        if not isinstance(other, Jet):
            value = self.value
            other = Jet(torch.as_tensor(other, dtype=value.dtype, device=value.device), None)
        value = torch.where(condition, self.value, other.value)
        series = where(condition, self.series, other.series)
        return Jet(value, series and series.broadcast(value.shape))

    def erf(self) -> Jet:
        """Return the error function of this jet, elementwise."""
        bell = (-(self * self)).exp() * (2 / math.sqrt(math.pi))
        return self.to(self.value.erf(), lambda series: integral(bell, series))

    def exp(self) -> Jet:
        """Return the exponential of this jet, elementwise."""
        value = self.value.exp()
        return self.to(value, lambda series: exp_of(series).scaled(value))

    def log(self) -> Jet:
        """Return the natural logarithm of this jet, elementwise."""
        value = self.value
        return self.to(value.log(), lambda series: log_of(series.scaled(1 / value)))

    def sin(self) -> Jet:
        """Return the sine of this jet, elementwise."""
        value = self.value
        return self.to(value.sin(), lambda series: sin_from(value, series))

    def cos(self) -> Jet:
        """Return the cosine of this jet, elementwise."""
        value = self.value
        return self.to(value.cos(), lambda series: cos_from(value, series))

    def tanh(self) -> Jet:
        """Return the hyperbolic tangent of this jet, elementwise."""
        value = self.value.tanh()
        return self.to(value, lambda series: tanh_from(value, series))

    def sigmoid(self) -> Jet:
        """Return the logistic function of this jet, elementwise."""
        value = self.value.sigmoid()
        if value.is_complex():
            return self.to(value, lambda series: sigmoid_from(value, series))
        derivative = sigmoidal.sigmoid_derivative_at
        return self.to(
            value, lambda series: series.apply(derivative, self.value, is_of_argument=True)
        )

    def sqrt(self) -> Jet:
        """Return the square root of this jet, elementwise."""
        value = self.value.sqrt()
        return self.to(value, lambda series: sqrt_from(value, series))

    def rsqrt(self) -> Jet:
        """Return 1 divided by the square root of this jet, elementwise."""
        value = self.value.rsqrt()
        return self.to(value, lambda series: rsqrt_from(value, series))

    def reciprocal(self) -> Jet:
        """Return 1 divided by this jet, elementwise."""
        value = self.value.reciprocal()
        return self.to(value, lambda series: reciprocal_from(value, series))


_OF_A_MATRIX = 2  # the number of axes of a matrix


def _dims(value: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    """Convert the argument `dim` to a list of axes: all axes of `value` if it is None or empty."""
    dims = [dim] if isinstance(dim, int) else [*(dim or ())]
    return dims or [*range(value.dim())]


def _product_of_matrices(one: Jet, two: Jet) -> Series | None:
    """Return the series ``[K, ..., a, c]`` of the matrix product of `one` and `two`.

    Batch axes broadcast. Return None if both series are None.
    """
    batch = torch.broadcast_shapes(one.value.shape[:-2], two.value.shape[:-2])
    x = one.series and one.series.broadcast((*batch, *one.value.shape[-2:]))
    y = two.series and two.series.broadcast((*batch, *two.value.shape[-2:]))
    if y is None:
        return x and times_constant(x, two.value)
    if x is None:
        return constant_times(one.value, y)
    return product(one.value, x, two.value, y)


# `Jet` is frozen. Its ``__init__`` sets the two slots through these setters.
_set_value, _set_series = (vars(Jet)[name].__set__ for name in ("value", "series"))


def add(one: Series | None, two: Series | None) -> Series | None:
    """Return the sum ``[K, *shape]`` of the series `one` and `two`. None stands for zero."""
    if one is None or two is None:
        return two if one is None else one
    return one + two


def multiply(one: Jet, two: Jet) -> Series | None:
    """Return the series ``[K, *shape]`` of the product of `one` and `two`, None if it is zero.

    For jets a and b, coefficient k is ``a_0 b_k + a_k b_0 + sum_j a_j b_{k-j}``.
    """
    if one.series is not None and two.series is not None and one.series is not two.series:
        product = one.series.times_series(one.value, two.value, two.series)
        if product is not None:
            return product
    left = None if one.series is None else one.series.scaled(two.value)
    right = None if two.series is None else two.series.scaled(one.value)
    linear = add(left, right)
    if linear is None or one.series is None or two.series is None:
        return linear
    return linear.plus_product(one.series, two.series)


def square(value: Tensor, series: Series) -> Series:
    """Return the series ``[K, *shape]`` of the square of a jet a.

    Its value a_0 is `value`. Coefficient k is ``2 a_0 a_k + sum_j a_j a_{k-j}``.
    """
    return series.scaled(2 * value).plus_product(series, series)


def compose(series: Series, coefficients: Sequence[Tensor | Number]) -> Series:
    """Return the power series ``c_1 h + c_2 h**2 + ...`` of a series h ``[K, *shape]``.

    `coefficients` contains c_1, c_2 and so on; each is a number or a tensor ``[*shape]``. The sum
    is computed by Horner's rule.
    """
    total = series.scaled(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = series.scaled(coefficient).plus_product(series, total)
    return total


# --- Functions of a series h alone, without a value


def exp_of(h: Series) -> Series:
    """Return ``exp(h) - 1`` for a series h, in the shape of h."""
    return h.function(recurrences.exp)


def sin_cos_of(h: Series) -> tuple[Series, Series]:
    """Return ``sin(h)`` and ``cos(h) - 1`` for a series h, each in the shape of h."""
    both = h.function(recurrences.sin_cos)
    sine, cosine = both.stack.unbind(0)
    return both.changed(sine), both.changed(cosine)


def inverse_of(h: Series) -> Series:
    """Return ``1 / (1 + h) - 1`` for a series h, in the shape of h."""
    return h.function(recurrences.inverse)


def root_of(h: Series) -> Series:
    """Return ``sqrt(1 + h) - 1`` for a series h, in the shape of h."""
    return h.function(recurrences.root)


def log_of(h: Series) -> Series:
    """Return ``log(1 + h)`` for a series h, in the shape of h.

    It is the integral of ``1 / (1 + h)``, which is written ``1 + g``. In one direction,
    ``k y_k = k h_k + sum_{j<k} j h_j g_{k-j}``.
    """
    weighted = h.weighted()
    return weighted.plus_product(weighted, inverse_of(h)).unweighted()


def integral(slope: Jet, x: Series) -> Series:
    """Return the series y with ``dy/dx = s``, in the shape of x, where s is the jet `slope`.

    In one direction, ``k y_k = k x_k s_0 + sum_{j<k} j x_j s_{k-j}``.
    """
    weighted = x.weighted()
    start = weighted.scaled(slope.value)
    total = start if slope.series is None else start.plus_product(weighted, slope.series)
    return total.unweighted()


# --- Functions of a value and a series; some take the value of the result instead


def sin_from(argument: Tensor, series: Series) -> Series:
    """Return ``sin(a + h) - sin(a)`` for an argument a ``[*shape]`` and its series h."""
    sine, cosine = sin_cos_of(series)
    return sine.scaled(argument.cos()) + cosine.scaled(argument.sin())


def cos_from(argument: Tensor, series: Series) -> Series:
    """Return ``cos(a + h) - cos(a)`` for an argument a ``[*shape]`` and its series h."""
    sine, cosine = sin_cos_of(series)
    return cosine.scaled(argument.cos()) - sine.scaled(argument.sin())


def reciprocal_from(result: Tensor, series: Series) -> Series:
    """Return the series of ``1 / x`` from the series of x.

    For the value r of ``1 / x``, which is `result`, and the series h, it is
    ``r (1 / (1 + r h) - 1)``.
    """
    return inverse_of(series.scaled(result)).scaled(result)


def sqrt_from(result: Tensor, series: Series) -> Series:
    """Return the series of ``sqrt(x)`` from the series of x.

    For the value r of ``sqrt(x)``, which is `result`, and the series h, it is
    ``r (sqrt(1 + h / r**2) - 1)``.
    """
    inverse = result.reciprocal()  # Applied twice below, because its square may overflow.
    return root_of(series.scaled(inverse).scaled(inverse)).scaled(result)


def rsqrt_from(result: Tensor, series: Series) -> Series:
    """Return the series of ``1 / sqrt(x)`` from the series of x.

    For the value r of ``1 / sqrt(x)``, which is `result`, and the series h, it is
    ``r (1 / sqrt(1 + r**2 h) - 1)``.
    """
    return inverse_of(root_of(series.scaled(result).scaled(result))).scaled(result)


def tanh_from(result: Tensor, series: Series) -> Series:
    """Return the series of ``tanh(x)`` from the series of x; `result` is the value."""
    if series.dtype.is_complex:  # 2 sigmoid(2 h) - 1
        return sigmoid_from((result + 1) / 2, series.scaled(2)).scaled(2)
    return series.apply(sigmoidal.tanh_derivative, result)


def sigmoid_from(result: Tensor, series: Series) -> Series:
    """Return the series of ``sigmoid(x)`` from the series of x; `result` is the value."""
    if series.dtype.is_complex:  # s / (s + (1 - s) exp(-h))
        return reciprocal_from(result, exp_of(-series).scaled((1 - result) / result))
    return series.apply(sigmoidal.sigmoid_derivative, result)


def softmax_from(result: Tensor, x: Series, dims: Sequence[int]) -> Series:
    """Return the series ``[K, *shape]`` of a softmax along `dims`, from the series h of its input.

    Let s be the value of the softmax (`result`), and m the mean of h with the weights s. Let
    t = ``s (exp(h - m) - 1)``, and T the sum of t along the axes. The returned series is
    ``(s + t) / (1 + T) - s``. Subtracting m does not change it, but keeps the exponentials small.
    """
    if not x.indices:
        return x
    terms = exp_of(x - weighted_mean(x, result, dims)).scaled(result)
    inverse = inverse_of(terms.summed(dims, keepdim=True))
    return (terms + inverse.scaled(result)).plus_product(terms, inverse)


def weighted_mean(x: Series, weights: Tensor, dims: Sequence[int]) -> Series:
    """Return the mean of x along `dims`, weighted by `weights` ``[*shape]``: ``[K, ..., 1, ...]``.

    The weights must add up to 1. Callers subtract the mean before they apply `exp_of`. If one
    element has all the weight, the difference is exactly zero there.
    """
    return x.scaled(weights).summed(dims, keepdim=True)


def power(x: Jet, exponent: Number) -> Series | None:
    """Return the series ``[K, *shape]`` of a jet to the power `exponent`, None if it is zero.

    An integer exponent is computed by repeated multiplication, which is exact at zero too. For
    other real exponents, the binomial series is used, because it does not divide by `x`. If the
    base or the exponent is complex, the result is ``exp(exponent * log(x))``.
    """
    if x.series is None or exponent == 0:
        return None
    is_whole = not isinstance(exponent, complex) and float(exponent).is_integer()
    if not is_whole and (isinstance(exponent, complex) or x.value.is_complex()):
        logarithm = log_of(x.series.scaled(1 / x.value))
        return exp_of(logarithm.scaled(exponent)).scaled(x.value**exponent)
    if not is_whole:
        unit = unit_of(x.value)
        binomials = _binomials(x.value / unit, exponent, x.series.algebra.order)
        return compose(x.series.scaled(1 / unit), binomials).scaled(unit**exponent)
    whole = int(exponent.real)
    return _whole_power(x.reciprocal() if whole < 0 else x, abs(whole)).series


def unit_of(value: Tensor) -> Tensor:
    """Return the largest power of two not above the magnitude of each value, ``[*shape]``.

    Return 1 for elements where this power is not a normal number. A value divided by its unit has
    a magnitude in [1, 2), so its powers cannot overflow.
    """
    value = value.detach()
    unit = value / (2 * torch.frexp(value).mantissa)
    is_normal = (unit >= torch.finfo(unit.dtype).tiny) & unit.isfinite()
    return torch.where(is_normal, unit, 1)


def _binomials(value: Tensor, exponent: Number, order: int) -> list[Tensor]:
    """Return ``binomial(exponent, d) value**(exponent - d)``, ``[*shape]``, from d = 1 on.

    The last d is `order`.
    """
    degrees = range(1, order + 1)
    factors = [math.prod((exponent - k) / (k + 1) for k in range(degree)) for degree in degrees]
    pairs = zip(degrees, factors, strict=True)
    return [factor * value ** (exponent - degree) for degree, factor in pairs]


def _whole_power(base: Jet, exponent: int) -> Jet:
    """Return the jet `base` to the power of a positive integer, elementwise.

    It is computed by repeated squaring.
    """
    result = base
    for digit in f"{exponent:b}"[1:]:
        result = result.to(result.value * result.value, partial(square, result.value))
        if digit == "1":
            result = result * base
    return result


def where(condition: Tensor, one: Series | None, other: Series | None) -> Series | None:
    """Return `one` where the condition ``[*shape]`` is true, else `other`. None means zero."""
    left = None if one is None else one.masked(condition)
    right = None if other is None else other.masked(~condition)
    return add(left, right)
