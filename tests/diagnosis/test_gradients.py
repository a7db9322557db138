"""Gradients that are zero, vanish or explode: the code and the message of each cause."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from leafgrad import Report, diagnose, record


def zeros(function: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.float32) -> Report:
    x = torch.ones(3, requires_grad=True, dtype=dtype)
    with record(values=True) as recording:
        loss = function(x).sum()
    return diagnose(loss, {"x": x}, recording=recording, gradients=True)


def hooked(x: Tensor) -> Tensor:
    y = x * 1
    y.register_hook(lambda gradient: 0 * gradient)
    return y.exp()


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: x - x, "cancel each other"),
        (hooked, "a hook replaces"),
        (lambda x: torch.sinc(x * 0), "the other factor is zero"),
        (lambda x: (x - 1).sinc(), "only zeros leave"),
        (lambda x: x * 0, "the other factor is zero"),
        (lambda x: x * 1e-30 * 1e-30, "the other factor is zero"),
    ],
    ids=["difference", "hook", "inner factor", "no words", "factor", "underflow"],
)
def test_report_names_the_cause_of_zeros(function: Callable[[Tensor], Tensor], says: str) -> None:
    report = zeros(function)
    assert report.codes == ("zero-gradient",)
    assert says in str(report)


def test_underflow_in_half_precision_suggests_a_scaler() -> None:
    assert "GradScaler" in str(zeros(lambda x: x * 1e-4 * 1e-4, torch.float16))


@pytest.mark.parametrize(
    "function",
    [lambda x: x * 0 + x, lambda x: x * 1e-30, torch.exp],
    ids=["one of two paths", "tiny", "exp"],
)
def test_gradients_that_are_not_zero_are_not_reported(
    function: Callable[[Tensor], Tensor],
) -> None:
    assert zeros(function).codes == ()


def deep(bend: Callable[[], nn.Module], gain: float) -> nn.Sequential:
    model = nn.Sequential()
    for number in range(12):
        layer = nn.Linear(16, 16)
        nn.init.xavier_normal_(layer.weight, gain=gain)
        model.add_module(f"layer{number}", layer)
        model.add_module(f"bend{number}", bend())
    return model


def sizes(model: nn.Module) -> tuple[str, ...]:
    with record(values=True) as recording:
        loss = model(torch.randn(8, 16)).square().mean()
    return diagnose(loss, model, recording=recording, gradients=True).codes


@pytest.mark.parametrize(
    ("bend", "gain", "codes"),
    [
        (nn.Sigmoid, 1.0, ("vanishing-gradient",)),
        (nn.Identity, 3.0, ("exploding-gradient",)),
        (nn.Tanh, 5 / 3, ()),
    ],
    ids=["sigmoid", "large", "tanh"],
)
def test_vanishing_and_exploding_gradients_are_reported(
    bend: Callable[[], nn.Module], gain: float, codes: tuple[str, ...]
) -> None:
    assert sizes(deep(bend, gain)) == codes


def test_loss_that_no_parameter_can_change_is_reported() -> None:
    model = nn.Linear(4, 8)
    with record(values=True) as recording:
        loss = model(torch.randn(5, 4)).softmax(-1).mean()
    report = diagnose(loss, model, recording=recording, gradients=True)
    assert report.codes == ("zero-gradient",)
    assert "cannot change" in str(report)
