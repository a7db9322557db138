"""Summaries of the numbers in a tensor."""

import math

import pytest
import torch

from leafgrad import trace_graph
from leafgrad.types import TensorSummary


def summary_of(tensor: torch.Tensor) -> TensorSummary:
    (found,) = trace_graph(tensor.detach().requires_grad_(), values=True).leaves[0].values
    assert found is not None
    return found


def summary(*values: float) -> TensorSummary:
    return summary_of(torch.tensor(values))


TEXTS = {
    "one": (torch.tensor(16.0), "16"),
    "a handful": (torch.tensor([[1.0, 2.0], [3.0, 4.5]]), "[1, 2, 3, 4.5]"),
    "five digits": (torch.tensor(math.pi), "3.1416"),
    "complex": (torch.tensor(1 + 2j), "1+2j"),
    "not finite": (torch.tensor([math.nan, math.inf, -math.inf]), "[nan, inf, -inf]"),
    "many": (torch.arange(9.0), "mean 4, norm 14.283"),
    "many with a nan": (torch.tensor([math.nan, *range(1, 9)]), "mean 4.5, norm 14.283, 1 nan"),
    "many infinite": (torch.full((7,), math.inf), "7 inf"),
    "none": (torch.ones(0, 3), "[]"),
    "eight bits": (torch.ones(7).to(torch.float8_e4m3fn), "mean 1, norm 2.6458"),
    "many complex": (torch.full((7,), 3 + 4j), "mean 3+4j, norm 13.229"),
    "many tiny": (torch.full((9,), 1e-45), "mean 1.4013e-45, norm 4.2039e-45"),
    "many small": (torch.full((9,), 1e-300, dtype=torch.float64), "mean 1e-300, norm 3e-300"),
    "few large": (torch.full((4,), 1e308, dtype=torch.float64), "[1e+308, 1e+308, 1e+308, 1e+308]"),
}


@pytest.mark.parametrize(("tensor", "text"), TEXTS.values(), ids=TEXTS)
def test_summary_prints_few_numbers_or_their_mean_and_norm(tensor: torch.Tensor, text: str) -> None:
    assert str(summary_of(tensor)) == text


def test_mean_and_norm_are_those_of_finite_elements() -> None:
    found = summary(3.0, math.nan, 4.0, math.inf)
    assert (found.mean, found.norm, found.nans, found.infinities) == (3.5, 5.0, 1, 1)
    assert not found.is_finite
    assert summary(3.0).is_finite
    assert (summary(math.nan).mean, summary(math.nan).norm) == (None, None)


def test_more_than_six_numbers_are_not_listed() -> None:
    assert summary(0, 1.0, 2, 3, 4, 5).numbers == (0, 1, 2, 3, 4, 5)
    assert summary(0, 1.0, 2, 3, 4, 5, 6).numbers is None


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.123456], " 0.12346"),
        ([math.nan], " nan"),
        ([3.0, 4.0], " norm 5"),
        ([3.0, math.nan, -math.inf, math.inf], " norm 3, 1 nan, 2 inf"),
        ([math.inf] * 9, " 9 inf"),
    ],
)
def test_narrow_table_shows_one_number_or_the_norm(values: list[float], text: str) -> None:
    x = torch.tensor(values, requires_grad=True)
    trace = trace_graph(x, names={"long" * 20: x}, values=True)
    assert str(trace).endswith(text)


def test_equal_summaries_with_nan_are_equal() -> None:
    assert summary(1.0, math.nan) == summary(1.0, math.nan)
    assert hash(summary(1.0, math.nan)) == hash(summary(1.0, math.nan))
    assert summary(1.0) != summary(2.0)
    assert summary(1.0) != 1.0


def test_reading_values_changes_nothing() -> None:
    x = torch.ones(3, requires_grad=True).exp()
    before = x.grad_fn, x._version
    trace_graph(x, values=True)
    assert (x.grad_fn, x._version) == before
