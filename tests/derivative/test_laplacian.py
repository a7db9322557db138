"""laplacian adds up second derivatives in one pass, and refuses what higher_order_grad refuses."""

import re
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from leafgrad import higher_order_grad, laplacian


def table(rows: int = 5, columns: int = 3) -> Tensor:
    x = torch.linspace(0.2, 1.7, rows * columns, dtype=torch.float64).sin() + 0.5
    return x.reshape(rows, columns).requires_grad_()


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def wave(points: Tensor) -> Tensor:
    return torch.sin(points[:, 0] * 2) * points[:, 1] ** 3 * torch.exp(points[:, 2])


def written_out(points: Tensor) -> Tensor:
    by_y = 6 * torch.sin(points[:, 0] * 2) * points[:, 1] * torch.exp(points[:, 2])
    return wave(points) * (1 - 4) + by_y


METHODS = ["auto", "taylor", "reverse"]


@pytest.mark.parametrize("method", METHODS)
def test_a_laplacian_equals_its_closed_form(method: Any) -> None:
    points = table()
    assert_same(laplacian(wave(points), points, method=method), written_out(points))


@pytest.mark.parametrize("method", METHODS)
def test_it_is_taken_in_some_columns_only(method: Any) -> None:
    points = table()
    outputs = wave(points)
    some = laplacian(outputs, points, dims=[2, 0], method=method)
    parts = higher_order_grad(outputs, points, [(2, 0, 0), (0, 0, 2)])
    assert_same(some, parts[0] + parts[1])


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 4, 3)], ids=str)
@pytest.mark.parametrize("channels", [(), (2,), (2, 3)], ids=str)
def test_the_result_has_the_shape_of_outputs(
    shape: tuple[int, ...], channels: tuple[int, ...]
) -> None:
    numbers = torch.linspace(0.5, 1, torch.Size(shape).numel())
    points = numbers.reshape(shape).clone().requires_grad_()
    factors = torch.arange(1.0, 1.0 + torch.Size(channels).numel()).reshape(channels)
    outputs = points.square().sum(-1).reshape((*shape[:-1], *[1] * len(channels))) * factors
    result = laplacian(outputs, points)
    torch.testing.assert_close(result, 6 * factors.expand(outputs.shape))
    assert result.shape == outputs.shape


def test_a_function_is_evaluated_at_inputs() -> None:
    points = table().detach()
    assert_same(laplacian(wave, points), written_out(points))


def test_parameters_learn_through_it() -> None:
    points, w = table(), torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    result = laplacian((w * points).tanh().prod(1), points)
    parts = higher_order_grad(
        (w * points).tanh().prod(1), points, [(2, 0, 0), (0, 2, 0), (0, 0, 2)], method="reverse"
    )
    gradients = [
        torch.autograd.grad(total.square().sum(), [w, points])
        for total in (result, torch.stack(parts).sum(0))
    ]
    for ours, theirs in zip(*gradients, strict=True):
        assert_same(ours, theirs)


def test_without_create_graph_it_carries_no_graph() -> None:
    points = table()
    for method in METHODS:
        options: dict[str, Any] = {"method": method}
        assert not laplacian(wave(points), points, create_graph=False, **options).requires_grad


def test_what_is_straight_has_a_laplacian_of_zero() -> None:
    points = table()
    result = laplacian(points.sum(1), points)
    assert result.tolist() == [0.0] * 5
    assert not result.requires_grad


def test_no_rows_give_an_empty_laplacian() -> None:
    points = table(rows=0)
    assert laplacian(points.sum(1), points).shape == (0,)


@pytest.mark.parametrize(
    ("outputs", "inputs", "options", "message"),
    [
        (lambda x: x.sum(1), table(), {"method": "fast"}, 'method must be "auto", "taylor"'),
        (lambda x: x**2, torch.tensor(2.0), {}, "inputs must have columns in its last axis"),
        (lambda x: x.sum(1), table(), {"dims": []}, "dims must name at least one column, not []"),
        (lambda x: x.sum(1), table(), {"dims": [3]}, "dims must name columns from 0 to 2, each"),
        (
            lambda x: x.sum(1),
            table(),
            {"dims": [-1]},
            "each once, not [-1]; counted from the front these are [2]",
        ),
        (lambda x: x.sum(1), table(), {"dims": [-4]}, "each once, not [-4]"),
        (
            lambda x: x.sum(1),
            table(),
            {"dims": range(10**9)},
            "each once, not range(0, 1000000000)",
        ),
        (lambda x: x.sum(1), table(), {"dims": count()}, "each once, not count("),
        (lambda x: x.sum(1), table(), {"dims": range(10**6, 0, -1)}, "each once, not range("),
        (lambda x: x.sum(1), table(), {"dims": [1, 1]}, "each once, not [1, 1]"),
        (lambda x: x.sum(0), table(), {}, "outputs must have the shape of inputs"),
    ],
)
def test_what_does_not_fit_is_told(
    outputs: Callable[[Tensor], Tensor], inputs: Tensor, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        laplacian(outputs, inputs, **options)


@pytest.mark.parametrize(
    "dims", [np.array([0, 2]), torch.tensor([0, 2]), (np.int64(0), 2), iter([0, 2]), {0, 2}]
)
def test_columns_are_named_by_whole_numbers_of_any_kind(dims: Any) -> None:
    points = table()
    assert_same(laplacian(wave(points), points, dims=dims), wave(points) * (1 - 4))


@pytest.mark.parametrize("dims", [1.0, "01", [0.0], [True], torch.tensor(1.5), object()])
def test_columns_are_named_by_nothing_else(dims: Any) -> None:
    points = table()
    with pytest.raises(TypeError, match="dims must be a list of ints, not "):
        laplacian(wave(points), points, dims=dims)


@pytest.mark.parametrize("one", [np.int64(1), torch.tensor(1)])
def test_one_column_of_another_kind_is_named_in_a_list(one: Any) -> None:
    points = table()
    with pytest.raises(TypeError, match=r"name one column by \[1\]"):
        laplacian(wave(points), points, dims=one)


def test_one_column_is_named_in_a_list() -> None:
    points = table()
    with pytest.raises(TypeError, match=re.escape("dims must be a list of ints, not 1; name one")):
        laplacian(wave(points), points, dims=1)  # type: ignore[arg-type]


def test_rows_that_mix_are_refused() -> None:
    points = table()
    with pytest.raises(RuntimeError, match="each row of outputs must depend on the same row"):
        laplacian(wave(points) * wave(points).mean(), points)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_works_in_modes_that_record_nothing(mode: Callable[[], Any]) -> None:
    points = table()
    outputs = wave(points)
    with mode():
        results = [laplacian(outputs, points), laplacian(wave, points.detach())]
    assert all(result.requires_grad and not result.is_inference() for result in results)
    assert_same(results[0], results[1])
