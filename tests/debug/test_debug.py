"""`debug` around a training loop: its reports, when they appear, and the state afterwards."""

import contextlib
import gc
import math
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leafgrad import _autograd, debug
from leafgrad._debug.finite_check import FiniteCheck
from leafgrad._debug.session import StepReport
from tests.stories.healthy import healthy
from tests.stories.training import Program, undisturbed

Reports = list[StepReport]


class Trainer:
    """A small model, and a loop around the loss that a test defines."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.x = torch.randn(6, 4)

    def run(self, loss: Callable[[int], Tensor], steps: int = 6, **options: Any) -> Reports:
        with debug(self.model, self.optimizer, **options) as reports:
            for step in range(1, steps + 1):
                self.optimizer.zero_grad()
                loss(step).backward()
                self.optimizer.step()
        return reports

    def plain_loss(self, _: int = 0) -> Tensor:
        loss: Tensor = self.model(self.x).square().mean()
        return loss

    def root(self, step: int) -> Tensor:
        """Return a loss whose gradient is NaN in step 5."""
        factor = 0.0 if step == 5 else 1.0
        loss: Tensor = (self.model(self.x) * factor).square().sum().sqrt()
        return loss


@pytest.fixture
def trainer() -> Trainer:
    gc.collect()
    return Trainer()


def test_finding_is_printed_once_with_its_training_step(
    trainer: Trainer, capsys: pytest.CaptureFixture[str]
) -> None:
    last, first = trainer.model[2], trainer.model[0]
    reports = trainer.run(lambda _: last(first(trainer.x).detach()).square().mean())
    assert [(step, report.codes[0]) for step, report in reports] == [(1, "detached")]
    printed = capsys.readouterr()
    assert printed.err.count("found in step 1") == printed.err.count("error[detached]") == 1
    assert printed.out == ""


def test_finding_of_the_second_training_step_is_reported(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer.optimizer, "zero_grad", lambda: None)
    ((step, report),) = trainer.run(trainer.plain_loss)
    assert (step, report.codes) == (3, ("missing-zero-grad",))


@pytest.mark.parametrize("clears", [False, True])
def test_gradients_of_an_earlier_recording_are_reported(trainer: Trainer, *, clears: bool) -> None:
    for _ in range(2):
        with debug(trainer.model, trainer.optimizer) as reports:
            trainer.plain_loss().backward()
            trainer.optimizer.step()
        if clears:
            trainer.optimizer.zero_grad(set_to_none=False)
    with debug(trainer.model, trainer.optimizer) as reports:
        trainer.plain_loss().backward()
        trainer.optimizer.step()
        trainer.plain_loss().backward()
    found = [("missing-zero-grad",)] * (not clears)
    assert [report.codes for _, report in reports] == found


def hidden_changed_in_place(trainer: Trainer, *, changes: bool = True) -> Tensor:
    hidden = trainer.model[0](trainer.x).exp()
    total: Tensor = trainer.model[2](hidden).sum() + hidden.sum()
    if changes:
        hidden.add_(1)
    return total


def test_error_in_backward_carries_the_report(trainer: Trainer) -> None:
    with pytest.raises(RuntimeError, match="modified by an inplace") as raised:
        trainer.run(lambda _: hidden_changed_in_place(trainer))
    (note,) = raised.value.__notes__
    assert "error[in-place]: `hidden` was changed in place" in note
    assert "|         hidden.add_(1)" in note


def test_error_in_backward_of_a_later_training_step_carries_the_report(trainer: Trainer) -> None:
    with pytest.raises(RuntimeError) as raised:
        trainer.run(lambda step: hidden_changed_in_place(trainer, changes=step == 6))
    (note,) = raised.value.__notes__
    assert "error[in-place]" in note
    assert "leafgrad.debug(first=6)" in " ".join(note.split())


def test_error_in_forward_names_line_module_and_input(trainer: Trainer) -> None:
    with pytest.raises(RuntimeError) as raised:
        trainer.run(lambda _: trainer.model(torch.ones(3, 5)).sum())
    (note,) = raised.value.__notes__
    assert "mat1 and mat2 shapes cannot be multiplied" in note
    assert "trainer.model(torch.ones(3, 5))" in note
    assert "`Linear(in_features=4, out_features=8, bias=True)`" in note
    assert "`input` (3, 5) float32" in note


def test_pytorch_error_with_a_code_gets_the_help_of_the_code(trainer: Trainer) -> None:
    with pytest.raises(RuntimeError) as raised:
        trainer.run(lambda _: next(trainer.model.parameters()).add_(1))
    (note,) = raised.value.__notes__
    assert "error[leaf-in-place]" in note
    assert "help: make a new tensor" in note


def test_error_of_the_program_itself_gets_no_note(trainer: Trainer) -> None:
    def loss(_: int) -> Tensor:
        raise KeyError("batch")

    with pytest.raises(KeyError) as raised:
        trainer.run(loss)
    assert not hasattr(raised.value, "__notes__")


def test_traceback_has_no_functions_of_leafgrad(trainer: Trainer) -> None:
    with pytest.raises(RuntimeError) as raised:
        trainer.run(lambda _: trainer.model[0](trainer.x))
    inside = traceback.extract_tb(raised.value.__traceback__)
    assert not [frame for frame in inside if "src/leafgrad" in frame.filename]


def test_loss_that_stops_being_finite_later_is_reported(trainer: Trainer) -> None:
    def loss(step: int) -> Tensor:
        return trainer.plain_loss() * (math.inf if step == 5 else 1.0)

    (found,) = trainer.run(loss, steps=7)
    assert found.step == 5
    assert not found.report.ok
    assert "leafgrad.debug(first=5)" in " ".join(str(found.report).split())


def test_gradient_that_stops_being_finite_later_is_reported(trainer: Trainer) -> None:
    ((step, report),) = trainer.run(trainer.root, steps=7)
    assert (step, report.codes) == (5, ("nan-gradient",))
    assert "the 4 parameters of the model" in str(report)


def test_recording_from_a_later_first_step_shows_the_line(trainer: Trainer) -> None:
    ((step, report), *_) = trainer.run(trainer.root, steps=5, first=5)
    found = report.diagnoses[0]
    assert (step, found.code) == (5, "nan-gradient")
    assert found.primary is not None
    assert found.primary.source.function == "Trainer.root"


def test_recording_starts_again_if_the_weights_are_still_finite(trainer: Trainer) -> None:
    recorded = []

    def loss(step: int) -> Tensor:
        recorded.append(_autograd.function_modes() > 0)
        return trainer.root(step)

    def skip(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not all(
            one.grad.isfinite().all() for one in trainer.model.parameters() if one.grad is not None
        ):
            optimizer.zero_grad()

    trainer.optimizer.register_step_pre_hook(skip)
    reports = trainer.run(loss, steps=10)
    assert [step for step, _ in reports] == [5]
    assert recorded == [True] * 3 + [False] * 2 + [True] * 3 + [False] * 2


def test_debug_stops_recording_and_restores_backward(trainer: Trainer) -> None:
    before = torch.Tensor.backward, torch.autograd.backward
    inside = []

    def loss(_: int) -> Tensor:
        inside.append(_autograd.function_modes())
        return trainer.plain_loss()

    assert trainer.run(loss) == []
    assert inside[0] == inside[2] > inside[3] == inside[5] == 0
    assert (torch.Tensor.backward, torch.autograd.backward) == before


class Mode(torch.overrides.TorchFunctionMode):
    """A function mode of the user."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_debug_does_not_close_a_mode_of_the_user(trainer: Trainer) -> None:
    with debug(trainer.model, trainer.optimizer):
        with Mode() as mode:
            for _ in range(5):
                trainer.optimizer.zero_grad()
                trainer.plain_loss().backward()
                trainer.optimizer.step()
                assert _autograd.function_mode_stack()[-1] is mode
        trainer.optimizer.step()
        assert _autograd.function_modes() == 0


def test_models_and_optimizers_are_found_in_memory(trainer: Trainer) -> None:
    backbone = nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*backbone.parameters(), *trainer.model.parameters()], lr=0.1)
    with debug() as reports:
        trainer.model(backbone(trainer.x).detach()).square().mean().backward()
        optimizer.step()
    ((_, report),) = reports
    assert {*report.diagnoses[0].subject} == {"backbone.weight", "backbone.bias"}


def test_alternating_optimizers_are_not_reported(trainer: Trainer) -> None:
    critic = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    with debug() as reports:
        for _ in range(4):
            optimizer.zero_grad()
            critic(trainer.model(trainer.x).detach()).square().mean().backward()
            optimizer.step()
            trainer.optimizer.zero_grad()
            critic(trainer.model(trainer.x)).mean().backward()
            trainer.optimizer.step()
    assert reports == []


def test_optimizer_that_no_loss_reaches_is_reported_with_the_cut(trainer: Trainer) -> None:
    critic = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    with debug() as reports:
        for _ in range(4):
            fake = trainer.model(trainer.x)
            optimizer.zero_grad()
            critic(fake.detach()).square().mean().backward()
            optimizer.step()
            trainer.optimizer.zero_grad()
            critic(fake.detach() * 2).mean().backward()
            trainer.optimizer.step()
    ((_, report),) = reports
    assert report.codes == ("detached",)
    assert "the 4 parameters of `trainer`" in str(report)
    assert "critic(fake.detach() * 2)" in str(report)


class ListTrainer:
    """A trainer that is not a module, with layers in a list."""

    def __init__(self) -> None:
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]
        self.head = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.head.parameters(), lr=0.1)

    def step(self, x: Tensor) -> None:
        for layer in self.layers:
            x = layer(x).tanh()
        self.head(x).square().mean().backward()
        self.optimizer.step()


@pytest.mark.parametrize("trains", [True, False])
def test_layers_that_no_optimizer_holds_are_reported_unless_in_eval(*, trains: bool) -> None:
    own = ListTrainer()
    for layer in own.layers:
        layer.train(trains)
    with debug() as reports:
        own.step(torch.ones(2, 4))
    assert [report.codes for _, report in reports] == [("not-in-optimizer",)] * trains
    assert not trains or "layers[1].bias" in reports[0].report.diagnoses[0].subject


def test_backward_with_gradient_or_inputs_is_not_diagnosed(trainer: Trainer) -> None:
    with debug(trainer.model) as reports:
        y = trainer.model(trainer.x)
        y.backward(torch.ones_like(y))
        weight = next(trainer.model.parameters())
        torch.autograd.backward([trainer.plain_loss()], inputs=[weight])
    assert reports == []


def test_memory_does_not_grow_during_training(trainer: Trainer) -> None:
    counts = []
    with debug(trainer.model, trainer.optimizer):
        for _ in range(3):
            for _ in range(50):
                trainer.optimizer.zero_grad()
                trainer.plain_loss().backward()
                trainer.optimizer.step()
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert counts[2] - counts[1] < 20


def test_failure_of_the_diagnosis_does_not_stop_training(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("leafgrad._debug.session.diagnose", fail)
    with pytest.warns(UserWarning, match="ZeroDivisionError"):
        trainer.run(trainer.plain_loss)


def test_argument_first_of_debug_must_be_positive() -> None:
    with pytest.raises(ValueError, match="first must be 1 or more, not 0"):
        debug(first=0)


@pytest.mark.parametrize("program", healthy, ids=lambda program: program.__name__)
def test_healthy_code_prints_nothing(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    with undisturbed(), warnings.catch_warnings(action="ignore"), debug():
        training = program(contextlib.nullcontext)
        loss = torch.stack(training.terms).sum()
        loss.backward()
        assert training.optimizer
        training.optimizer.step(loss.item)
    assert capsys.readouterr().err == ""


# --- The check of each step


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_finite_check_detects_each_number_that_is_not_finite(bad: float) -> None:
    check = FiniteCheck()
    tensors = [torch.ones(3), torch.ones(2, 2)]
    assert not check.has_failed(tensors)
    tensors[1][0, 1] = bad
    assert check.has_failed(tensors)


def test_finite_check_accepts_finite_numbers_whose_norm_overflows() -> None:
    assert not FiniteCheck().has_failed([torch.full((9,), 6e4, dtype=torch.float16)])


def test_finite_check_reads_sparse_tensors() -> None:
    values = torch.tensor([1.0, math.nan])
    tensor = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), values, (3,), check_invariants=True)
    assert FiniteCheck().has_failed([tensor])
