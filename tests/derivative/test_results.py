"""Results share no memory: a write into one changes neither other results nor gradients."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor

from leafgrad import hessian, higher_order_grad, jacobian, laplacian
from tests.derivative.taylor.oracle import assert_same, rows

Differentiate = Callable[[Any, Any, bool], Sequence[Tensor]]

WEIGHT = torch.linspace(-1, 1, 8, dtype=torch.float64).view(2, 4).requires_grad_()
ORDERS = [(1, 0), (0, 1), (1, 1), (2, 0), (1, 0)]
DIRECTIONS = torch.eye(2, dtype=torch.float64)


def network(x: Tensor) -> Tensor:
    return ((x @ WEIGHT).tanh() @ WEIGHT.mT).tanh()


def linear(x: Tensor) -> Tensor:
    return x @ WEIGHT


def one_channel(x: Tensor) -> Tensor:
    return network(x)[:, 0]


def of_orders(orders: list[Any], method: Any) -> Differentiate:
    return lambda u, x, create_graph: higher_order_grad(
        u, x, orders, method=method, create_graph=create_graph
    )


METHODS = ("auto", "taylor", "reverse")
CALLS: dict[str, Differentiate] = {
    **{f"first {method}": of_orders(ORDERS[:2], method) for method in METHODS},
    **{f"second {method}": of_orders(ORDERS, method) for method in METHODS},
    **{f"third {method}": of_orders([(3, 0), (2, 1), (1, 0)], method) for method in METHODS},
    "laplacian": lambda u, x, g: laplacian(u, x, with_gradient=True, create_graph=g),
    "directions": lambda u, x, g: laplacian(
        u, x, directions=DIRECTIONS, with_gradient=True, create_graph=g
    ),
    "jacobian and hessian": lambda u, x, g: [
        jacobian(u, x, create_graph=g),
        hessian(u, x, create_graph=g),
    ],
    "one by one": lambda u, x, g: [
        higher_order_grad(u, x, order, create_graph=g) for order in ORDERS
    ],
}


@pytest.mark.parametrize("function", [network, linear, one_channel])
@pytest.mark.parametrize("name", sorted(CALLS))
@pytest.mark.parametrize("create_graph", [True, False])
def test_write_into_result_changes_no_other_result(
    name: str, function: Callable[[Tensor], Tensor], *, create_graph: bool
) -> None:
    x = rows(5, 2)
    u = function(x)
    results, expected = (CALLS[name](u, x, create_graph) for _ in range(2))
    storages = [result.untyped_storage().data_ptr() for result in results]
    assert len({*storages}) == len(results)
    assert all(result._base is None for result in results)
    squares = [
        result.square() for result in results[1:]
    ]  # These nodes save results that are not written into.
    results[0].mul_(3)
    assert_same([results[0], *results[1:]], [expected[0] * 3, *expected[1:]])
    if create_graph:
        ours = sum([square.sum() for square in squares], results[0].sum())
        theirs = sum([each.square().sum() for each in expected[1:]], expected[0].sum() * 3)
        for total in (ours, theirs):
            assert total.requires_grad
        found = [
            torch.autograd.grad(
                total, [WEIGHT, x], retain_graph=True, allow_unused=True, materialize_grads=True
            )
            for total in (ours, theirs)
        ]
        assert_same(*found)


def test_results_of_several_inputs_share_no_memory() -> None:
    x, t = (column.detach().requires_grad_() for column in rows(5, 2).unbind(1))
    u = (x * t).sin() * x
    results = higher_order_grad(u, (x, t), ORDERS)
    expected = [each.detach().clone() for each in results]
    for number, (one, other) in enumerate(combinations(results, 2)):
        assert one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr(), number
    for result in results:
        result.add_(1)
    assert_same(results, [each + 1 for each in expected])


def test_order_zero_returns_outputs() -> None:
    x = rows(5, 2)
    u = one_channel(x)
    same, slope, again = higher_order_grad(u, x, [(0, 0), (1, 0), (0, 0)])
    assert same is u
    again.add_(slope)
    assert not torch.equal(again, u)


@pytest.mark.parametrize("zero", [(0, 0), [(0, 0)], [(0, 0), (0, 0)]])
def test_order_zero_of_outputs_without_graph_is_not_treated_as_constant(zero: Any) -> None:
    x = rows(5, 2)
    with torch.no_grad():
        u = one_channel(x)
    same = higher_order_grad(u, x, zero)
    for outputs in (u, *(same if isinstance(same, tuple) else (same,))):
        with pytest.raises(RuntimeError, match="requires no grad"):
            higher_order_grad(outputs, x, (1, 0))


class Labelled(Tensor):
    """Behaves like a tensor of PINA: results have the same class, but no labels."""

    labels: Any  # It is never set, so reading it raises an error.

    def clone(self, **options: Any) -> Tensor:
        return self.labels and super().clone(**options)

    detach = to = permute = clone  # type: ignore[assignment]


@pytest.mark.parametrize("function", [network, linear, one_channel])
@pytest.mark.parametrize("name", sorted(CALLS))
def test_results_are_plain_tensors_where_inputs_are_of_a_subclass(
    name: str, function: Callable[[Tensor], Tensor]
) -> None:
    x = rows(40, 2)
    labelled = x.detach().as_subclass(Labelled).requires_grad_()
    results = CALLS[name](function(labelled), labelled, True)
    assert {*map(type, results)} == {Tensor}
    assert_same(results, CALLS[name](function(x), x, True))
