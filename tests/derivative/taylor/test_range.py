"""Taylor mode is right at every order, scale and dtype, beside fifty digits of mpmath.

A function is f(z), its argument scaled by one power of two and its value by another, so that the
derivatives of ``b f(a x)`` at the stored inputs are known without any rounding. An error is held
against the largest value of the derivative at any of the points, as for the exactness of low
orders, and against what the dtype rounds; it may be a few times that, as functions are computed
from values that PyTorch has rounded.
"""

import math
from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from leafgrad import Jet, higher_order_grad, laplacian, taylor_rule
from tests.tensors import Cube

Function = Callable[[Any], Any]
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
HIGHEST = 40
POINTS = [-1.25, 0.125, 0.75]
# The largest error in rounding units: up to order 8, and for higher orders.
LIMITS = {
    torch.float16: (40, 60),
    torch.bfloat16: (40, 60),
    torch.float32: (60, 100),
    torch.float64: (60, 200),
}


def exact(name: str, order: int, inner: int, outer: int) -> list[Any]:
    """Return the derivative of this order of the scaled function at each point."""
    function = FUNCTIONS[name][1]
    with mpmath.workdps(50):
        factor = mpmath.mpf(2) ** (order * inner + outer)
        return [factor * mpmath.diff(function, mpmath.mpf(point), order) for point in POINTS]


def derivative(name: str, order: int, inner: int, outer: int, dtype: torch.dtype) -> list[float]:
    x = (torch.tensor(POINTS, dtype=torch.float64) * 2.0**-inner).to(dtype).unsqueeze(1)
    function = FUNCTIONS[name][0]
    found = higher_order_grad(
        lambda x: function(x * 2.0**inner) * 2.0**outer,
        x,
        order,
        create_graph=False,
        method="taylor",
    )
    assert found.dtype == dtype
    result: list[float] = found[:, 0].tolist()
    return result


def error(ours: list[float], theirs: list[Any], dtype: torch.dtype) -> float:
    """Return the largest error of `ours`, in units of half an eps of the largest value."""
    info = torch.finfo(dtype)
    largest = min(max(map(abs, theirs)), mpmath.mpf(info.max))
    unit = max(largest * info.eps / 2, mpmath.mpf(info.tiny))
    errors = [0.0]
    for one, other in zip(ours, theirs, strict=True):
        if abs(other) < info.max:
            assert math.isfinite(one)
            errors.append(float(abs(one - other) / unit))
        elif abs(other) > info.max * (1 + LIMITS[dtype][1] * info.eps):
            assert one == math.copysign(math.inf, other)
    return max(errors)


SCALES = {  # exponents of the inner and outer factor, within the range of the dtype
    torch.float16: st.tuples(st.integers(-8, 8), st.integers(-8, 8)),
    torch.bfloat16: st.tuples(st.integers(-40, 40), st.integers(-60, 60)),
    torch.float32: st.tuples(st.integers(-40, 40), st.integers(-60, 60)),
    torch.float64: st.tuples(st.integers(-300, 300), st.integers(-300, 300)),
}


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@given(data=st.data())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_derivative_is_right_at_any_order_and_scale(dtype: torch.dtype, data: Any) -> None:
    name = data.draw(st.sampled_from(sorted(FUNCTIONS)))
    order = data.draw(st.integers(1, HIGHEST))
    inner, outer = data.draw(SCALES[dtype])
    ours = derivative(name, order, inner, outer, dtype)
    limit = LIMITS[dtype][order > 8]
    assert error(ours, exact(name, order, inner, outer), dtype) <= limit


# --- Regressions


@pytest.mark.parametrize(
    ("name", "order", "inner", "outer", "dtype"),
    [("log", 7, 15, -2, torch.float32), ("sigmoid", 3, -16, -39, torch.float32)],
    ids=["too large", "too small"],
)
def test_derivative_that_overflows_at_the_first_scale_is_right(
    name: str, order: int, inner: int, outer: int, dtype: torch.dtype
) -> None:
    ours = derivative(name, order, inner, outer, dtype)
    assert error(ours, exact(name, order, inner, outer), dtype) <= LIMITS[dtype][0]


def column(*numbers: float, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(numbers, dtype=dtype).unsqueeze(1).requires_grad_()


def test_derivative_with_intermediate_underflow_is_right() -> None:
    x = column(0.5, 1.0, 2.0, dtype=torch.float32)
    u = (x * 2.0**-60) ** 3 * 2.0**30 * 2.0**100
    third = higher_order_grad(u, x, 3, method="taylor")
    assert third.tolist() == [[6 * 2.0**-50]] * 3


def test_each_row_of_the_batch_has_its_own_scale() -> None:
    x = column(1e-3, 1.0, 3e4)
    found = higher_order_grad(1 / x, x, 60)
    (gradient,) = torch.autograd.grad(found.sum(), x)
    for v, one, two in zip(*(t[:, 0].tolist() for t in (x, found, gradient)), strict=True):
        for order, ours in ((60, one), (61, two)):
            theirs = (-1) ** order * mpmath.factorial(order) / mpmath.mpf(v) ** (order + 1)
            assert abs(ours - theirs) <= 1e-13 * abs(theirs)


def test_derivative_beyond_range_of_dtype_is_infinite_or_zero() -> None:
    x = column(0.5, 0.75)
    assert higher_order_grad((1000 * x).sin(), x, 171).isinf().all()
    assert higher_order_grad((x / 1000).sin(), x, 171).tolist() == [[0.0], [0.0]]
    y = column(0.5, 0.75, dtype=torch.float16)
    assert higher_order_grad((32 * y).exp(), y, 12).tolist() == [[math.inf]] * 2


def test_infinite_value_can_have_finite_derivatives() -> None:
    x = column(0.25, 0.75, dtype=torch.float32)
    outputs = (x * 2.0**-66).cos() * 2.0**127 * 2
    assert outputs.isinf().all()
    found = higher_order_grad(outputs, x, 2, method="taylor")
    torch.testing.assert_close(found, torch.full_like(found, -(2.0**-4)), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_infinite_derivative_is_returned_as_infinite(dtype: torch.dtype) -> None:
    x = column(0.0, 1.0, dtype=dtype)
    roots = higher_order_grad(x.sqrt(), x, 2, method="taylor")[:, 0].tolist()
    assert not math.isfinite(roots[0])
    assert roots[1] == -0.25


@pytest.mark.parametrize("order", [2, 3, 20])
def test_nan_in_one_row_does_not_change_other_rows(order: int) -> None:
    x = column(math.nan, 0.5, dtype=torch.float32)
    first, second = higher_order_grad(x.exp(), x, order, method="taylor")[:, 0].tolist()
    assert math.isnan(first)
    assert second == pytest.approx(math.exp(0.5), rel=1e-6)


@pytest.mark.parametrize("order", [2, 4])
def test_saturated_tanh_has_exact_zeros(order: int) -> None:
    x = column(0.5, 40.0, 90.0, dtype=torch.float32)
    found = higher_order_grad(x.tanh(), x, order, method="taylor")
    y = column(0.5, 40.0, 90.0)
    expected = higher_order_grad(y.tanh(), y, order)
    assert found[1:].tolist() == [[0.0], [0.0]]
    torch.testing.assert_close(found[0].double(), expected[0], rtol=1e-6, atol=0)


# --- Several orders, columns and layers


def test_low_order_requested_with_high_order_is_as_exact_as_alone() -> None:
    x = column(0.25, 0.75, dtype=torch.float32)
    orders = [1, 2, 3, 16, 34]
    found = higher_order_grad((x / 32).sin() * 32, x, orders, create_graph=False)
    for order, ours in zip(orders, found, strict=True):
        alone = higher_order_grad((x / 32).sin() * 32, x, order, create_graph=False)
        torch.testing.assert_close(ours, alone, rtol=1e-6, atol=1e-38)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("order", [(2, 1), (6, 2), (8, 8), (20, 19)])
def test_mixed_derivative_is_right_in_any_dtype(order: tuple[int, int], dtype: torch.dtype) -> None:
    x = torch.tensor([[0.25, 0.5], [0.75, -0.5]], dtype=dtype, requires_grad=True)
    found = higher_order_grad(x[:, 0].sin() * (x[:, 1] / 2).exp(), x, order, method="taylor")
    z = x.detach().double()
    waves = z[:, 0].sin(), z[:, 0].cos(), -z[:, 0].sin(), -z[:, 0].cos()
    expected = waves[order[0] % 4] * (z[:, 1] / 2).exp() * 2.0 ** -order[1]
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(
        found, expected.to(dtype), rtol=8 * eps, atol=torch.finfo(dtype).tiny
    )


@pytest.mark.parametrize("power", [-63, -30, 0, 30, 63])
def test_laplacian_is_right_at_any_scale(power: int) -> None:
    scale = 2.0**power
    x = torch.tensor([[0.25, 0.5], [0.75, -0.5]], requires_grad=True)
    outputs = ((x / 2).prod(1) * scale).sin() / scale / scale * 2.0**60
    found = laplacian(outputs, x).double() * 2.0**-60
    p, s = x.detach().double().unbind(1)
    expected = -torch.sin(p * s / 4 * scale) * (p.square() + s.square()) / 16
    rough = ((x.detach().double() / 2).prod(1) * scale).abs() * 2e-7
    assert ((found - expected).abs() <= 1e-6 * expected.abs() + rough).all()


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "softplus": nn.Softplus,
    "sigmoid": nn.Sigmoid,
}


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("activation", NETWORKS.values(), ids=NETWORKS)
def test_network_in_low_precision_matches_double_precision(
    activation: Callable[[], nn.Module], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(2, 8), activation(), nn.Linear(8, 8), activation(), nn.Linear(8, 2)
    )
    network.to(dtype)
    x = (torch.rand(4, 2) - 0.5).to(dtype)
    precise = nn.Sequential(
        nn.Linear(2, 8), activation(), nn.Linear(8, 8), activation(), nn.Linear(8, 2)
    )
    precise.double().load_state_dict(network.state_dict())
    eps = torch.finfo(dtype).eps
    orders = [(1, 0), (2, 0), (1, 2), (3, 2), (5, 5)]
    ours = higher_order_grad(network, x, orders)
    theirs = higher_order_grad(precise, x.double(), orders)
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == dtype
        assert (one - other).abs().max() <= 8 * eps * other.abs().max()
    ours[1].sum().backward()
    theirs[1].sum().backward()
    for one, other in zip(network[:3].parameters(), precise[:3].parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert (one.grad - other.grad).abs().max() <= 16 * eps * other.grad.abs().max()


# --- Intermediate results of rules


class CubeWithRule(Cube):
    pass


@taylor_rule(CubeWithRule)
def cube(ctx: Any, x: Any) -> Jet:
    (value,) = ctx.saved_tensors
    return Jet(value, x) ** 3


@pytest.mark.parametrize("order", [1, 2, 3, 12])
def test_custom_rule_has_full_range_in_half_precision(order: int) -> None:
    x = column(0.5, 2.0, dtype=torch.float16)
    apply: Callable[[Tensor], Tensor] = CubeWithRule.apply
    found = higher_order_grad(apply(32 * x) / 256, x, order, method="taylor")
    factors = {1: 128 * 3 * x**2, 2: 128 * 6 * x, 3: 128 * 6 + 0 * x}
    expected = factors.get(order, 0 * x)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=0)


FAR = 2.0**80
FAR_FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "asinh": (lambda z: torch.asinh(z * FAR), lambda z: mpmath.asinh(z * FAR)),
    "acosh": (lambda z: torch.acosh(z * FAR), lambda z: mpmath.acosh(z * FAR)),
    "atan": (lambda z: torch.atan(z * FAR) * FAR, lambda z: mpmath.atan(z * FAR) * FAR),
    "atan2": (
        lambda z: torch.atan2(z * FAR, z.exp() * FAR),
        lambda z: mpmath.atan2(z, mpmath.exp(z)),
    ),
    "near atan2": (
        lambda z: torch.atan2(z / FAR, z.exp() / FAR),
        lambda z: mpmath.atan2(z, mpmath.exp(z)),
    ),
    "hypot": (
        lambda z: torch.hypot(z * FAR, z.exp() * FAR) / FAR,
        lambda z: mpmath.hypot(z, mpmath.exp(z)),
    ),
    "norm": (
        lambda z: torch.cat([z, z.exp()], 1).mul(2**60).norm(dim=1, keepdim=True) / 2**60,
        lambda z: mpmath.hypot(z, mpmath.exp(z)),
    ),
    "power of tensor": (
        lambda z: (z * 2**30) ** torch.tensor(1.5) * 2**-45,
        lambda z: z ** mpmath.mpf(1.5),
    ),
    "quotient": (lambda z: z.sin() * FAR / (z * FAR + FAR), lambda z: mpmath.sin(z) / (z + 1)),
}


@pytest.mark.parametrize("order", [2, 3, 7])
@pytest.mark.parametrize("name", FAR_FUNCTIONS)
@pytest.mark.sweep
def test_values_near_end_of_range_have_right_derivatives(name: str, order: int) -> None:
    ours, theirs = FAR_FUNCTIONS[name]
    x = column(1.0, 1.25, 2.0, dtype=torch.float32)
    found = higher_order_grad(ours(x), x, order, method="taylor")
    with mpmath.workdps(90):
        expected = [mpmath.diff(theirs, mpmath.mpf(v), order) for v in x[:, 0].tolist()]
    largest = max(map(abs, expected))
    for one, other in zip(found[:, 0].tolist(), expected, strict=True):
        assert abs(one - other) <= 1e-5 * largest
