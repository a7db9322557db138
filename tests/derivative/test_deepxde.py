"""`patch_deepxde` returns the derivatives that a DeepXDE script requests, in few calls."""

import gc
import types
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from leafgrad import higher_order_grad, patch_deepxde


def patched() -> Any:
    grad = types.SimpleNamespace(jacobian=None, hessian=None, clear=None)
    patch_deepxde(grad)
    return grad


def points(columns: int = 2) -> Tensor:
    x = torch.linspace(0.2, 1.7, 6 * columns, dtype=torch.float64).sin() + 0.5
    return x.reshape(6, columns).requires_grad_()


def outputs(x: Tensor) -> Tensor:
    return torch.stack([x[:, 0] ** 3 * x[:, 1].exp(), x.prod(dim=1).sin()], dim=1)


def nested(y: Tensor, x: Tensor, i: int, *columns: int) -> Tensor:
    found = y[:, i : i + 1]
    for column in columns:
        (rows,) = torch.autograd.grad(found.sum(), x, create_graph=True)
        found = rows[:, column : column + 1]
    return found


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def few(x: Tensor) -> Tensor:
    return torch.sin(x[:, :1] * x[:, 1:]) + x[:, :1] ** 3


class Asked:
    """Records the arguments of each call of `higher_order_grad`."""

    def __init__(self) -> None:
        self.orders: list[Any] = []
        self.options: list[dict[str, Any]] = []

    def __call__(self, y: Tensor, x: Tensor, orders: Any, **options: Any) -> Any:
        self.orders.append(orders)
        self.options.append(options)
        return higher_order_grad(y, x, orders, **options)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    noted = Asked()
    monkeypatch.setattr("leafgrad._derivative.deepxde.higher_order_grad", noted)
    return noted


@pytest.mark.parametrize(("count", "options"), [(64, [{"method": "reverse"}]), (65, [{}])])
def test_few_points_use_two_reverse_passes(
    count: int, options: list[dict[str, Any]], asked: Asked
) -> None:
    x = torch.rand(count, 2, dtype=torch.float64, requires_grad=True)
    y = few(x)
    assert_same(patched().hessian(y, x, i=0, j=1), nested(y, x, 0, 0, 1))
    assert asked.options == options


def test_many_channels_or_orders_do_not_use_two_reverse_passes(asked: Asked) -> None:
    grad, x = patched(), points()
    y, z = few(x), outputs(x)
    assert_same(grad.hessian(z, x, component=1, i=0, j=1), nested(z, x, 1, 0, 1))
    y_xx = grad.hessian(y, x, i=0, j=0)
    assert_same(grad.jacobian(y_xx, x, i=0, j=1), nested(y, x, 0, 0, 0, 1))
    assert asked.options == [{}, {"method": "reverse"}, {}]


def test_refusal_of_reverse_mode_falls_back_to_other_method(asked: Asked) -> None:
    x = points()
    y = torch.nn.functional.layer_norm(torch.cat([few(x), x], 1), (3,))[:, :1]
    found = patched().hessian(y, x, i=0, j=1)
    assert_same(found, higher_order_grad(y, x, (1, 1), method="taylor"))
    assert asked.options == [{"method": "reverse"}, {}]


@pytest.mark.parametrize("i", [0, 1])
@pytest.mark.parametrize("j", [0, 1])
def test_each_entry_of_jacobian_and_hessian_is_returned_as_a_column(i: int, j: int) -> None:
    grad, x = patched(), points()
    y = outputs(x)
    assert_same(grad.jacobian(y, x, i=i, j=j), nested(y, x, i, j))
    assert_same(grad.hessian(y, x, component=i, i=0, j=j), nested(y, x, i, 0, j))
    assert_same(grad.hessian(y, x, component=i, i=j, j=1), nested(y, x, i, j, 1))


def test_jacobian_without_index_returns_row_or_column() -> None:
    grad, x = patched(), points()
    y = outputs(x)
    entries = [[nested(y, x, i, j) for j in range(2)] for i in range(2)]
    assert_same(grad.jacobian(y, x, i=1), torch.cat(entries[1], dim=1))
    assert_same(grad.jacobian(y, x, j=1), torch.cat([row[1] for row in entries], dim=1))


def test_jacobian_and_hessian_with_a_single_entry_need_no_index() -> None:
    grad, x = patched(), points(1)
    assert_same(grad.jacobian(x**3, x), 3 * x**2)
    assert_same(grad.hessian(x**3, x), 6 * x)


def test_derivative_of_a_derivative_is_computed_as_one_of_higher_order(asked: Asked) -> None:
    grad, x = patched(), points()
    y = outputs(x)
    row = grad.jacobian(y, x, i=0)
    assert_same(grad.jacobian(row, x, i=1, j=0), nested(y, x, 0, 1, 0))
    twice = grad.hessian(y, x, component=1, i=0, j=0)
    assert_same(grad.hessian(twice, x, i=1, j=0), nested(y, x, 1, 0, 0, 1, 0))
    assert_same(grad.jacobian(twice * y[:, :1], x, j=1), nested(twice * y[:, :1], x, 0, 1))
    assert asked.orders == [[(1, 0), (0, 1)], [(1, 1)], [(2, 0)], [(3, 1)], [(0, 1)]]


def test_training_step_computes_requests_of_previous_step_in_one_call(asked: Asked) -> None:
    grad = patched()
    for step in range(2):
        asked.orders.clear()
        x = points()
        y = outputs(x)
        found = [grad.jacobian(y, x, i=0, j=1), grad.hessian(y, x, component=1)]
        found += [grad.jacobian(y, x, i=1, j=1), grad.hessian(found[1], x)]
        expected = [nested(y, x, 0, 1), nested(y, x, 1, 0, 0), nested(y, x, 1, 1)]
        expected.append(nested(y, x, 1, 0, 0, 0, 0))
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        grad.clear()
        first = [[(0, 1)], [(2, 0)], [(4, 0)]]
        assert asked.orders == (first if step == 0 else [[(0, 1), (2, 0), (4, 0)]])


def test_training_step_with_other_first_request_computes_only_its_requests(asked: Asked) -> None:
    grad = patched()
    for orders in ([0, 1], [1]):
        x = points()
        y = outputs(x)
        for j in orders:
            grad.hessian(y, x, i=j, j=j)
    x = points(3)  # new points start another step without a call of clear()
    grad.jacobian(x.prod(dim=1, keepdim=True), x, j=2)
    assert asked.orders == [[(2, 0)], [(0, 2)], [(0, 2), (2, 0)], [(0, 0, 1)]]


def test_several_outputs_in_one_training_step_get_their_own_derivatives() -> None:
    grad = patched()
    for _ in range(2):
        x = points()
        y, other = outputs(x), outputs(x).exp()
        assert_same(grad.jacobian(y, x, i=0, j=0), nested(y, x, 0, 0))
        assert_same(grad.hessian(other, x, i=0, j=1), nested(other, x, 0, 0, 1))
        assert_same(grad.hessian(y, x, i=1, j=1), nested(y, x, 0, 1, 1))


def test_outputs_changed_in_place_are_differentiated_again() -> None:
    grad, x = patched(), points()
    y = outputs(x)
    slope = grad.jacobian(y, x, i=0, j=0)
    slope *= 2
    assert_same(grad.jacobian(y, x, i=0, j=0), nested(y, x, 0, 0))
    assert_same(grad.jacobian(slope, x, j=1), 2 * nested(y, x, 0, 0, 1))
    y *= 3
    assert_same(grad.jacobian(y, x, i=0, j=0), nested(y, x, 0, 0))


def test_zero_derivative_can_be_differentiated_again() -> None:
    grad, x = patched(), points()
    flat = grad.hessian(3 * x[:, :1] + 1, x)
    assert grad.jacobian(flat, x, j=0).tolist() == [[0.0]] * 6
    assert not flat.any()


def test_gradients_of_parameters_match_nested_passes() -> None:
    grad, x = patched(), points()
    weight = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    y = outputs(x * weight)
    loss = grad.hessian(y, x, component=1, i=0, j=1).square().sum()
    (ours,) = torch.autograd.grad(loss, weight, retain_graph=True)
    (theirs,) = torch.autograd.grad(nested(y, x, 1, 0, 1).square().sum(), weight)
    assert_same(ours, theirs)


def test_clear_keeps_no_tensor() -> None:
    grad, x = patched(), points()
    y = outputs(x)
    grad.jacobian(y, x, i=0)
    gone = weakref.ref(y)
    grad.clear()
    del y
    gc.collect()
    assert gone() is None


def test_outputs_are_freed_when_new_points_arrive() -> None:
    grad, x = patched(), points()
    y = outputs(x)
    grad.jacobian(y, x, i=0)
    gone = weakref.ref(y)
    del y
    x = points()
    grad.jacobian(outputs(x), x, i=0)
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda g, y, x: g.jacobian(y, x), ValueError, "i and j must not both be None"),
        (lambda g, y, x: g.jacobian(y, x, i=2), ValueError, "i must be from 0 to 1, not 2"),
        (lambda g, y, x: g.jacobian(y, x, i=0, j=-1), ValueError, "j must be from 0 to 1, not -1"),
        (lambda g, y, x: g.hessian(y, x, component=2), ValueError, "component must be from 0 to 1"),
        (lambda g, y, x: g.hessian(y, x, i=3), ValueError, "i must be from 0 to 1, not 3"),
        (lambda g, y, x: g.hessian(y, x, j=3), ValueError, "j must be from 0 to 1, not 3"),
        (lambda g, y, x: g.jacobian((y, outputs), x, i=0), TypeError, "leave dde.config.autodiff"),
        (lambda g, y, _: g.jacobian(y, [1.0], i=0), TypeError, "xs must be a tensor, not of type"),
        (lambda g, y, x: g.jacobian(y[:, 0], x, i=0), ValueError, r"not shape \(6,\)"),
        (lambda g, y, x: g.jacobian(y.flip(0), x, i=0, j=0), RuntimeError, "same row of inputs"),
    ],
)
def test_invalid_requests_are_refused(ask: Any, error: type[Exception], message: str) -> None:
    x = points()
    with pytest.raises(error, match=message):
        ask(patched(), outputs(x), x)


def test_module_without_the_three_functions_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"must be the module dde\.grad, which has clear, not names"
    ):
        patch_deepxde(types.SimpleNamespace(jacobian=None, hessian=None))
