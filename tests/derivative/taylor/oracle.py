"""Reference derivatives, and comparisons with them."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def rows(*shape: int) -> Tensor:
    """Return distinct points in [0.5, 1.5] that require grad."""
    number = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return ((number * 1.7).sin() / 2 + 1).reshape(shape).requires_grad_()


def column(rows: int = 5, low: float = 0.2, high: float = 1.7) -> Tensor:
    """Return one column of points that requires grad, with as many `rows`."""
    x = torch.linspace(low, high, rows, dtype=torch.float64)
    return x.unsqueeze(1).requires_grad_()


def table(rows: int = 5, columns: int = 2) -> Tensor:
    """Return rows with some columns, without any symmetry, that require grad."""
    x = torch.linspace(0.2, 1.7, rows * columns, dtype=torch.float64).sin() + 0.5
    return x.reshape(rows, columns).requires_grad_()


def mixed(results: Tensor) -> Tensor:
    """Return one channel that mixes all channels of `results`, so that fewer passes are needed.

    A wrong channel makes the result wrong. One or two channels are returned as they are.
    """
    count = results[0].numel()
    return results if count <= 2 else results.flatten(1) @ weights(count, 1)


def weights(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def gradients(
    results: Sequence[Tensor], sources: Sequence[Tensor], *, create_graph: bool = True
) -> tuple[Tensor, ...]:
    """Return the gradients of the sum of the squares of `results`, zeros if none has a graph."""
    total = sum((result.square().sum() for result in results), torch.zeros(()))
    if not total.requires_grad:
        return tuple(torch.zeros_like(source) for source in sources)
    return torch.autograd.grad(
        total,
        sources,
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
        materialize_grads=True,
    )


def assert_same(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> None:
    """Check that both lists of tensors are equal, within 1e-12 of the largest entry or of 1."""
    for one, other in zip(ours, theirs, strict=True):
        scale = 1 + other.detach().abs().amax()
        torch.testing.assert_close(one / scale, other / scale, rtol=0, atol=1e-12)


def assert_same_thrice(
    ours: Sequence[Tensor],
    theirs: Sequence[Tensor],
    sources: Sequence[Tensor],
    other_sources: Sequence[Tensor] | None = None,
    *,
    times: int = 3,
) -> None:
    """Check that `ours` equals `theirs`, and also its gradients and their gradients."""
    other_sources = sources if other_sources is None else other_sources
    for _ in range(times - 1):
        assert_same(ours, theirs)
        ours, theirs = gradients(ours, sources), gradients(theirs, other_sources)
    assert_same(ours, theirs)


def assert_same_recorded_or_not(
    ours: Sequence[Tensor], theirs: Sequence[Tensor], sources: Sequence[Tensor]
) -> None:
    """Check that `ours` equals `theirs`, and so do gradients, with and without `create_graph`."""
    assert_same(ours, theirs)
    assert_same_at_last(ours, theirs, sources, recorded=True)


def assert_same_at_last(
    ours: Sequence[Tensor],
    theirs: Sequence[Tensor],
    sources: Sequence[Tensor],
    *,
    recorded: bool = False,
) -> None:
    """Check that gradients of `ours` and their gradients are right without `create_graph`.

    If `recorded` is true, also check them with `create_graph=True`.
    """
    for is_last in (False, True):
        expected = gradients(theirs, sources, create_graph=not is_last)
        assert_same(gradients(ours, sources, create_graph=False), expected)
        if recorded or not is_last:
            ours, theirs = gradients(ours, sources), expected
            assert_same(ours, expected)


def differences(
    function: Callable[[Tensor], Tensor], points: Tensor, order: tuple[int, ...]
) -> Tensor:
    """Differentiate by central differences of eighth order, without autograd."""
    step, factors = 0.005, (4 / 5, -1 / 5, 4 / 105, -1 / 280)
    column = next((column for column, count in enumerate(order) if count), None)
    if column is None:
        return function(points)
    lower = tuple(count - (place == column) for place, count in enumerate(order))
    shift = torch.eye(len(order), dtype=points.dtype)[column] * step
    ahead = (differences(function, points + k * shift, lower) for k in range(1, 5))
    back = (differences(function, points - k * shift, lower) for k in range(1, 5))
    return sum(
        (w * (a - b) / step for w, a, b in zip(factors, ahead, back, strict=True)),
        torch.zeros(1, dtype=points.dtype),
    )
