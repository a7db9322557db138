"""Derivatives of any order along directions, and operators that are estimated from them."""

from typing import Any

import pytest
import torch
from torch import Tensor

from leafgrad import hessian, higher_order_grad, jacobian, laplacian, stde
from tests.derivative.taylor.oracle import assert_same, gradients, rows

W = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()


def wave(x: Tensor) -> Tensor:
    return (x @ W).sin() * x.exp().sum(1, keepdim=True)


def nested(u: Tensor, x: Tensor, v: Tensor, order: int) -> Tensor:
    channels = []
    for channel in u.unbind(1):
        for _ in range(order):
            (slope,) = torch.autograd.grad(channel.sum(), x, create_graph=True)
            channel = (slope * v).sum(1)  # noqa: PLW2901
        channels.append(channel)
    return torch.stack(channels, 1)


@pytest.mark.parametrize("is_by_row", [False, True])
def test_derivatives_along_directions_match_nested_passes(*, is_by_row: bool) -> None:
    x = rows(5, 3)
    along = torch.randn(2, 5, 3).double() if is_by_row else torch.randn(2, 3).double()
    found = higher_order_grad(wave(x), x, [1, 3, 4], directions=along)
    for derivative, order in zip(found, (1, 3, 4), strict=True):
        expected = torch.stack([nested(wave(x), x, v, order) for v in along])
        assert_same(
            [derivative, *gradients([derivative], [W])], [expected, *gradients([expected], [W])]
        )


def test_jacobian_of_directional_derivative_is_hessian_vector_product() -> None:
    x, v = rows(5, 3), torch.tensor([1.0, -2.0, 0.5]).double()
    u = wave(x)[:, 0]
    assert_same(
        [jacobian(higher_order_grad(u, x, 1, directions=v[None])[0], x)], [hessian(u, x) @ v]
    )


def test_dims_select_columns_of_jacobian_and_hessian() -> None:
    x = rows(5, 3)
    assert_same(
        [hessian(wave(x), x, dims=[2, 0])], [hessian(wave(x), x)[..., [2, 0], :][..., [2, 0]]]
    )
    assert_same([jacobian(wave(x), x, dims=[2, 0])], [jacobian(wave(x), x)[..., [2, 0]]])


ESTIMATES: dict[str, tuple[dict[str, Any], Any]] = {
    "laplacian": ({"order": 2}, laplacian),
    "biharmonic": ({"order": 4}, lambda u, x: laplacian(laplacian(u, x), x)),
    "columns": ({"order": 2, "dims": [0, 2]}, lambda u, x: laplacian(u, x, dims=[0, 2])),
    "diagonal": (
        {"order": 3, "kind": "diagonal"},
        lambda u, x: sum(higher_order_grad(u, x, [(3, 0, 0), (0, 3, 0), (0, 0, 3)])),
    ),
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_stde_estimates_are_unbiased(name: str) -> None:
    options, operator = ESTIMATES[name]
    x, generator = rows(3, 3), torch.Generator().manual_seed(0)
    samples = 1 if name == "diagonal" else 50
    found = torch.stack(
        [stde(wave(x), x, samples=samples, generator=generator, **options) for _ in range(100)]
    )
    error = found.std(0) / 100**0.5
    assert (error > 0).all()
    assert ((found.mean(0) - operator(wave(x), x)).abs() <= 4.5 * error).all()


def test_diagonal_estimate_from_all_columns_is_exact() -> None:
    x = rows(3, 3)
    operator = ESTIMATES["diagonal"][1]
    assert_same([stde(wave(x), x, 3, samples=9, kind="diagonal")], [operator(wave(x), x)])


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"samples": 0}, "samples must be"),
        ({"samples": 1, "kind": "other"}, "kind must be"),
        ({"samples": 1, "order": 3}, "even orders"),
        ({"samples": 1, "order": 0}, "order must be"),
        ({"samples": 300, "order": 4}, "several calls"),
    ],
)
def test_invalid_options_of_estimate_are_refused(options: Any, pattern: str) -> None:
    x = rows(3, 3)
    with pytest.raises(ValueError, match=pattern):
        stde(wave(x), x, **options)


def test_dependent_rows_are_refused_along_directions() -> None:
    x = rows(5, 3)
    with pytest.raises(RuntimeError, match="each row of outputs must depend on the same row"):
        higher_order_grad(wave(x).roll(1, 0), x, 3, directions=x.detach()[:1])
