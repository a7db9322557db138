"""`find_nan`: where NaN and infinity come up, why, and that the cure cures."""

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from leafgrad import find_nan, record
from leafgrad.types import NanReport

NAN, INF = math.nan, math.inf
Function = Callable[[Tensor], Tensor]


class Case(NamedTuple):
    """A function that goes wrong at some numbers, what is found, and the function cured."""

    broken: Function
    at: tuple[float, ...]
    found: tuple[str, str, str]
    says: str
    cured: Function


def hunt(function: Function, at: tuple[float, ...], dtype: torch.dtype | None = None) -> NanReport:
    x = torch.tensor(at, requires_grad=True, dtype=dtype)
    with record(values=True) as recording:
        y = function(x).sum()
    return find_nan(y, names={"x": x}, recording=recording)


CASES = {
    "acos outside": Case(
        lambda x: x.acos(),
        (2.0, 0.5),
        ("value", "NaN", "acos"),
        "x.clamp(-1, 1)",
        lambda x: x.clamp(-1, 1).acos(),
    ),
    "acos at 1": Case(
        lambda x: x.acos(),
        (1.0, 0.5),
        ("gradient", "infinity", "acos"),
        "x.clamp(-1 + 1e-6, 1 - 1e-6).acos()",
        lambda x: x.clamp(-1 + 1e-6, 1 - 1e-6).acos(),
    ),
    "asin at -1": Case(
        lambda x: x.asin(),
        (-1.0, 0.5),
        ("gradient", "infinity", "asin"),
        "1 - 1e-6",
        lambda x: x.clamp(-1 + 1e-6, 1 - 1e-6).asin(),
    ),
    "product in float16": Case(
        lambda x: (x.half().expand(2, 2) @ x.half()).float(),
        (300.0, 300.0),
        ("value", "infinity", "mv"),
        "",
        lambda x: x.expand(2, 2) @ x,
    ),
    "matrix product in float16": Case(
        lambda x: (x.half().expand(2, 2) @ x.half().expand(2, 2)).float(),
        (300.0, 300.0),
        ("value", "infinity", "mm"),
        "65,504",
        lambda x: x.bfloat16().expand(2, 2) @ x.bfloat16().expand(2, 2),
    ),
    "division by 0": Case(
        lambda x: 1.0 / (x - 1.0),
        (1.0, 2.0),
        ("value", "infinity", "reciprocal"),
        "x.clamp(min=1e-12)",
        lambda x: 1.0 / (x - 1.0).clamp(min=1e-12),
    ),
    "0 / 0": Case(
        lambda x: x / x,
        (0.0, 2.0),
        ("value", "NaN", "div"),
        "y.clamp(min=1e-12)",
        lambda x: x / x.clamp(min=1e-12),
    ),
    "a division that where drops": Case(
        lambda x: torch.where(x == 0, 0.0, x / x),
        (0.0, 2.0),
        ("gradient", "NaN", "div"),
        "x / torch.where(y == 0, 1.0, y)",
        lambda x: torch.where(x == 0, 0.0, x / torch.where(x == 0, 1.0, x)),
    ),
    "exp overflows": Case(
        lambda x: x.exp() / x.exp().sum(),
        (100.0, 1.0),
        ("value", "infinity", "exp"),
        "softmax()",
        lambda x: x.softmax(0),
    ),
    "log of 0": Case(
        lambda x: x.log(),
        (0.0, 1.0),
        ("value", "infinity", "log"),
        "x.clamp(min=1e-12).log()",
        lambda x: x.clamp(min=1e-12).log(),
    ),
    "log of a softmax": Case(
        lambda x: x.softmax(0).log(),
        (200.0, 1.0),
        ("value", "infinity", "log"),
        "log_softmax()",
        lambda x: x.log_softmax(0),
    ),
    "mean of nothing": Case(
        lambda x: x[x > 5].mean(),
        (1.0, 2.0),
        ("value", "NaN", "mean"),
        "left nothing",
        lambda x: x[x > 1].mean(),
    ),
    "0 times infinity": Case(
        lambda x: x * (x + 1e38) * 1e38,
        (0.0, 1e3),
        ("value", "infinity", "mul"),
        "the factor that is infinite or very large",
        lambda x: x * (x + 1e3) * 1e3,
    ),
    "a root of less than 0": Case(
        lambda x: x.sqrt(),
        (-1.0, 1.0),
        ("value", "NaN", "sqrt"),
        "x.clamp(min=1e-12).sqrt()",
        lambda x: x.clamp(min=1e-12).sqrt(),
    ),
    "a root at 0": Case(
        lambda x: x.sqrt(),
        (0.0, 1.0),
        ("gradient", "infinity", "sqrt"),
        "(x + 1e-12).sqrt()",
        lambda x: (x + 1e-12).sqrt(),
    ),
    "a power at 0": Case(
        lambda x: x**0.3,
        (0.0, 1.0),
        ("gradient", "infinity", "pow"),
        "(x + 1e-12) ** p",
        lambda x: (x + 1e-12) ** 0.3,
    ),
    "a broken power below 0": Case(
        lambda x: x**0.3,
        (-1.0, 1.0),
        ("value", "NaN", "pow"),
        "x.clamp(min=1e-12) ** p",
        lambda x: x.clamp(min=1e-12) ** 0.3,
    ),
    "a mask that hides all": Case(
        lambda x: x.masked_fill(torch.tensor([True, True]), -INF).softmax(0),
        (1.0, 2.0),
        ("value", "infinity", "maskedfill"),
        "torch.finfo(x.dtype).min",
        lambda x: x.masked_fill(torch.tensor([True, True]), torch.finfo(x.dtype).min).softmax(0),
    ),
    "the deviation of one number": Case(
        lambda x: x[:1].std(),
        (1.0, 2.0),
        ("value", "NaN", "std"),
        "correction=0",
        lambda x: x.std(),
    ),
    "infinity minus infinity": Case(
        lambda x: x.exp() - (x + 1).exp(),
        (100.0, 1.0),
        ("value", "infinity", "exp"),
        "subtract the maximum",
        lambda x: (x - x.max().detach()).exp() - (x - x.max().detach() + 1).exp(),
    ),
    "a logarithm that where() drops": Case(
        lambda x: torch.where(x > 0, x.log(), 0.0),
        (0.0, 1.0),
        ("gradient", "NaN", "log"),
        "torch.where(x > 0, x, 1.0).log()",
        lambda x: torch.where(x > 0, torch.where(x > 0, x, 1.0).log(), 0.0),
    ),
    "log1p at -1": Case(
        lambda x: x.log1p(),
        (-1.0, 1.0),
        ("value", "infinity", "log1p"),
        "x.clamp(min=-1 + 1e-6)",
        lambda x: x.clamp(min=-1 + 1e-6).log1p(),
    ),
    "the slope of log1p": Case(
        lambda x: x.log1p().clamp(min=-5),
        (-1.0, 1.0),
        ("gradient", "NaN", "log1p"),
        "slope of log1p() at -1",
        lambda x: x.clamp(min=-1 + 1e-6).log1p(),
    ),
    "acosh below 1": Case(
        lambda x: x.acosh(),
        (0.5, 2.0),
        ("value", "NaN", "acosh"),
        "x.clamp(min=1 + 1e-6)",
        lambda x: x.clamp(min=1 + 1e-6).acosh(),
    ),
    "acosh at 1": Case(
        lambda x: x.acosh(),
        (1.0, 2.0),
        ("gradient", "infinity", "acosh"),
        "x.clamp(min=1 + 1e-6)",
        lambda x: x.clamp(min=1 + 1e-6).acosh(),
    ),
    "atanh at 1": Case(
        lambda x: x.atanh(),
        (1.0, 0.5),
        ("value", "infinity", "atanh"),
        "x.clamp(-1 + 1e-6, 1 - 1e-6)",
        lambda x: x.clamp(-1 + 1e-6, 1 - 1e-6).atanh(),
    ),
    "the slope of atanh": Case(
        lambda x: x.atanh().clamp(max=5.0),
        (1.0, 0.5),
        ("gradient", "NaN", "atanh"),
        "x.clamp(-1 + 1e-6, 1 - 1e-6).atanh()",
        lambda x: x.clamp(-1 + 1e-6, 1 - 1e-6).atanh(),
    ),
    "logit at 1": Case(
        lambda x: x.logit(),
        (1.0, 0.5),
        ("value", "infinity", "logit"),
        "x.logit(eps=1e-6)",
        lambda x: x.logit(eps=1e-6),
    ),
    "rsqrt at 0": Case(
        lambda x: x.rsqrt().clamp(max=1e3),
        (0.0, 1.0),
        ("gradient", "NaN", "rsqrt"),
        "(x + 1e-12).rsqrt()",
        lambda x: (x + 1e-12).rsqrt().clamp(max=1e3),
    ),
    "hypot at 0": Case(
        lambda x: torch.hypot(x, x),
        (0.0, 1.0),
        ("gradient", "NaN", "hypot"),
        "(x * x + y * y + 1e-12).sqrt()",
        lambda x: (x * x + x * x + 1e-12).sqrt(),
    ),
    "entropy of a probability of 0": Case(
        lambda x: x.log() * x,
        (0.0, 1.0),
        ("value", "infinity", "log"),
        "x.clamp(min=1e-12)",
        lambda x: x.clamp(min=1e-12).log() * x,
    ),
    "xlogy at 0": Case(
        lambda x: torch.xlogy(x, x),
        (0.0, 1.0),
        ("gradient", "NaN", "xlogy"),
        "p.clamp(min=1e-12)",
        lambda x: torch.xlogy(x.clamp(min=1e-12), x.clamp(min=1e-12)),
    ),
    "logsumexp of nothing": Case(
        lambda x: (x - torch.tensor([INF, INF])).logsumexp(0).clamp(min=-1.0),
        (0.0, 1.0),
        ("gradient", "NaN", "logsumexp"),
        "torch.finfo(x.dtype).min",
        lambda x: (x + torch.finfo(x.dtype).min).logsumexp(0).clamp(min=-1.0),
    ),
    "equal singular values": Case(
        lambda x: torch.linalg.svd(torch.diag(x))[0],
        (1.0, 1.0),
        ("gradient", "NaN", "linalgsvd"),
        "torch.linalg.svdvals()",
        lambda x: torch.linalg.svdvals(torch.diag(x)),
    ),
    "equal eigenvalues": Case(
        lambda x: torch.linalg.eigh(torch.diag(x))[1],
        (1.0, 1.0),
        ("gradient", "NaN", "linalgeigh"),
        "torch.linalg.eigvalsh()",
        lambda x: torch.linalg.eigvalsh(torch.diag(x)),
    ),
    "labels of which all are ignored": Case(
        lambda x: nn.functional.cross_entropy(x[None], torch.tensor([-100])),
        (0.0, 1.0),
        ("value", "NaN", "nllloss"),
        "reduction='sum'",
        lambda x: nn.functional.cross_entropy(x[None], torch.tensor([-100]), reduction="sum"),
    ),
    "labels too long for their input": Case(
        lambda x: nn.functional.ctc_loss(
            x.log_softmax(0)[None, None],
            torch.tensor([[1, 1]]),
            torch.tensor([1]),
            torch.tensor([2]),
        ),
        (0.0, 1.0),
        ("value", "infinity", "ctcloss"),
        "zero_infinity=True",
        lambda x: nn.functional.ctc_loss(
            x.log_softmax(0)[None, None],
            torch.tensor([[1, 1]]),
            torch.tensor([1]),
            torch.tensor([2]),
            zero_infinity=True,
        ),
    ),
    "a power too large for float16": Case(
        lambda x: (x.half() ** 2).float(),
        (600.0, 1.0),
        ("value", "infinity", "pow"),
        "65,504 in float16",
        lambda x: x.bfloat16() ** 2,
    ),
    "a number too large for float16": Case(
        lambda x: x.half().float(),
        (70000.0, 1.0),
        ("value", "infinity", "tocopy"),
        "bfloat16 in place of float16",
        lambda x: x.bfloat16().float(),
    ),
    "a sum too large for float16": Case(
        lambda x: (x.half() * 1).sum().float(),
        (60000.0, 60000.0),
        ("value", "infinity", "sum"),
        "x.sum(dtype=torch.float32)",
        lambda x: (x.half() * 1).sum(dtype=torch.float32),
    ),
    "a product of many": Case(
        lambda x: x.prod(),
        (1e30, 1e30),
        ("value", "infinity", "prod"),
        "smaller before",
        lambda x: (x / 1e30).prod(),
    ),
    "a singular matrix": Case(
        lambda x: torch.linalg.slogdet(torch.outer(x, x))[1],
        (1.0, 1.0),
        ("value", "infinity", "linalgslogdet"),
        "a + 1e-6 * torch.eye(n)",
        lambda x: torch.linalg.slogdet(torch.outer(x, x) + 1e-3 * torch.eye(2))[1],
    ),
    "what no words are kept for": Case(
        torch.special.i0,
        (1000.0, 1.0),
        ("value", "infinity", "i0"),
        "too large",
        torch.special.i0e,
    ),
    "a slope that no words are kept for": Case(
        lambda x: x.erfinv().clamp(max=3.0),
        (1.0, 0.5),
        ("gradient", "NaN", "erfinv"),
        "its slope may not be finite",
        lambda x: x.clamp(max=0.9).erfinv(),
    ),
}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_names_the_operation_and_a_cure_that_cures(case: Case) -> None:
    report = hunt(case.broken, case.at)
    first = report.origins[0]
    assert (first.way, first.kind, first.operation) == case.found
    assert case.says in f"{first.because} {first.cure}"
    assert first.node is not None
    assert first.node.source is not None
    assert f"{first.kind} comes up in the {first.way} of {first.operation}" in str(report)
    assert not hunt(case.cured, case.at)


def test_what_came_in_with_the_data_is_told_as_such() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    with record(values=True) as recording:
        loss = model(torch.tensor([[1.0, NAN]])).square().mean()
    report = find_nan(loss, names=model, recording=recording)
    (origin,) = report.origins
    assert str(report).startswith("find_nan: NaN was in argument 0 of linear before\n")
    assert origin.because == "It came in with argument 0 of linear, which no gradient leads to."
    assert "torch.isfinite(x).all()" in origin.cure


def test_a_leaf_that_held_it_before_is_named() -> None:
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight[0, 1] = NAN
    with record(values=True) as recording:
        loss = model(torch.ones(1, 2)).mean()
    report = find_nan(loss, names=model, recording=recording)
    assert str(report).startswith("find_nan: NaN was in weight before\n")
    assert report.origins[0].operation == "leaf"
    assert "clip_grad_norm_" in report.origins[0].cure
    unnamed = find_nan(loss, recording=recording)
    assert str(unnamed).startswith("find_nan: NaN was in a leaf before\n")


def test_a_nan_of_an_infinity_is_told_as_its_consequence() -> None:
    report = hunt(lambda x: (x * x).sqrt(), (0.0, 1.0))
    root, square = report.origins
    assert (root.operation, square.operation) == ("sqrt", "mul")
    assert square.cure == "Mend the infinity, and it goes with it."
    value = hunt(lambda x: x.exp() - (x + 1).exp(), (100.0, 1.0))
    assert [origin.cure == square.cure for origin in value.origins] == [False, False, True]


def test_what_was_given_made_and_passed_on_is_told() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with record(values=True) as recording:
        y = x.sqrt().sum()
    (origin,) = find_nan(y, names={"x": x}, recording=recording).origins
    ((name, given),) = origin.given
    assert (name, given and given.numbers) == ("x", (0.0, 4.0))
    assert [one and one.numbers for one in origin.made] == [(1.0, 1.0)]
    assert [one and one.numbers for one in origin.passed_on] == [(INF, 0.25)]


def test_without_a_recording_gradients_are_found_and_the_report_says_what_is_missing() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    report = find_nan((x * 1).sqrt().sin().sum(), names={"x": x})
    assert report.origins[0].operation == "sqrt"
    assert report.unrecorded > 0
    assert "values but those of" in str(report)
    assert "record(values=True)" in str(report)


def test_a_graph_that_was_freed_has_values_only() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with record(values=True) as recording:
        y = x.log().sum()
    y.backward()
    report = find_nan(y, names={"x": x}, recording=recording)
    assert [origin.way for origin in report.origins] == ["value"]
    assert report.without_gradients == "the graph is freed, as by a backward() before."
    assert report.without_gradients in " ".join(str(report).split())


def test_a_backward_that_fails_leaves_the_values() -> None:
    x = torch.tensor([1.0, 4.0], requires_grad=True)
    with record(values=True) as recording:
        h = x.exp()
        y = h.sum()
        h.add_(1.0)
    report = find_nan(y + h.sum() * h.sum().exp().sum(), names={"x": x}, recording=recording)
    assert "torch.autograd.grad() fails with 'one of the variables" in str(report.without_gradients)


def test_compiled_code_that_runs_backward_once_is_looked_at_all_the_same() -> None:
    def waves(x: Tensor) -> Tensor:
        return x.sin().exp().sin()

    faster: Any = torch.compile(waves, backend="aot_eager")
    x = torch.ones(2, requires_grad=True)
    faster(x).sum().backward()  # it is compiled to free what it saved
    loss = faster(x).sum()
    report = find_nan(loss)
    assert report.without_gradients is None
    loss.backward()


def test_many_origins_are_told_in_short() -> None:
    report = hunt(lambda x: torch.stack([x.log(), x.log2(), x.log10(), x.reciprocal()]), (0.0, 1.0))
    assert len(report.origins) > 3
    assert "It comes up elsewhere as well: node" in str(report)


def test_nothing_found_says_what_was_looked_at() -> None:
    report = hunt(lambda x: x * x, (1.0, 2.0))
    assert not report
    assert str(report) == (
        "find_nan: nothing that was seen is NaN or infinite\n"
        "  looked at  all values, and the gradients of one backward"
    )


def test_it_fills_nothing_frees_nothing_and_changes_nothing() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with record(values=True) as recording:
        y = x.sqrt().sum()
    find_nan(y, names={"x": x}, recording=recording)
    assert x.grad is None
    y.backward()
    assert x.grad is not None


def test_outputs_of_several_numbers_start_from_ones() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    assert find_nan([x.sqrt(), (x + 1).log()], names={"x": x}).origins[0].operation == "sqrt"


def test_an_edge_has_no_numbers_to_start_from() -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="gradients must start from one real number"):
        find_nan(torch.autograd.graph.get_gradient_edge(x * 2))


def test_it_shows_itself_as_json_and_in_a_notebook() -> None:
    report = hunt(lambda x: x.sqrt(), (0.0, 1.0))
    assert json.loads(json.dumps(report.to_dict()))["origins"][0]["operation"] == "sqrt"
    assert "The slope of sqrt() at 0 is infinite." in report._repr_html_()
