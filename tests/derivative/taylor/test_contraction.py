"""Sums of products of stacks, differentiated."""

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from leafgrad import higher_order_grad
from leafgrad._derivative.taylor.algebra import closure, monomials
from leafgrad._derivative.taylor.kernels.contraction import contract
from leafgrad._derivative.taylor.kernels.plans import recurrence

ALGEBRA = monomials(closure([(3, 2)]))
INDICES = tuple(range(len(ALGEBRA.degrees)))
PLAN = recurrence(ALGEBRA, INDICES).square


def test_a_batch_of_gradients_leads_back_as_each_of_them_does() -> None:
    pair = [torch.randn(len(INDICES), 2, dtype=torch.float64, requires_grad=True) for _ in "ab"]
    result = contract(PLAN, 2, *pair)
    gradients = torch.randn(4, *result.shape, dtype=torch.float64)

    def back(gradient: torch.Tensor, *, batched: bool) -> tuple[torch.Tensor, ...]:
        options: dict[str, Any] = {"retain_graph": True, "is_grads_batched": batched}
        return torch.autograd.grad(result, pair, gradient, **options)

    each = [back(gradient, batched=False) for gradient in gradients]
    expected = tuple(map(torch.stack, zip(*each, strict=True)))
    torch.testing.assert_close(back(gradients, batched=True), expected)


def test_under_a_mode_all_is_computed_as_it_is_without() -> None:
    first, second, start = (torch.randn(len(INDICES), 2, dtype=torch.float64) for _ in "abc")

    def computed() -> list[torch.Tensor]:
        x = torch.linspace(0.3, 0.9, 6, dtype=torch.float64).view(3, 2).requires_grad_()
        outputs = (x.prod(1, keepdim=True) + x.exp() / (2 + x.sin()) + (x + 9).sqrt()).sum(1)
        return [
            contract(PLAN, 2, first, second),
            contract(PLAN, 2, first, second, start),
            *higher_order_grad(outputs, x, [(3, 2), (0, 4)], method="taylor"),
        ]

    expected = computed()
    with FlopCounterMode(display=False):
        torch.testing.assert_close(computed(), expected)
