"""Rules for elementwise functions: powers, exponentials, trigonometric functions, activations.

For a value a, ``[*shape]``, and a series h, ``[K, *shape]``, a rule returns ``F(a + h) - F(a)``,
``[K, *shape]``. It uses one of three methods:

    by an addition theorem     exp(a + h) = exp(a) exp(h), from a recurrence for exp(h) - 1
    by the derivative          F(a + h) - F(a) is the integral of F'(a + h) over h
    by products                silu(x) = x sigmoid(x)

The first two are described in Griewank and Walther, Evaluating Derivatives, 2nd edition, SIAM 2008,
chapter 13.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from leafgrad._derivative.taylor import jet as jets
from leafgrad._derivative.taylor.constants import number
from leafgrad._derivative.taylor.jet import Jet, integral, multiply, where
from leafgrad._derivative.taylor.kernels import derivatives
from leafgrad._derivative.taylor.kernels.composed import MOST, Derivatives
from leafgrad._derivative.taylor.rule import Propagate, Rule, Step, make_rules
from leafgrad._derivative.taylor.series import Series


def _compose_or_else(
    derivatives: Derivatives, otherwise: Callable[[Step, Series], Series | None]
) -> Callable[[Step, Series], Series | None]:
    """Return a rule that uses `derivatives` up to order `MOST`.

    For higher orders and for complex numbers, the rule calls `otherwise`.
    """

    def rule(step: Step, x: Series) -> Series | None:
        if x.algebra.order > MOST or x.dtype.is_complex:
            return otherwise(step, x.computed())
        return x.compose(derivatives, step.tensor("self"))

    return rule


# --- Smooth functions of one tensor


def _tan(step: Step, x: Series) -> Series:
    """Return the tangent, in the shape of x.

    For the value t of the tangent, it is ``(1 + t**2) sin(h) / (cos(h) - t sin(h))``.
    """
    result = step.tensor("result")
    sine, cosine = jets.sin_cos_of(x)
    inverse = jets.inverse_of(cosine - sine.scaled(result))
    return sine.plus_product(sine, inverse).scaled(1 + result**2)


def _hyperbolic(
    function: Callable[[Tensor], Tensor], derivative: Callable[[Tensor], Tensor]
) -> Callable[[Step, Series], Series]:
    """Return the elementwise rule of sinh or cosh: ``F(a) (cosh(h) - 1) + F'(a) sinh(h)``.

    F is `function`, and F' is `derivative`.
    """

    def rule(step: Step, x: Series) -> Series:
        value = step.tensor("self")
        up, down = jets.exp_of(x), jets.exp_of(-x)
        even, odd = (up + down).scaled(0.5), (up - down).scaled(0.5)
        return even.scaled(function(value)) + odd.scaled(derivative(value))

    return rule


def _exp2(step: Step, x: Series) -> Series:
    """Return two to the power of x, in the shape of x: ``2**a (exp(h log(2)) - 1)``."""
    return jets.exp_of(x.scaled(math.log(2))).scaled(step.tensor("result"))


def _log_to_base(base: float) -> Propagate:
    """Return the rule of a logarithm to `base`: ``log(a + h) - log(a) = log(1 + h / a)``."""

    def rule(step: Step, x: Series) -> Series:
        return jets.log_of(x.scaled(1 / step.tensor("self"))).scaled(1 / math.log(base))

    return rule


def _power(step: Step, x: Series) -> Series | None:
    """Return a tensor to the power of a number, in the shape of x.

    None stands for a series that is zero.
    """
    exponent = step.saved("exponent")
    if exponent in _POWERS and not x.dtype.is_complex:
        return x.compose(_POWERS[exponent], step.tensor("self"))
    return jets.power(step.jet("self", x), exponent)


_POWERS: dict[float, Derivatives] = {2: derivatives.of_square, 3: derivatives.of_cube}


def _power_of_number(step: Step, exponent: Series) -> Series:
    """Return a number b to the power of a tensor, in its shape.

    For the value p and the series h of the tensor, it is ``b**p (exp(h log(b)) - 1)``.
    """
    result = step.tensor("result")
    base = torch.as_tensor(step.saved("self"), dtype=result.dtype, device=result.device)
    return jets.exp_of(exponent.scaled(base.log())).scaled(result)


def _power_of_tensor(step: Step, base: Series | None, exponent: Series | None) -> Series | None:
    """Return one tensor to the power of another, in the broadcast shape.

    A constant exponent uses the binomial series. Otherwise the result is ``exp(exponent *
    log(base))``. None stands for a series that is zero.
    """
    value = step.tensor("self")
    if base is not None and exponent is None:
        constant = step.tensor("exponent").to(base.dtype)
        unit = jets.unit_of(value)
        binomials = _binomials(value / unit, constant, base.algebra.order)
        return jets.compose(base.scaled(1 / unit), binomials).scaled(unit**constant)
    logarithm = Jet(value.log(), None)
    if base is not None:
        logarithm = Jet(logarithm.value, jets.log_of(base.scaled(1 / value)))
    product, result = multiply(step.jet("exponent", exponent), logarithm), step.tensor("result")
    return None if product is None else jets.exp_of(product).scaled(result)


def _binomials(value: Tensor, exponent: Tensor, order: int) -> list[Tensor]:
    """Return ``binomial(exponent, d) value**(exponent - d)``, ``[*shape]``, from d = 1 on.

    The last d is `order`. For a nonnegative integer exponent, they are zero for all d above it.
    """
    coefficients, factor = [], torch.ones_like(exponent)
    for degree in range(1, order + 1):
        factor = factor * (exponent - degree + 1) / degree
        is_over = (factor == 0) & (value == 0)  # Avoid 0 * inf.
        coefficients.append(factor * value ** torch.where(is_over, 1, exponent - degree))
    return coefficients


# --- Functions computed by integration of their derivative


def _with_slope(slope: Callable[[Jet], Jet]) -> Callable[[Step, Series], Series]:
    """Return the rule of an elementwise function that is computed as the integral of `slope`."""
    return lambda step, x: integral(slope(step.jet("self", x)), x)


def _bell(x: Jet) -> Jet:
    """Return ``exp(-x**2)``, in the shape of x."""
    return (-(x * x)).exp()


def _softplus(step: Step, x: Series) -> Series | None:
    """Return softplus, in the shape of x: the integral of ``sigmoid(beta x)``.

    If ``beta x`` exceeds the threshold, softplus is x, as in PyTorch. None stands for a series that
    is zero.
    """
    beta, threshold = step.saved("beta"), step.saved("threshold")
    if x.algebra.order <= MOST:
        inner = step.tensor("self") if beta == 1 else step.tensor("self") * beta
        softplus = partial(derivatives.of_softplus, threshold=threshold)
        return x.scaled(beta).compose(softplus, inner).scaled(1 / beta)
    jet = step.jet("self", x) * beta
    curved = integral(jet.sigmoid(), x)
    return where(jet.value > threshold, x, curved)


def _atan(step: Step, x: Series) -> Series:
    """Return the arctangent, in the shape of x: the integral of ``1 / (1 + x**2)``.

    If the square would overflow, x and 1 are first multiplied by a small factor s. The slope is
    then ``s**2 / ((s x)**2 + s**2)``.
    """
    jet = step.jet("self", x)
    half = math.frexp(torch.finfo(jet.value.dtype).max)[1] // 2
    is_far = jet.value.abs() > 2.0 ** (half - 2)  # The square would overflow.
    small = torch.where(is_far, 2.0 ** (-half * 3 // 2), 1).to(jet.value.dtype)
    near = jet * small
    slope = (near * near + small * small).reciprocal()
    return integral(slope, x.scaled(small)).scaled(small)


def _asinh(step: Step, x: Series) -> Series:
    """Return the inverse of sinh, in the shape of x: the integral of ``1 / sqrt(1 + x**2)``."""
    value = step.tensor("self")
    one = number(1, value.dtype, value.device)
    return _integral_of_root(_one_over_hypotenuse(one, value), value, x)


def _acosh(step: Step, x: Series) -> Series:
    """Return the inverse of cosh, in the shape of x: the integral of ``1 / sqrt(x**2 - 1)``."""
    value = step.tensor("self")
    return _integral_of_root((value - 1).rsqrt() * (value + 1).rsqrt(), value, x)


def _integral_of_root(slope: Tensor, value: Tensor, x: Series) -> Series:
    """Return the integral of ``1 / sqrt(x**2 + c)``, in the shape of x.

    `value` is the value of x, and `slope` is the value of the integrand, from which c follows.
    """
    return integral(Jet(slope, jets.rsqrt_from(slope, jets.square(value, x))), x)


def _atan2(step: Step, y: Series | None, x: Series | None) -> Series | None:
    """Return the angle ``atan2(y, x)``, in the broadcast shape.

    It is the integral of ``(x dy - y dx) / (x**2 + y**2)``. Both x and y are first divided by the
    hypotenuse of their values, so that their squares cannot overflow. None stands for a series that
    is zero.
    """
    up, right = step.jet("self", y), step.jet("other", x)
    scale = _one_over_hypotenuse(up.value, right.value)
    up, right = up * scale, right * scale
    squares = (up * up + right * right).series
    inverse = Jet(torch.ones_like(scale), None if squares is None else jets.inverse_of(squares))
    by_y = None if up.series is None else integral(right * inverse, up.series)
    by_x = None if right.series is None else integral(-up * inverse, right.series)
    return jets.add(by_y, by_x)


def _one_over_hypotenuse(one: Tensor, other: Tensor) -> Tensor:
    """Return ``1 / sqrt(one**2 + other**2)``, ``[*shape]``, without overflow of the squares."""
    return torch.hypot(one, other).reciprocal()


def _hypot(step: Step, x: Series | None, y: Series | None) -> Series | None:
    """Return ``sqrt(x**2 + y**2)``, in the broadcast shape.

    None stands for a series that is zero.
    """
    squares = [
        jets.square(step.tensor(name), series)
        for name, series in (("self", x), ("other", y))
        if series is not None
    ]
    return jets.sqrt_from(step.tensor("result"), sum(squares[1:], squares[0]))


def _log_add_exp(step: Step, x: Series | None, y: Series | None) -> Series | None:
    """Return ``log(exp(x) + exp(y))``, in the broadcast shape.

    None stands for a series that is zero.
    """
    return _log_of_sum(step.jet("self", x), step.jet("other", y))


def _log_of_sum(one: Jet, two: Jet) -> Series | None:
    """Return ``log(exp(x) + exp(y))``, in the broadcast shape. The jet `one` is x, and `two` is y.

    It is the integral of ``sigmoid(x - y) dx + sigmoid(y - x) dy``. None stands for a series that
    is zero.
    """
    are_gone = (one.value == two.value) & one.value.isinf()  # Masked elements are -inf in both.
    difference = one - two
    value = difference.value.masked_fill(are_gone, 0)
    share = Jet(value, difference.series).sigmoid()
    rest = Jet((-value).sigmoid(), share.series and -share.series)
    by_x, by_y = (
        jet.series and integral(slope, jet.series.broadcast(value.shape))
        for slope, jet in ((share, one), (rest, two))
    )
    return jets.add(by_x, by_y)


def _log_add_exp_to_base_2(step: Step, x: Series | None, y: Series | None) -> Series | None:
    """Return ``log2(2**x + 2**y)``, in the broadcast shape.

    None stands for a series that is zero.
    """
    one, two = (step.jet(name, h) * math.log(2) for name, h in (("self", x), ("other", y)))
    total = _log_of_sum(one, two)
    return total and total.scaled(1 / math.log(2))


# --- Activations that are products


def _silu(step: Step, x: Series) -> Series | None:
    """Return ``x sigmoid(x)``, in the shape of x.

    None stands for a series that is zero.
    """
    jet = step.jet("self", x)
    return multiply(jet, jet.sigmoid())


def _mish(step: Step, x: Series) -> Series | None:
    """Return ``x tanh(softplus(x))``, in the shape of x.

    None stands for a series that is zero.
    """
    jet = step.jet("self", x)
    softplus = integral(jet.sigmoid(), x)
    gate = torch.tanh(torch.nn.functional.softplus(jet.value))
    return multiply(jet, Jet(gate, jets.tanh_from(gate, softplus)))


def _gelu(step: Step, x: Series) -> Series | None:
    """Return GELU, exact or with the tanh approximation, in the shape of x.

    None stands for a series that is zero.
    """
    if step.saved("approximate") == "tanh":
        jet = step.jet("self", x)
        argument = (jet + jet * jet * jet * 0.044715) * math.sqrt(8 / math.pi)
        return multiply(jet, argument.sigmoid())
    return _GELU(step, x)


def _gelu_by_gate(step: Step, x: Series) -> Series | None:
    """Return x times the normal distribution function of x, in the shape of x.

    None stands for a series that is zero.
    """
    jet = step.jet("self", x)
    share = torch.special.erfc(jet.value * -math.sqrt(0.5)) / 2
    density = _bell(jet * math.sqrt(0.5)) * math.sqrt(0.5 / math.pi)
    return multiply(jet, Jet(share, integral(density, x)))


_GELU = _compose_or_else(derivatives.of_gelu, _gelu_by_gate)


def _glu(step: Step, x: Series) -> Series | None:
    """Return the first half of the saved axis of x times the sigmoid of the second half.

    None stands for a series that is zero.
    """
    dim, value = step.saved("dim"), step.tensor("self")
    middle = value.shape[dim] // 2
    one, two = value.split(middle, dim)
    left, right = x.narrowed(dim, 0, middle), x.narrowed(dim, middle, middle)
    return multiply(Jet(one, left), Jet(two, right).sigmoid())


RULES: dict[str, Rule] = {
    **make_rules(
        {
            "TanhBackward0": lambda step, x: jets.tanh_from(step.tensor("result"), x),
            "SigmoidBackward0": lambda step, x: jets.sigmoid_from(step.tensor("result"), x),
            "SinBackward0": _compose_or_else(
                derivatives.of_sin, lambda step, x: jets.sin_from(step.tensor("self"), x)
            ),
            "CosBackward0": _compose_or_else(
                derivatives.of_cos, lambda step, x: jets.cos_from(step.tensor("self"), x)
            ),
        },
        rowwise=True,
        has_exact_type=True,
        is_for_complex=True,
    ),
    **make_rules(
        {
            "TanBackward0": _tan,
            "SinhBackward0": _compose_or_else(
                derivatives.of_sinh, _hyperbolic(Tensor.sinh, Tensor.cosh)
            ),
            "CoshBackward0": _compose_or_else(
                derivatives.of_cosh, _hyperbolic(Tensor.cosh, Tensor.sinh)
            ),
            "ExpBackward0": lambda step, x: jets.exp_of(x).scaled(step.tensor("result")),
            "Expm1Backward0": lambda step, x: jets.exp_of(x).scaled(step.tensor("result") + 1),
            "Exp2Backward0": _exp2,
            "LogBackward0": _log_to_base(math.e),
            "Log2Backward0": _log_to_base(2),
            "Log10Backward0": _log_to_base(10),
            "Log1PBackward0": lambda step, x: jets.log_of(x.scaled(1 / (1 + step.tensor("self")))),
            "SqrtBackward0": lambda step, x: jets.sqrt_from(step.tensor("result"), x),
            "RsqrtBackward0": lambda step, x: jets.rsqrt_from(step.tensor("result"), x),
            "ReciprocalBackward0": lambda step, x: jets.reciprocal_from(step.tensor("result"), x),
            "PowBackward0": _power,
            "PowBackward2": _power_of_number,
        },
        rowwise=True,
        is_for_complex=True,
    ),
    **make_rules(
        {
            "PowBackward1": _power_of_tensor,
            "AsinBackward0": _compose_or_else(
                derivatives.of_asin, _with_slope(lambda x: (1 - x * x).rsqrt())
            ),
            "AcosBackward0": _compose_or_else(
                derivatives.of_acos, _with_slope(lambda x: -(1 - x * x).rsqrt())
            ),
            "AtanBackward0": _atan,
            "AsinhBackward0": _asinh,
            "AcoshBackward0": _acosh,
            "AtanhBackward0": _with_slope(lambda x: (1 - x * x).reciprocal()),
            "ErfBackward0": _compose_or_else(
                derivatives.of_erf, _with_slope(lambda x: _bell(x) * (2 / math.sqrt(math.pi)))
            ),
            "ErfcBackward0": _with_slope(lambda x: _bell(x) * (-2 / math.sqrt(math.pi))),
            "LogSigmoidBackward0": _compose_or_else(
                derivatives.of_log_sigmoid, _with_slope(lambda x: (-x).sigmoid())
            ),
            "SoftplusBackward0": _softplus,
            "Atan2Backward0": _atan2,
            "GeluBackward0": _gelu,
            "HypotBackward0": _hypot,
            "LogaddexpBackward0": _log_add_exp,
            "Logaddexp2Backward0": _log_add_exp_to_base_2,
        },
        rowwise=True,
    ),
    "SiluBackward0": Rule(
        _compose_or_else(derivatives.of_silu, _silu), rowwise=True, has_exact_type=True
    ),
    "MishBackward0": Rule(
        _compose_or_else(derivatives.of_mish, _mish), rowwise=True, has_exact_type=True
    ),
    "GluBackward0": Rule(_glu),
}
