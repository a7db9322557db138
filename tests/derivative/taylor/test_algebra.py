"""Algebras know which products matter, and runs of products add them up in few operations."""

import pytest
import torch

from leafgrad._derivative.taylor.algebra import basis_of, closure, monomials, powers, squares
from leafgrad._derivative.taylor.kernels.contraction import contract
from leafgrad._derivative.taylor.kernels.plans import contraction, recurrence
from leafgrad._derivative.taylor.kernels.products import Product, product_runs


def test_the_closure_holds_each_index_on_the_way() -> None:
    assert closure([(2, 1), (0, 2)]) == {(1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2)}
    assert basis_of(closure([(1, 1), (0, 2)])) == [(0, 1), (1, 0), (0, 2), (1, 1)]


def test_powers_are_multiplied_by_adding_exponents() -> None:
    algebra = powers(4)
    assert algebra.degrees == (1, 2, 3, 4)
    assert algebra.order == 4
    assert algebra.products[0, 2] == 3
    assert (1, 2) not in algebra.products


def test_products_that_lead_out_of_the_closure_are_dropped() -> None:
    algebra = monomials(closure([(2, 0), (0, 2)]))
    basis = basis_of(closure([(2, 0), (0, 2)]))
    assert (basis.index((1, 0)), basis.index((0, 1))) not in algebra.products
    assert algebra.products[basis.index((1, 0)), basis.index((1, 0))] == basis.index((2, 0))


def test_the_squares_of_all_directions_are_one() -> None:
    algebra = squares(3)
    assert algebra.degrees == (1, 1, 1, 2)
    assert algebra.products == {(0, 0): 3, (1, 1): 3, (2, 2): 3}


def test_a_function_of_one_index_has_its_powers_only() -> None:
    assert powers(6).generated((1,)) == (1, 3, 5)
    assert squares(3).generated((1,)) == (1, 3)
    assert powers(3).with_products((0,), (2,)) == ()


@pytest.mark.parametrize("order", [2, 4, 9])
def test_powers_take_an_operation_per_order_not_per_product(order: int) -> None:
    plan = contraction(powers(order), tuple(range(order)), tuple(range(order)))
    assert len(plan.products) == order * (order - 1) // 2
    assert [len(plan.table(slot)) <= 2 * order for slot in range(3)] == [True] * 3


def test_the_first_writing_needs_no_zeros() -> None:
    table = product_runs(
        [Product(0, 0, 1), Product(0, 1, 2), Product(1, 0, 2), Product(1, 1, 3)], {1}
    )
    assert [(run.out, run.is_first) for run in table] == [
        (1, False),
        (2, True),
        (2, False),
        (3, True),
    ]


def test_a_contraction_is_the_derivative_of_the_sum_of_all_products() -> None:
    algebra = monomials(closure([(3, 2)]))
    indices = tuple(range(len(algebra.degrees)))
    plan = recurrence(algebra, indices).square
    stacks = [
        torch.randn(len(indices), 2, dtype=torch.float64, requires_grad=True) for _ in range(3)
    ]
    total = sum(stacks[0][a] * stacks[1][b] * stacks[2][c] for a, b, c, _ in plan.products)
    assert isinstance(total, torch.Tensor)
    gradients = torch.autograd.grad(total.sum(), stacks)
    for slot, gradient in enumerate(gradients):
        first, second = (stack for other, stack in enumerate(stacks) if other != slot)
        torch.testing.assert_close(contract(plan, slot, first, second), gradient)
