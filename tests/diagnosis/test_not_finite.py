"""NaN and infinity: the operation, its line, and a printed fix that removes them."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from leafgrad import Report, diagnose, record
from tests.diagnosis.programs import apply_printed_edits, report_of, run

NAN = float("nan")


class Case(NamedTuple):
    """An expression in `x` that is not finite, the values of `x`, and the expected finding."""

    expression: str
    at: tuple[float, ...]
    found: tuple[str, str]
    fix: str = ""


VALUE, GRADIENT = "nan-value", "nan-gradient"
CASES = [
    Case("x.acos()", (2.0, 0.5), (VALUE, "acos")),
    Case("x.acos()", (1.0, 0.5), (GRADIENT, "acos")),
    Case("torch.asin(x)", (-1.0, 0.5), (GRADIENT, "asin")),
    Case("x.half() @ x.half()", (300.0, 300.0), (VALUE, "dot"), "bfloat16"),
    Case("x.half().expand(2, 2) @ x.half().expand(2, 2)", (300.0, 300.0), (VALUE, "mm"), "bfloat"),
    Case("(x - 1.0).reciprocal()", (1.0, 2.0), (VALUE, "reciprocal")),
    Case("x / x", (0.0, 2.0), (VALUE, "div")),
    Case("torch.where(x == 0, 0.0, x / x)", (0.0, 2.0), (GRADIENT, "div")),
    Case("x.exp() / x.exp().sum()", (100.0, 1.0), (VALUE, "exp"), "softmax()"),
    Case("(x * 1.0).log()", (0.0, 1.0), (VALUE, "log")),
    Case("torch.log(x.softmax(0))", (200.0, 1.0), (VALUE, "log")),
    Case("x * (x + 1e38) * 1e38", (0.0, 1e3), (VALUE, "mul"), "infinite or very large"),
    Case("x.sqrt()", (-1.0, 1.0), (VALUE, "sqrt")),
    Case("torch.sqrt(x)", (0.0, 1.0), (GRADIENT, "sqrt")),
    Case("x ** 0.3", (0.0, 1.0), (GRADIENT, "pow")),
    Case("x ** 0.3", (-1.0, 1.0), (VALUE, "pow")),
    Case("x[:1].std()", (1.0, 2.0), (VALUE, "std")),
    Case("torch.where(x > 0, x.log(), 0.0)", (0.0, 1.0), (GRADIENT, "log")),
    Case("x.log1p()", (-1.0, 1.0), (VALUE, "log1p")),
    Case("x.log1p().clamp(min=-5)", (-1.0, 1.0), (GRADIENT, "log1p")),
    Case("x.acosh()", (0.5, 2.0), (VALUE, "acosh")),
    Case("x.acosh()", (1.0, 2.0), (GRADIENT, "acosh")),
    Case("x.atanh()", (1.0, 0.5), (VALUE, "atanh")),
    Case("x.atanh().clamp(max=5.0)", (1.0, 0.5), (GRADIENT, "atanh")),
    Case("x.logit()", (1.0, 0.5), (VALUE, "logit"), "eps"),
    Case("x.rsqrt().clamp(max=1e3)", (0.0, 1.0), (GRADIENT, "rsqrt")),
    Case("torch.hypot(x, x)", (0.0, 1.0), (GRADIENT, "hypot"), "1e-12).sqrt()"),
    Case("x.log() * x", (0.0, 1.0), (VALUE, "log")),
    Case("torch.xlogy(x, x)", (0.0, 1.0), (GRADIENT, "xlogy"), "p.clamp"),
    Case("torch.linalg.svd(torch.diag(x))[0]", (1.0, 1.0), (GRADIENT, "linalg.svd"), "svdvals"),
    Case("torch.linalg.eigh(torch.diag(x))[1]", (1.0, 1.0), (GRADIENT, "linalg.eigh"), "eigvalsh"),
    Case("(x.half() ** 2).float()", (600.0, 1.0), (VALUE, "pow"), "65,504"),
    Case("x.half().float()", (70000.0, 1.0), (VALUE, "to"), "65,504"),
    Case("(x.half() * 1).sum()", (60000.0, 60000.0), (VALUE, "sum")),
    Case("x.prod()", (1e30, 1e30), (VALUE, "prod"), "smaller"),
    Case("torch.special.i0(x)", (1000.0, 1.0), (VALUE, "i0"), "too large"),
    Case("x.erfinv().clamp(max=3.0)", (1.0, 0.5), (GRADIENT, "erfinv"), "slope"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.expression} at {case.at[0]}")
def test_operation_is_named_and_the_printed_fix_cures_it(case: Case, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        f"import torch\n\nx = torch.tensor({case.at}, requires_grad=True)\n"
        f"y = {case.expression}\nloss = y.sum()\nmodel = {{'x': x}}\n"
    )
    report = report_of(run(file))
    first = report.diagnoses[0]
    code, operation = case.found
    assert (first.code, f"`{operation}`" in first.headline) == (code, True), str(report)
    assert first.primary is not None
    assert first.primary.source.line == 4
    assert first.primary.source.column is not None
    if case.fix:
        assert case.fix in " ".join(str(report).split())
        return
    fixed = apply_printed_edits(str(report), file.read_text())
    assert {*report_of(run(file, fixed)).codes}.isdisjoint({VALUE, GRADIENT}), fixed


def diagnosed(loss: Any, names: Any, recording: Any = None) -> Report:
    return diagnose(loss, names, recording=recording, gradients=True)


def test_nan_in_the_data_is_reported_as_input() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    with record(values=True) as recording:
        loss = model(torch.tensor([[1.0, NAN]])).square().mean()
    report = diagnosed(loss, model, recording)
    assert report.codes == ("nan-input",)
    assert "argument 0 of `linear` already contains NaN" in str(report)


def test_parameter_that_holds_nan_is_named() -> None:
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight[0, 1] = NAN
    with record(values=True) as recording:
        loss = model(torch.ones(1, 2)).mean()
    report = diagnosed(loss, model, recording)
    assert report.codes == ("nan-input",)
    assert report.diagnoses[0].subject == ("weight",)


def test_nan_that_follows_from_an_infinity_is_a_note() -> None:
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with record(values=True) as recording:
        loss = (x * x).sqrt().sum()
    report = diagnosed(loss, {"x": x}, recording)
    assert report.codes == ("nan-gradient",)
    assert "NaN at" in report.diagnoses[0].notes[-1]


def test_nan_made_outside_of_the_graph_is_found_in_training_and_evaluation() -> None:
    net, x = nn.Linear(1, 1), torch.ones(4, 1)
    for is_training in (True, False):
        with record(values=True) as recording, torch.set_grad_enabled(is_training):
            scaled = (x - x.mean(1, keepdim=True)) / (x - x)
            loss = net(scaled).sum()
        report = diagnosed(loss, net, recording)
        assert "nan-value" in report.codes, str(report)
        found = next(one for one in report if one.code == "nan-value")
        assert "`div`" in found.headline


def test_gradients_are_checked_without_a_recording() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    assert diagnosed((x * 1).sqrt().sin().sum(), {"x": x}).codes == ("nan-gradient",)


def test_nan_in_a_freed_graph_is_reported() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with record(values=True) as recording:
        loss = x.log().sum()
    loss.backward()
    assert "nan-value" in diagnosed(loss, {"x": x}, recording).codes


def test_backward_pass_leaves_grad_and_graph_as_they_are() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    loss = x.sqrt().sum()
    diagnosed(loss, {"x": x})
    assert x.grad is None
    loss.backward()
    assert x.grad is not None


def test_trial_backward_pass_starts_outputs_of_several_numbers_with_ones() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    report = diagnosed([x.sqrt(), (x + 1).log()], {"x": x})
    assert "nan-gradient" in report.codes


def test_loss_that_is_nan_is_reported_even_if_no_values_were_recorded() -> None:
    x = torch.tensor([-1.0], requires_grad=True)
    report = diagnose((x - float("inf") + float("inf")).sum(), {"x": x})
    assert report.codes == ("nan-input",)
    assert "with leafgrad.debug()" in report.help
