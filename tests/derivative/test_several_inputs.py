"""Inputs may be several tensors, each with some of the columns; errors say what to do."""

from typing import Any

import pytest
import torch
from torch import Tensor

from leafgrad import hessian, higher_order_grad, jacobian, laplacian
from tests.derivative.refusals import words
from tests.derivative.taylor.oracle import assert_same, rows
from tests.messages import message

ORDERS = [(1, 0), (0, 1), (1, 1), (2, 1), (0, 2)]
W = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(2, 4).requires_grad_()


def wave(x: Tensor, t: Tensor) -> Tensor:
    return (torch.cat([x, t], -1) @ W).tanh().prod(-1, keepdim=True) * x.exp()


def pair(shape: tuple[int, ...] = (5, 1)) -> list[Tensor]:
    whole = rows(2, *shape).detach()
    return [part.clone().requires_grad_() for part in whole.unbind(0)]


def nested(u: Tensor, parts: list[Tensor], order: tuple[int, ...]) -> Tensor:
    for part, count in zip(parts, order, strict=True):
        for _ in range(count):
            (u,) = torch.autograd.grad(u.sum(), part, create_graph=True)
    return u


def test_inputs_without_column_axis_count_as_one_column_each() -> None:
    parts = pair((5,))
    u = (parts[0] * parts[1]).sin() + parts[1] ** 3
    ours = higher_order_grad(u, parts, ORDERS)
    assert_same(ours, [nested(u, parts, order) for order in ORDERS])


def test_scalar_inputs_count_as_one_column_each() -> None:
    x, t = (torch.tensor(value, requires_grad=True) for value in (2.0, 3.0))
    assert higher_order_grad(x**2 * t**3, (x, t), (1, 2)).item() == 72


def test_inputs_can_have_several_columns() -> None:
    place, time = rows(5, 2), pair()[1]
    u = (place.prod(1, keepdim=True) * time).sin()
    whole = torch.cat([place, time], 1).detach().requires_grad_()
    of_whole = (whole[:, :2].prod(1, keepdim=True) * whole[:, 2:]).sin()
    for function in (jacobian, hessian, laplacian):
        assert_same([function(u, [place, time])], [function(of_whole, whole)])
    ours = laplacian(u, (place, time), dims=[0, 1], with_gradient=True)
    assert_same(ours, laplacian(of_whole, whole, dims=[0, 1], with_gradient=True))


def test_function_is_called_with_all_inputs() -> None:
    x, t = pair()
    expected = higher_order_grad(wave(x, t), (x, t), (2, 1))
    assert_same([higher_order_grad(wave, (x.detach(), t), (2, 1))], [expected])


def test_columns_of_one_tensor_can_be_separate_inputs() -> None:
    points = rows(5, 2)
    x, t = points.unbind(1)
    u = (x * t).sin() * x
    ours = higher_order_grad(u, (x, t), ORDERS)
    assert_same(ours, higher_order_grad(u, points, ORDERS))


def test_outputs_can_be_one_of_the_inputs() -> None:
    x, t = pair()
    pattern = words(
        "several-inputs.one", number=1, error=message("derivative.graph.no-path", why="")
    )
    with pytest.raises(RuntimeError, match=pattern[:60]):
        higher_order_grad(x, (x, t), (1, 0))
    found = higher_order_grad(x, (x, t), [(1, 0), (0, 1), (2, 0)], allow_unused=True)
    assert [derivative.tolist()[0] for derivative in found] == [[1.0], [0.0], [0.0]]


def test_unused_inputs_give_zeros_with_allow_unused() -> None:
    parts = pair()
    u = rows(5, 1).sin()
    assert higher_order_grad(u, parts, (1, 0), allow_unused=True).tolist() == [[0.0]] * 5


X, T = pair()
REFUSED: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "none": ((), (1,), ValueError, words("several-inputs.none")),
    "twice": ((X, X), (1, 0), ValueError, words("several-inputs.twice")),
    "dtypes": ((X, T.float()), (1, 0), TypeError, words("several-inputs.dtypes")),
    "shapes": ((X, T[:3]), (1, 0), ValueError, words("several-inputs.shapes")),
    "a number": (
        (X, T[0, 0]),
        (1, 0),
        ValueError,
        words("several-inputs.shapes", shapes="(5, 1), ()"),
    ),
    "an int": ((X, T), 2, ValueError, words("order.int", columns=2)),
    "no gradient": (
        (X, T.detach()),
        (1, 0),
        RuntimeError,
        words("several-inputs.one", number=1, error=message("derivative.graph.inputs-no-grad")),
    ),
}


@pytest.mark.parametrize(("inputs", "order", "error", "pattern"), REFUSED.values(), ids=REFUSED)
def test_inputs_and_orders_that_do_not_match_are_refused(
    inputs: Any, order: Any, error: type[Exception], pattern: str
) -> None:
    with pytest.raises(error, match=pattern):
        higher_order_grad(wave(X, T), inputs, order)


def test_input_computed_from_another_input_is_refused() -> None:
    x = pair()[0]
    t = x.sin()
    with pytest.raises(ValueError, match=words("several-inputs.nested")):
        higher_order_grad(wave(x, t), (x, t), (1, 1))


ORDERS = [(1, 0), (0, 1), (2, 0), (1, 1), (0, 3)]


@pytest.mark.parametrize("shape", [(5, 1), (5,)], ids=str)
@pytest.mark.parametrize("create_graph", [True, False])
def test_reverse_mode_matches_taylor_mode_with_several_inputs(
    shape: tuple[int, ...], *, create_graph: bool
) -> None:
    x, t = pair(shape)
    u = x.exp() * (x * t**3).sin()
    options: dict[str, Any] = {"create_graph": create_graph}
    by_rules = higher_order_grad(u, (x, t), ORDERS, method="taylor", **options)
    nested = higher_order_grad(u, (x, t), ORDERS, method="reverse", **options)
    torch.testing.assert_close(nested, by_rules)
    torch.testing.assert_close(
        laplacian(u, (x, t), method="reverse", **options), laplacian(u, (x, t), **options)
    )
    if create_graph:
        slopes = [
            torch.autograd.grad([each.sum() for each in d], (x, t), retain_graph=True)
            for d in (by_rules, nested)
        ]
        torch.testing.assert_close(*slopes)


def test_operation_without_rule_is_differentiated_in_several_inputs() -> None:
    x, t = pair()
    both = torch.cat([x, t], 1).detach().requires_grad_()
    apart = higher_order_grad((x * t).renorm(2, 0, 1), (x, t), ORDERS)
    joined = higher_order_grad((both[:, :1] * both[:, 1:]).renorm(2, 0, 1), both, ORDERS)
    torch.testing.assert_close(apart, joined)


def test_dependent_rows_are_refused_with_several_inputs() -> None:
    x, t = pair()
    with pytest.raises(RuntimeError, match=words("rows-must.row")):
        higher_order_grad(wave(x, t) * x.mean(), (x, t), (1, 1))
    with pytest.raises(RuntimeError, match=words("rows-must.promise-broken")):
        higher_order_grad(wave(x, t) * x.mean(), (x, t), (1, 1), rows="independent")
