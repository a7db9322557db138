"""Sigmoidal activations are right where they are flat, and keep nothing but their output."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from leafgrad import higher_order_grad
from tests.derivative.taylor.packing import packing

METHODS: tuple[Any, ...] = ("taylor", "reverse")


@pytest.mark.parametrize("function", [torch.tanh, torch.sigmoid], ids=["tanh", "sigmoid"])
def test_gradients_of_saturated_activation_are_finite_and_match_reverse_mode(
    function: Callable[[Tensor], Tensor],
) -> None:
    x = torch.tensor([[-800.0], [0.5], [800.0], [18.0]], dtype=torch.float64, requires_grad=True)
    w = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    found: list[tuple[Tensor, ...]] = []
    for method in METHODS:
        third = higher_order_grad(function(w * x), x, 3, method=method)
        once = torch.autograd.grad(third.square().sum(), [w, x], create_graph=True)
        twice = torch.autograd.grad(once[0].sum() + once[1].sum(), [w, x])
        found.append((third, *once, *twice))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-14)
        assert ours.isfinite().all()


def test_activation_saves_its_series_once_and_not_its_argument() -> None:
    x = torch.linspace(-1, 1, 64).unsqueeze(1).requires_grad_()
    weights = [torch.randn(n, 32, requires_grad=True) for n in (1, 32, 32)]
    hidden = x
    for weight in weights:
        hidden = (hidden @ weight).tanh()
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        derivative = higher_order_grad(hidden, x, 4, method="taylor")
    assert derivative.requires_grad
    activation = 64 * 32 * 4
    assert sum(size for size in sizes.values() if size >= activation) == (3 + 2 * 4) * activation


def test_first_layer_is_recomputed_instead_of_saved() -> None:
    x = torch.linspace(-1, 1, 64).unsqueeze(1).requires_grad_()
    first, second = (torch.randn(n, 32, requires_grad=True) for n in (1, 32))
    outputs = ((x @ first).tanh() @ second).tanh()
    with packing() as packed:
        derivative = higher_order_grad(outputs, x, 4, method="taylor")
    assert derivative.requires_grad
    storages = [kept.tensor.untyped_storage() for kept in packed]
    sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
    activation = 64 * 32 * 4
    assert sum(size for size in sizes.values() if size >= activation) == (4 + 1 + 1) * activation


def test_recomputed_layer_with_batched_weights_has_right_derivatives() -> None:
    x = torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(2, 3, 1).requires_grad_()
    weights = torch.randn(2, 4, 2, dtype=torch.float64, requires_grad=True)
    hidden = (x * torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)).tanh()
    found = []
    for method in METHODS:
        fourth = higher_order_grad((hidden @ weights).tanh(), x, 4, method=method)
        found.append((fourth, *torch.autograd.grad(fourth.square().sum(), weights)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)
