"""The healthy programs train: each optimized parameter gets a gradient and changes."""

import contextlib
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from leafgrad import diagnose
from leafgrad.types import Severity
from tests.stories.healthy import healthy
from tests.stories.training import Program, run_recorded, undisturbed

START = "a_hinge_loss_with_every_margin_kept", "the_first_step_of_a_warmup_from_zero"
"""These do not move yet: a margin that is kept has no gradient, and a warmup starts at 0."""


@pytest.mark.parametrize("program", healthy, ids=lambda program: program.__name__)
def test_healthy_program_trains(program: Program) -> None:
    start: dict[torch.Tensor, torch.Tensor] = {}

    def keep(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for p in (p for group in optimizer.param_groups for p in group["params"]):
            start.setdefault(p, p.detach().clone())

    handle = register_optimizer_step_pre_hook(keep)
    try:
        with undisturbed():
            training = program(contextlib.nullcontext)
            loss = torch.stack(training.terms).sum()
            loss.backward()
            assert training.optimizer
            training.optimizer.step(loss.item)
    finally:
        handle.remove()
    assert loss.isfinite()
    moved = {p: not torch.equal(p, first) for p, first in start.items()}
    assert any(moved.values()) is (program.__name__ not in START)
    for p, did in moved.items():
        assert p.grad is not None
        assert p.grad.isfinite().all()
        assert did or p.grad.abs().max() < 1e-6 or program.__name__ in START


WARNED = {"gates_that_start_nearly_at_zero": "vanishing-gradient"}
"""The one warning about a healthy program: its gradients are small until the gates open."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", healthy, ids=lambda program: program.__name__)
def test_healthy_program_gets_no_error_and_no_warning(program: Program) -> None:
    with undisturbed():
        training, recording = run_recorded(program)
        report = diagnose(
            training.loss, training.model, training.optimizer, recording=recording, gradients=True
        )
    weighty = {one.code for one in report if one.severity is not Severity.NOTE}
    assert weighty <= {WARNED.get(program.__name__)}, report
