"""Assertions about training fail with the report."""

import pytest
import torch
from torch import nn

from leafgrad.testing import assert_gradients, assert_trains


class Steps:
    """A model, and a step that trains a part of it."""

    def __init__(self, trained: str = "") -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        parameters = self.model.get_submodule(trained).parameters()
        self.optimizer = torch.optim.SGD(parameters, lr=0.1)
        self.factor = 1.0

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        (self.model(torch.ones(3, 4)).square().mean() * self.factor).backward()
        self.optimizer.step()


def test_assert_gradients_passes_and_leaves_grad_empty() -> None:
    model = Steps().model
    assert_gradients(model(torch.ones(3, 4)).square().mean(), model)
    assert all(one.grad is None for one in model.parameters())


def test_assert_gradients_fails_with_the_report() -> None:
    model = Steps().model
    with pytest.raises(AssertionError, match=r"`model\[0\].weight` and `model\[0\].bias`"):
        assert_gradients(model[2](torch.ones(3, 8)).square().mean(), model)


def test_assert_trains_passes_if_all_parameters_change() -> None:
    step = Steps()
    assert_trains(step, step.model)


def test_assert_trains_names_a_parameter_that_did_not_change() -> None:
    step = Steps("2")
    with pytest.raises(AssertionError, match=r"0\.weight did not change in one step"):
        assert_trains(step, step.model)
    assert_trains(step, step.model, frozen=["0"])


def test_assert_trains_fails_if_a_frozen_parameter_changes() -> None:
    step = Steps()
    with pytest.raises(AssertionError, match=r"2\.bias is in `frozen=`, and changed"):
        assert_trains(step, step.model, frozen=["2.bias"])


def test_assert_trains_fails_with_the_report_if_a_parameter_is_not_finite() -> None:
    step = Steps()
    step.factor = float("nan")
    with pytest.raises(AssertionError, match=r"is not finite after one step(.|\n)*error\[nan-"):
        assert_trains(step, step.model)


@pytest.mark.parametrize(
    ("frozen", "words"), [(["head"], "there is no 'head'"), (["0", "2"], "leaves no")]
)
def test_frozen_must_name_parameters_but_not_all(frozen: list[str], words: str) -> None:
    step = Steps()
    with pytest.raises(ValueError, match=words):
        assert_trains(step, step.model, frozen=frozen)
