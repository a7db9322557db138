"""`laplacian` sums second derivatives in one pass, and refuses the same cases as others do."""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from leafgrad import higher_order_grad, laplacian
from tests.derivative.refusals import words
from tests.derivative.taylor.oracle import table


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def wave(points: Tensor) -> Tensor:
    return torch.sin(points[:, 0] * 2) * points[:, 1] ** 3 * torch.exp(points[:, 2])


def written_out(points: Tensor) -> Tensor:
    by_y = 6 * torch.sin(points[:, 0] * 2) * points[:, 1] * torch.exp(points[:, 2])
    return wave(points) * (1 - 4) + by_y


METHODS = ["auto", "taylor", "reverse"]


@pytest.mark.parametrize("method", METHODS)
def test_laplacian_matches_closed_form(method: Any) -> None:
    points = table(columns=3)
    assert_same(laplacian(wave(points), points, method=method), written_out(points))


@pytest.mark.parametrize("method", METHODS)
def test_dims_select_columns(method: Any) -> None:
    points = table(columns=3)
    outputs = wave(points)
    some = laplacian(outputs, points, dims=[2, 0], method=method)
    parts = higher_order_grad(outputs, points, [(2, 0, 0), (0, 0, 2)])
    assert_same(some, parts[0] + parts[1])


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 4, 3)], ids=str)
@pytest.mark.parametrize("channels", [(), (2,), (2, 3)], ids=str)
def test_result_has_shape_of_outputs(shape: tuple[int, ...], channels: tuple[int, ...]) -> None:
    numbers = torch.linspace(0.5, 1, torch.Size(shape).numel())
    points = numbers.reshape(shape).clone().requires_grad_()
    factors = torch.arange(1.0, 1.0 + torch.Size(channels).numel()).reshape(channels)
    outputs = points.square().sum(-1).reshape((*shape[:-1], *[1] * len(channels))) * factors
    result = laplacian(outputs, points)
    torch.testing.assert_close(result, 6 * factors.expand(outputs.shape))
    assert result.shape == outputs.shape


# --- with_gradient


def with_channels(points: Tensor) -> Tensor:
    return torch.stack([wave(points), points.prod(1), points[:, 1]], 1).reshape(-1, 1, 3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("function", [wave, with_channels])
@pytest.mark.parametrize("dims", [None, [2], [2, 0]])
def test_with_gradient_returns_gradient_in_all_columns(
    method: Any, function: Any, dims: Any
) -> None:
    points = table(columns=3)
    outputs = function(points)
    total, gradient = laplacian(outputs, points, dims=dims, with_gradient=True, method=method)
    assert_same(total, laplacian(outputs, points, dims=dims))
    assert gradient.shape == (*outputs.shape, 3)
    first = higher_order_grad(outputs, points, [(1, 0, 0), (0, 1, 0), (0, 0, 1)], method="reverse")
    assert_same(gradient, torch.stack(first, -1))


def test_with_gradient_must_be_a_bool() -> None:
    points = table(columns=3)
    with pytest.raises(TypeError, match=words("flag", name="with_gradient", value=1)):
        laplacian(wave(points), points, with_gradient=1)  # type: ignore[call-overload]


# --- Directions across the columns


SHARED = table(2, 3).detach()
BY_ROW = table(10, 3).detach().reshape(2, 5, 3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("directions", [SHARED, BY_ROW])
def test_laplacian_along_directions_matches_hessian(method: Any, directions: Tensor) -> None:
    points, s = table(columns=3), directions.clone().requires_grad_()
    outputs = with_channels(points)
    total, gradient = laplacian(outputs, points, directions=s, with_gradient=True, method=method)

    def of_row(row: Tensor) -> Tensor:
        return with_channels(row[None])[0]

    hessians = torch.func.vmap(torch.func.jacrev(torch.func.jacrev(of_row)))(points)
    by_row = s if s.dim() == 3 else s[:, None].expand(2, 5, 3)
    expected = torch.einsum("nbi,nbj,bacij->bac", by_row, by_row, hessians)
    assert_same(total, expected)
    assert_same(gradient, laplacian(outputs, points, with_gradient=True)[1])
    ours, theirs = (
        torch.autograd.grad(t.square().sum(), [s, points], retain_graph=True)
        for t in (total, expected)
    )
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


def test_directions_are_treated_as_constants() -> None:
    points = table(columns=3)
    assert_same(
        laplacian(wave(points), points, directions=points[None] ** 2),
        laplacian(wave(points), points, directions=points.detach()[None] ** 2),
    )


def test_long_and_short_directions_do_not_overflow() -> None:
    points = torch.tensor([[0.5, 2.0], [1.0, 3.0]], requires_grad=True)
    for length in (1e-18, 1e15):
        total = laplacian(points.prod(1), points, directions=length * torch.ones(1, 2))
        torch.testing.assert_close(total, torch.full((2,), 2 * length**2))


@pytest.mark.parametrize(
    ("directions", "error", "pattern"),
    [
        (SHARED.float(), TypeError, words("laplacian.directions-type", dtype="torch.float64")),
        ([[1.0, 0.0, 0.0]], TypeError, words("tensor.type", name="directions")),
        (SHARED.T, ValueError, words("laplacian.directions-shape", row="3", inputs="5, 3")),
        (SHARED[0], ValueError, words("laplacian.directions-shape", shape=(3,))),
        (SHARED[:0], ValueError, words("laplacian.directions-shape", shape=(0, 3))),
        (BY_ROW[:, :4], ValueError, words("laplacian.directions-shape", shape=(2, 4, 3))),
    ],
)
def test_directions_of_wrong_shape_or_type_are_refused(
    directions: Any, error: Any, pattern: str
) -> None:
    points = table(columns=3)
    with pytest.raises(error, match=pattern):
        laplacian(wave(points), points, directions=directions)


def test_dims_and_directions_together_are_refused() -> None:
    points = table(columns=3)
    with pytest.raises(ValueError, match=words("laplacian.both")):
        laplacian(wave(points), points, dims=[0], directions=SHARED)


def test_directions_are_refused_for_scalar_inputs() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    with pytest.raises(ValueError, match=words("no-axes")):
        laplacian(x**2, x, directions=torch.ones(1))


# --- Columns on several axes


def of_particles(places: Tensor) -> Tensor:
    distance = (places[:, 0] - places[:, 1]).square().sum(-1).sqrt()
    return torch.exp(-distance) * places[:, :, 0].prod(1) + places.sum((1, 2)).sin()


@pytest.mark.parametrize("method", METHODS)
def test_axes_missing_in_outputs_are_columns(method: Any) -> None:
    places = table(4, 6).detach().reshape(4, 2, 3).requires_grad_()
    flat = places.detach().flatten(1).requires_grad_()
    options: dict[str, Any] = {"method": method, "with_gradient": True}
    total, gradient = laplacian(of_particles(places), places, **options)
    expected = laplacian(of_particles(flat.unflatten(1, (2, 3))), flat, with_gradient=True)
    assert_same(total, expected[0])
    assert_same(gradient, expected[1].unflatten(1, (2, 3)))
    along = laplacian(of_particles(places), places, directions=SHARED[None], method=method)
    assert_same(
        along, laplacian(of_particles(places), places, directions=SHARED.expand(1, 4, 2, 3))
    )
    some = laplacian(of_particles(places), places, dims=[4], method=method)
    assert_same(some, higher_order_grad(of_particles(places), places, (0, 0, 0, 0, 2, 0)))


def test_order_has_one_count_per_column_of_flattened_axes() -> None:
    places = table(4, 6).detach().reshape(4, 2, 3).requires_grad_()
    pattern = words("order.flattened", batch=1)
    orders: list[Any] = [(2, 0, 0), 2]
    for order in orders:
        with pytest.raises(ValueError, match=pattern):
            higher_order_grad(of_particles(places), places, order)


def test_dependent_rows_are_refused_with_columns_on_several_axes() -> None:
    places = table(4, 6).detach().reshape(4, 2, 3).requires_grad_()
    with pytest.raises(RuntimeError, match=words("rows-must.row")):
        laplacian(of_particles(places) * places.sum(), places)


@pytest.mark.parametrize(
    ("outputs", "inputs", "options", "pattern"),
    [
        (lambda x: x.sum(1), table(columns=3), {"method": "fast"}, words("method", value="fast")),
        (lambda x: x**2, torch.tensor(2.0), {}, words("no-axes")),
        (
            lambda x: x.sum(1),
            table(columns=3),
            {"dims": []},
            words("laplacian.dims-empty", value="[]"),
        ),
        (
            lambda x: x.sum(1),
            table(columns=3),
            {"dims": [3]},
            words("laplacian.dims-range", last=2, value="[3]"),
        ),
        (
            lambda x: x.sum(1),
            table(columns=3),
            {"dims": [-1]},
            words("laplacian.dims-from-end", value="[-1]", counted=[2]),
        ),
        (
            lambda x: x.sum(1),
            table(columns=3),
            {"dims": [-4]},
            words("laplacian.dims-range", value="[-4]") + "$",
        ),
        (lambda x: x.sum(1), table(columns=3), {"dims": count()}, words("laplacian.dims-range")),
        (
            lambda x: x.sum(1),
            table(columns=3),
            {"dims": [1, 1]},
            words("laplacian.dims-range", value="[1, 1]"),
        ),
        (lambda x: x.sum(0), table(columns=3), {}, words("shapes.mismatch")),
    ],
)
def test_shapes_that_do_not_match_are_refused(
    outputs: Callable[[Tensor], Tensor], inputs: Tensor, options: dict[str, Any], pattern: str
) -> None:
    with pytest.raises(ValueError, match=pattern):
        laplacian(outputs, inputs, **options)


@pytest.mark.parametrize(
    "dims", [np.array([0, 2]), torch.tensor([0, 2]), (np.int64(0), 2), iter([0, 2]), {0, 2}]
)
def test_dims_can_be_any_integer_type(dims: Any) -> None:
    points = table(columns=3)
    assert_same(laplacian(wave(points), points, dims=dims), wave(points) * (1 - 4))


@pytest.mark.parametrize("dims", [1.0, "01", [0.0], [True], torch.tensor(1.5), object()])
def test_dims_of_other_types_are_refused(dims: Any) -> None:
    points = table(columns=3)
    with pytest.raises(TypeError, match=words("laplacian.dims-type")):
        laplacian(wave(points), points, dims=dims)


@pytest.mark.parametrize("one", [1, np.int64(1), torch.tensor(1)], ids=repr)
def test_dims_must_be_a_list(one: Any) -> None:
    points = table(columns=3)
    with pytest.raises(TypeError, match=words("laplacian.dims-int", count=1)):
        laplacian(wave(points), points, dims=one)
