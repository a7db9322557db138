"""A batch of gradients sent back at once gives the same results as separate passes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from leafgrad import higher_order_grad, laplacian
from tests.derivative.taylor.oracle import rows, weights
from tests.derivative.taylor.test_rules import CASES, Function, parameter

pytestmark = pytest.mark.sweep

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "sin": torch.sin,
    "softplus": functional.softplus,
    "root": lambda h: (h * h + 1).sqrt(),
    "softmax": lambda h: h.softmax(-1),
}
DERIVATIVES: dict[str, Callable[..., Tensor]] = {
    "second": lambda u, x, method: higher_order_grad(u, x, (2, 0), method=method),
    "mixed": lambda u, x, method: higher_order_grad(u, x, (2, 1), method=method),
    "laplacian": lambda u, x, method: laplacian(u, x, method=method),
}
first, last = nn.Linear(2, 4).double(), nn.Linear(4, 1).double()


def network(activation: Callable[[Tensor], Tensor], weight: Tensor, x: Tensor) -> Tensor:
    """Return the result of a network that uses an activation in its first layer and in a later one.

    `weight` is the weight of the first layer.
    """
    h = activation(functional.linear(x, weight, first.bias))
    result: Tensor = last(activation(h @ h.new_ones(4, 4).tril() / 2))
    return result


def one_by_one(results: Tensor, source: Tensor) -> Tensor:
    """Return the gradient of each result, from a separate pass for each."""
    passes = [torch.autograd.grad(result, source, retain_graph=True) for result in results]
    return torch.stack([gradient for (gradient,) in passes])


def at_once(results: Tensor, source: Tensor) -> Tensor:
    """Return the gradient of each result, from one pass with `is_grads_batched=True`."""
    units = torch.eye(len(results), dtype=results.dtype)
    (found,) = torch.autograd.grad(
        results, source, units, is_grads_batched=True, retain_graph=True, create_graph=True
    )
    return found


def in_vmap(results: Tensor, source: Tensor) -> Tensor:
    """Return the gradient of each result, from a pass within `torch.func.vmap`."""

    def gradient(unit: Tensor) -> Tensor:
        return torch.autograd.grad(results, source, unit, retain_graph=True)[0]

    return torch.func.vmap(gradient)(torch.eye(len(results), dtype=results.dtype))


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("derivative", DERIVATIVES.values(), ids=DERIVATIVES)
@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_per_sample_gradients_match_single_samples(
    activation: Callable[[Tensor], Tensor], derivative: Callable[..., Tensor]
) -> None:
    x, weight = rows(5, 2), first.weight
    results = derivative(network(activation, weight, x), x, "taylor").flatten()
    ours, theirs = at_once(results, weight), one_by_one(results, weight)
    assert_close(ours, theirs)
    assert_close(in_vmap(results, weight), theirs)
    nested = derivative(network(activation, weight, x), x, "reverse").flatten()
    assert_close(ours, one_by_one(nested, weight))
    twice, nested_twice = (
        torch.autograd.grad(at_once(r, weight).square().sum(), weight)[0] for r in (results, nested)
    )
    assert_close(twice, nested_twice)


@pytest.mark.parametrize("function", CASES, ids=range(len(CASES)))
def test_every_rule_supports_batched_gradients(function: Function) -> None:
    x, w = rows(3, 2), parameter()
    found = higher_order_grad(function(x, w), x, [(0, 2), (2, 1)], method="taylor")
    results = torch.cat([result.flatten() for result in found])
    results = results * results.detach() + 0 * w  # This gives constant results a gradient too.
    # Five gradients, a size that no axis has, so that mixed-up axes show.
    results = weights(5, len(results)) @ results
    assert_close(at_once(results, w), one_by_one(results, w))
