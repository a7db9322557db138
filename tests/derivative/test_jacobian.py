"""`jacobian` and `hessian` return all first and second derivatives, or raise an error."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import jacrev, vmap

from leafgrad import hessian, jacobian, laplacian
from tests.derivative.refusals import words
from tests.derivative.taylor.oracle import assert_same, gradients, rows

METHODS = ["auto", "taylor", "reverse"]


def scalar(points: Tensor) -> Tensor:
    return (points[:, 0] * 2).sin() * points[:, 1] ** 3 * points[:, 2].exp()


def field(points: Tensor) -> Tensor:
    return torch.stack([scalar(points), points.prod(1), points[:, 1].sin()], 1)


def table_of_channels(points: Tensor) -> Tensor:
    return field(points)[:, :2, None] * points[:, None, 1:]


FUNCTIONS = [scalar, field, table_of_channels]


def by_row(function: Callable[[Tensor], Tensor], points: Tensor, times: int) -> Tensor:
    """Differentiate row by row, with PyTorch's own transforms."""

    def of_row(row: Tensor) -> Tensor:
        return function(row[None])[0]

    for _ in range(times):
        of_row = jacrev(of_row)
    result: Tensor = vmap(of_row)(points)
    return result


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("ours", "times"), [(jacobian, 1), (hessian, 2)])
def test_jacobian_and_hessian_match_pytorch_row_by_row(
    ours: Any, times: int, function: Any, method: Any
) -> None:
    points = rows(4, 3)
    found = ours(function(points), points, method=method)
    expected = by_row(function, points, times)
    assert found.shape == expected.shape
    assert_same(
        [found, *gradients([found], [points])], [expected, *gradients([expected], [points])]
    )


@pytest.mark.parametrize("function", [jacobian, hessian])
def test_columns_can_span_several_axes(function: Any) -> None:
    places = rows(4, 3, 2)
    flat = places.detach().flatten(1).requires_grad_()
    found = function(places.prod(-1).sum(-1).sin(), places)
    expected = function(flat.unflatten(1, (3, 2)).prod(-1).sum(-1).sin(), flat)
    assert found.shape == (4, *[3, 2] * (1 if function is jacobian else 2))
    assert_same([found.reshape(expected.shape)], [expected])


def test_hessian_is_symmetric_with_laplacian_as_its_trace() -> None:
    points = rows(4, 3)
    found = hessian(scalar, points)
    assert torch.equal(found, found.mT)
    assert_same([found.diagonal(dim1=-2, dim2=-1).sum(-1)], [laplacian(scalar, points)])


def test_linear_function_has_constant_jacobian() -> None:
    points = rows(4, 3)
    straight = jacobian(points.sum(1), points)
    assert straight.tolist() == [[1.0] * 3] * 4
    assert not straight.requires_grad
    assert jacobian(straight, points).tolist() == [[[0.0] * 3] * 3] * 4


def test_jacobian_in_twelve_hundred_columns_is_right() -> None:
    points = rows(2, 1200)
    outputs = points.reshape(2, 400, 3).prod(-1)[:, :2]
    found = jacobian(outputs, points, method="taylor")
    assert_same([found], [jacobian(outputs, points, method="reverse")])


@pytest.mark.parametrize("function", [jacobian, hessian])
@pytest.mark.parametrize(
    ("inputs", "pattern"),
    [(torch.tensor(2.0), words("no-axes")), (torch.ones(3, 0), words("no-columns"))],
)
def test_inputs_without_columns_are_refused(function: Any, inputs: Tensor, pattern: str) -> None:
    x = inputs.clone().requires_grad_()
    with pytest.raises(ValueError, match=pattern):
        function(x.sum(-1) if x.dim() else x * 1, x)


def test_hessian_in_too_many_columns_is_refused() -> None:
    points = rows(2, 44)
    with pytest.raises(ValueError, match=words("hessian-columns", columns=44)):
        hessian(points.sum(1), points)
    most = points[:, :43].detach().requires_grad_()
    assert hessian(most.sum(1), most).shape == (2, 43, 43)
