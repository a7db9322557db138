"""What is said of the numbers in a tensor."""

import json
import math
from typing import Any

import pytest
import torch

from leafgrad import GraphTrace, trace_graph
from leafgrad._graph.summary import brief_text, norms_text, summary_of
from leafgrad.types import TensorSummary


def summary(*values: Any, dtype: torch.dtype | None = None) -> TensorSummary:
    found = summary_of(torch.tensor(values, dtype=dtype))
    assert found is not None
    return found


TEXTS = {
    "one": (torch.tensor(16.0), "16"),
    "one in a row": (torch.tensor([[2.5]]), "2.5"),
    "a handful": (torch.tensor([[1.0, 2.0], [3.0, 4.5]]), "[1, 2, 3, 4.5]"),
    "five digits": (torch.tensor(math.pi), "3.1416"),
    "an integer": (torch.tensor(1234567), "1234567"),
    "a truth value": (torch.tensor([True, False]), "[True, False]"),
    "complex": (torch.tensor(1 + 2j), "1+2j"),
    "not finite": (torch.tensor([math.nan, math.inf, -math.inf]), "[nan, inf, -inf]"),
    "many": (torch.arange(9.0), "mean 4, norm 14.283"),
    "many with a nan": (torch.tensor([math.nan, *range(1, 9)]), "mean 4.5, norm 14.283, 1 nan"),
    "many infinite": (torch.full((7,), math.inf), "7 inf"),
    "none": (torch.ones(0, 3), "[]"),
    "half": (torch.full((7,), 300.0, dtype=torch.float16), "mean 300, norm 793.73"),
    "eight bits": (torch.ones(7).to(torch.float8_e4m3fn), "mean 1, norm 2.6458"),
    "many complex": (torch.full((7,), 3 + 4j), "mean 3+4j, norm 13.229"),
    "many tiny": (torch.full((9,), 1e-45), "mean 1.4013e-45, norm 4.2039e-45"),
    "many small": (torch.full((9,), 1e-300, dtype=torch.float64), "mean 1e-300, norm 3e-300"),
    "many zeros": (torch.zeros(7), "mean 0, norm 0"),
    "few large": (torch.full((4,), 1e308, dtype=torch.float64), "[1e+308, 1e+308, 1e+308, 1e+308]"),
    "large in double": (
        torch.full((7,), 1e200, dtype=torch.float64),
        "mean 1e+200, norm 2.6458e+200",
    ),
}


@pytest.mark.parametrize(("tensor", "text"), TEXTS.values(), ids=TEXTS)
def test_a_tensor_is_told_in_a_few_numbers(tensor: torch.Tensor, text: str) -> None:
    assert str(summary_of(tensor)) == text


def test_mean_and_norm_are_those_of_the_finite_elements() -> None:
    told = summary(3.0, math.nan, 4.0, math.inf)
    assert (told.mean, told.norm, told.nans, told.infinities) == (3.5, 5.0, 1, 1)
    assert not told.is_finite
    assert summary(3.0).is_finite


def test_where_nothing_is_finite_there_is_no_mean() -> None:
    told = summary(math.nan)
    assert (told.mean, told.norm) == (None, None)


def test_more_than_six_numbers_are_not_listed() -> None:
    assert summary(*range(6)).numbers == (0, 1, 2, 3, 4, 5)
    assert summary(*range(7)).numbers is None


def test_summaries_of_equal_numbers_are_equal_and_nan_is_no_exception() -> None:
    assert summary(1.0, math.nan) == summary(1.0, math.nan)
    assert hash(summary(1.0, math.nan)) == hash(summary(1.0, math.nan))
    assert summary(1.0) != summary(2.0)
    assert summary(1.0) != 1.0


def test_what_has_no_numbers_here_has_no_summary() -> None:
    assert summary_of(torch.ones(2, device="meta")) is None


def test_reading_changes_nothing() -> None:
    x = torch.ones(3, requires_grad=True).exp()
    before = x.grad_fn, x._version
    summary_of(x)
    assert (x.grad_fn, x._version) == before


@pytest.mark.parametrize("tensor", [tensor for tensor, _ in TEXTS.values()], ids=TEXTS)
def test_what_json_has_no_number_for_is_read_back(tensor: torch.Tensor) -> None:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        tensor = tensor.double()
    x = tensor.requires_grad_()
    trace = trace_graph(x.clone(), values=True)
    text = trace.to_json()
    json.loads(text, parse_constant=pytest.fail)
    assert GraphTrace.from_json(text) == trace


UNREAD = TensorSummary(
    shape=(2,),
    dtype=torch.float32,
    numbers=None,
    mean=None,
    norm=None,
    nans=0,
    infinities=0,
    unread="its storage holds nothing",
)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (summary(0.123456), "0.12346"),
        (summary(math.nan), "nan"),
        (summary(3.0, 4.0), "norm 5"),
        (summary(3.0, math.nan, -math.inf, math.inf), "norm 3, 1 nan, 2 inf"),
        (summary(*[math.inf] * 9), "9 inf"),
        (summary(), ""),
        (UNREAD, "not read"),
    ],
)
def test_in_a_word_or_two_it_is_a_number_or_a_norm(found: TensorSummary, text: str) -> None:
    assert brief_text(found) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([], ""),
        ([None, UNREAD], ""),
        ([summary(3.0, 4.0), None], "5"),
        ([summary(3.0), summary(1e-9), summary(-0.5)], "1e-09 to 3"),
        ([summary(3.0), summary(math.nan, 1.0)], "1 to NaN"),
        ([summary(math.inf), summary(2.0)], "2 to infinity"),
        ([summary(math.inf), summary(math.nan)], "NaN"),
    ],
)
def test_of_several_the_smallest_and_the_largest_norm_are_told(
    found: list[TensorSummary | None], text: str
) -> None:
    assert norms_text(found) == text
