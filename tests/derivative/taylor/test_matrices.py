"""Derivatives of singular or empty matrices, and of matrices that mix rows: right or refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from leafgrad import higher_order_grad, laplacian
from tests.derivative.taylor.oracle import assert_same, rows

ORDERS = [(1, 0), (2, 0), (1, 1)]


def diagonal(x: Tensor, size: int) -> Tensor:
    """Return matrices of this size whose determinant is the product of both columns of x."""
    ones = torch.ones(len(x), size - 2, dtype=x.dtype)
    return torch.cat([x, ones], 1).diag_embed()


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_derivatives_of_zero_determinant_are_exact(size: int) -> None:
    x = torch.tensor([[0.0, 0.0], [0.0, 2.0], [1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    outputs = torch.linalg.det(diagonal(x, size))
    first, second, mixed = higher_order_grad(outputs, x, ORDERS, method="taylor")
    assert first.tolist() == [0.0, 2.0, 2.0]
    assert second.tolist() == [0.0, 0.0, 0.0]
    assert mixed.tolist() == [1.0, 1.0, 1.0]
    (gradient,) = torch.autograd.grad(first.sum(), x)
    assert gradient.tolist() == [[0.0, 1.0]] * 3


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_derivatives_of_nearly_zero_determinant_are_exact(size: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(size)
    left, right = torch.randn(2, 1, size, size, dtype=torch.float64, generator=generator).to(dtype)
    x = torch.tensor([[1e-7, 1e-6]], dtype=dtype, requires_grad=True)
    matrix = left @ diagonal(x, size) @ right
    mixed = higher_order_grad(torch.linalg.det(matrix), x, (1, 1), method="taylor")
    expected = torch.linalg.det(left) * torch.linalg.det(right)
    largest = matrix.detach().norm(dim=-1).prod().item()
    torch.testing.assert_close(mixed, expected, rtol=0, atol=10 * torch.finfo(dtype).eps * largest)


def test_zero_determinant_of_large_matrix_uses_reverse_mode() -> None:
    x = torch.tensor([[0.0, 2.0]], dtype=torch.float64, requires_grad=True)
    outputs = torch.linalg.det(diagonal(x, 9))
    assert higher_order_grad(outputs, x, ORDERS)[0].tolist() == [2.0]
    with pytest.raises(RuntimeError, match="LinalgDetBackward0, and a matrix is singular"):
        higher_order_grad(outputs, x, ORDERS, method="taylor")


def test_eigenvalues_of_linear_matrix_have_higher_derivatives() -> None:
    x = torch.tensor([[0.0], [0.5], [2.0]], dtype=torch.float64, requires_grad=True)
    matrices = torch.diag(x.new_tensor([1, -1])) + x[..., None] * (1 - torch.eye(2))
    largest = torch.linalg.eigvalsh(matrices)[:, 1:]  # the root of 1 + x**2
    found = higher_order_grad(largest, x, [2, 3], method="taylor")
    assert_same(found, [(1 + x * x) ** -1.5, -3 * x * (1 + x * x) ** -2.5])


@pytest.mark.parametrize(
    ("method", "message"),
    [("taylor", "LinalgSlogdetBackward0, and a matrix is singular"), ("auto", "is singular")],
)
def test_log_of_zero_determinant_is_refused(method: Any, message: str) -> None:
    x = torch.tensor([[0.0, 2.0], [1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    outputs = torch.linalg.slogdet(diagonal(x, 3)).logabsdet
    with pytest.raises(RuntimeError, match=message):
        laplacian(outputs, x, method=method)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "det": torch.linalg.det,
    "slogdet": lambda a: torch.linalg.slogdet(a).logabsdet,
    "inv": lambda a: torch.linalg.inv(a).sum((-1, -2)),
    "solve": lambda a: torch.linalg.solve(a, a.exp()).sum((-1, -2)),
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mT).sum((-1, -2)),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_empty_matrices_have_zero_derivatives(function: Any) -> None:
    x = rows(3, 2)
    outputs = function(x[:, :0, None] * x[:, None, :0]) + x[:, 0]
    first, second, _ = higher_order_grad(outputs, x, ORDERS)
    assert (first.tolist(), second.tolist()) == ([1.0] * 3, [0.0] * 3)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_first_derivative_matches_reverse_mode(function: Any) -> None:
    x = rows(3, 2)
    outputs = function(x[:, :, None] * x[:, None] + torch.eye(2, dtype=x.dtype))
    found = [higher_order_grad(outputs, x, (1, 0), method=m) for m in ("taylor", "reverse")]
    assert_same(found[:1], found[1:])


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_rows_mixed_by_matrix_function_are_refused(function: Any) -> None:
    x = rows(2, 2)
    outputs = function(x.exp()) * x[:, 0]
    with pytest.raises(RuntimeError, match="row of inputs only, but"):
        higher_order_grad(outputs, x, ORDERS, method="taylor")


def test_solve_refuses_right_side_only_if_it_mixes_rows() -> None:
    x = rows(2, 2)
    matrix = torch.tensor([[2.0, 1.0], [0.5, 3.0]], dtype=x.dtype)
    with pytest.raises(RuntimeError, match="row of inputs only, but"):
        higher_order_grad(torch.linalg.solve(matrix, x.exp()), x, ORDERS, method="taylor")
    apart = torch.linalg.solve(matrix, x.exp(), left=False)
    theirs = higher_order_grad(apart, x, ORDERS, method="reverse")
    assert_same(higher_order_grad(apart, x, ORDERS, method="taylor"), theirs)


def test_taylor_mode_refuses_batch_of_sparse_matrices() -> None:
    x = rows(3, 2)
    sparse = torch.eye(2, dtype=x.dtype).expand(3, 2, 2).to_sparse()
    message = "BmmBackward0, and it multiplies by a batch of sparse matrices"
    with pytest.raises(RuntimeError, match=message):
        higher_order_grad(torch.bmm(sparse, x[:, :, None] * x[:, None]), x, ORDERS, method="taylor")


def test_pseudoinverse_of_singular_matrix_has_right_derivatives() -> None:
    x = rows(3, 2)
    outputs = torch.linalg.pinv(x[:, :, None] * x[:, None])  # x x^T, whose inverse is x x^T / |x|^4
    square = x.square().sum(1)[:, None, None]
    known = x[:, :, None] * x[:, None] / square.square()
    assert_same(higher_order_grad(outputs, x, ORDERS), higher_order_grad(known, x, ORDERS))


def log_psi(places: Tensor, weight: Tensor) -> Tensor:
    """Return the logarithm of a sum of two determinants, a wave function of electrons.

    `places` are their positions in three dimensions.
    """
    features = (places @ weight).tanh()
    mean = features.mean(1, keepdim=True).expand_as(features)
    orbitals = torch.cat([features, mean], -1) @ weight.new_ones(8, 8).triu().cos()
    matrices = orbitals.unflatten(-1, (2, 4)).transpose(1, 2) / 4 + torch.eye(4, dtype=places.dtype)
    sign, logarithm = torch.linalg.slogdet(matrices)
    most = logarithm.amax(-1, keepdim=True).detach()
    total = (sign * (logarithm - most).exp()).sum(-1)
    result: Tensor = total.abs().log() + most.squeeze(-1)
    return result


def test_local_energy_of_wave_function_matches_reverse_mode() -> None:
    places = rows(3, 12).detach().reshape(3, 4, 3).requires_grad_()
    weight = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4).sin().requires_grad_()
    found = []
    for method in ("taylor", "reverse"):
        options: dict[str, Any] = {"with_gradient": True, "method": method}
        total, gradient = laplacian(log_psi(places, weight), places, **options)
        energy = -(total + gradient.square().sum((1, 2))) / 2
        found.append((energy, *torch.autograd.grad(energy.sum(), [weight, places])))
    assert_same(*found)
