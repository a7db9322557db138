"""Algebras know which products matter, and runs of products add them up in few operations."""

import pytest
import torch

from leafgrad._derivative.taylor.algebra import basis_of, closure, monomials, powers, squares
from leafgrad._derivative.taylor.kernels.contraction import contract
from leafgrad._derivative.taylor.kernels.plans import contraction, recurrence
from leafgrad._derivative.taylor.kernels.products import (
    Product,
    StackViews,
    add_products,
    product_runs,
)


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


def test_squares_are_summed_up_in_one_operation() -> None:
    first = (0, 1, 2)
    plan = contraction(squares(3), first, first)
    (run,) = plan.table(2)
    assert (run.out, run.left, run.right) == (0, range(3), range(3))
    assert (run.is_sum, run.is_first) == (True, True)
    (added,) = plan.table(2, is_added=True)
    assert (added.is_sum, added.is_first) == (True, False)
    assert not any(run.is_sum for run in plan.table(0))


@pytest.mark.parametrize("count", [3, 30_000], ids=["few", "many"])
@pytest.mark.parametrize("start", [None, 1.0], ids=["new", "added to"])
def test_a_sum_of_squares_is_exact_for_few_and_for_many_numbers(
    count: int, start: float | None
) -> None:
    plan = contraction(squares(3), (0, 1, 2), (0, 1, 2))
    left, right = torch.arange(1.0, 7 * count)[: 6 * count].remainder(8).reshape(2, 3, count)
    below = None if start is None else torch.full((1, count), start)
    total = contract(plan, 2, left, right, below)
    assert torch.equal(total[0], (left * right).sum(0) + (start or 0))
    table, sums = plan.table(2), StackViews(torch.full((1, count), torch.nan))
    add_products(sums, StackViews(left), StackViews(right), table, weight=-2)
    assert torch.equal(sums.whole()[0], (left * right).sum(0) * -2)


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
