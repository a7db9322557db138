"""`diagnose`: run all checks on a training step and return a report."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from leafgrad._arguments.names import Names
from leafgrad._arguments.signature import public_function
from leafgrad._diagnosis.checks import (
    backward,
    forward,
    gradient,
    gradient_sizes,
    not_finite,
    training,
    zero_gradient,
)
from leafgrad._diagnosis.diagnosis import Diagnosis, Severity
from leafgrad._diagnosis.report import Report
from leafgrad._diagnosis.situation import CHECKS, Situation, rank
from leafgrad._graph.code_files import is_installed, short_path
from leafgrad._messages import message
from leafgrad._record.record import Recording

SUBJECTS = (forward, backward, not_finite, gradient, zero_gradient, gradient_sizes, training)
"""The modules with the checks. Importing a module registers its checks."""


@public_function()
def diagnose(
    loss: Any,
    model: Names = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    *,
    recording: Recording | None = None,
    gradients: bool = False,
    expect: Iterable[str] | None = None,
) -> Report:
    """Report what is wrong with a training step, on which line, and how to fix it.

    Call this function before ``loss.backward()``. It changes nothing, and runs a backward
    pass only if you pass ``gradients=True``.

    Args:
        loss: The tensor that the backward pass starts from, or several in lists, tuples, dicts or
            dataclasses. If the forward pass raised an exception, pass the exception instead.
        model: The module to check, a mapping from name to tensor or module, or an optimizer.
        optimizer: The optimizer, or several. `diagnose` checks whether it trains the model.
        recording: The recording from the `record` block in which the loss was computed. It contains
            only the operations of its own thread. With it, the report shows the lines at fault, and
            finds problems that leave no trace in the graph.
        gradients: Whether to run one backward pass, which also finds gradients that are zero, too
            small or not finite. Hooks run, but ``.grad`` and the graph do not change.
        expect: The names of the parameters that should get a gradient. All others should not.

    Returns:
        The findings, the most severe first. The report keeps no tensor and no graph alive.

    Example:
        >>> import torch
        >>> from leafgrad import diagnose, record
        >>> w = torch.ones(2, requires_grad=True)
        >>> with record() as recording:
        ...     loss = w.exp().detach().sum()
        >>> report = diagnose(loss, {"w": w}, recording=recording)
        >>> report.ok
        False

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `loss` contains no tensor, or `model` is an iterator that was already
            consumed.

    Note:
        If you pass a mapping of losses, each loss is also checked on its own. You can also pass the
        output of a Hugging Face model, which contains the loss. Without a recording, the report
        ends with code that makes a recording. Copy this code to see the lines at fault.
    """
    if optimizer is None and isinstance(model, torch.optim.Optimizer):
        optimizer = model
    optimizers = read_optimizers(optimizer)
    if model is None and len(optimizers) == 1:
        model = optimizers[0]
    situation = Situation(
        _loss_of(loss),
        model,
        optimizers,
        recording,
        expected=expect,
        runs_backward=gradients,
    )
    if isinstance(loss, Exception):
        return Report((*forward.find_failed_forward(situation),))
    found: list[Diagnosis] = []
    for one in CHECKS:
        found += one.find(situation)
        situation.has_error = any(finding.severity is Severity.ERROR for finding in found)
    is_fine = all(one.severity is Severity.NOTE for one in found)
    # These notes say what could not be checked: the backward pass of the loss has already run, or
    # the memory of NumPy arrays was not watched. They matter only if nothing else is wrong.
    limits = {("freed", Severity.NOTE), ("silent-write", Severity.NOTE)}
    kept = [one for one in found if is_fine or (one.code, one.severity) not in limits]
    ranked = tuple(sorted(kept, key=rank))
    is_complete = recording is not None or is_fine
    return Report(ranked) if is_complete else _with_one_help(ranked)


def _loss_of(loss: Any) -> Any:
    """Return the loss in a Hugging Face model output; return any other argument unchanged."""
    if isinstance(loss, Mapping) and hasattr(loss, "loss"):
        if loss.loss is None:
            raise TypeError(message("errors.no-loss", kind=type(loss).__name__))
        return loss.loss
    return loss


def _with_one_help(found: Iterable[Diagnosis]) -> Report:
    """Return a report of the findings in `found` that share one help: how to run with a recording.

    A finding without a recording has no line. Help that only asks for a recording is removed.
    """
    general = {message(f"{code}.help") for code in NEED_RECORDING}
    kept = [
        replace(one, help=tuple(advice for advice in one.help if advice.text not in general))
        for one in found
    ]
    is_script = sys.argv[0].endswith(".py") and not is_installed(sys.argv[0])
    script = sys.argv[0] if is_script else message("debug.script")
    return Report((*kept,), help=message("debug.unrecorded", script=short_path(script)))


NEED_RECORDING = ("no-graph", "no-graph.leaf", "not-reached", "nan-input.unseen")


def read_optimizers(given: object) -> list[torch.optim.Optimizer]:
    """Return a list of optimizers from the argument `given` of `diagnose`.

    The argument is None, one optimizer, or an iterable of optimizers. Raise a TypeError for others.
    """
    if given is None:
        return []
    if isinstance(given, torch.optim.Optimizer):
        return [given]
    several: list[Any] = [*given] if isinstance(given, Iterable) else [given]
    for one in several:
        if not isinstance(one, torch.optim.Optimizer):
            raise TypeError(
                f"optimizer must be a torch.optim.Optimizer or several, not {type(one).__name__}"
            )
    return several
