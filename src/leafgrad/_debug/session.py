"""`debug`: record and diagnose the first training steps, then check later ones cheaply."""

import functools
import inspect
import os
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from multiprocessing.util import register_after_fork
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch import Tensor
from torch.multiprocessing.spawn import ProcessRaisedException
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from leafgrad import _autograd
from leafgrad._arguments.names import Names, named_tensors, read_names
from leafgrad._arguments.signature import public_function
from leafgrad._debug.finite_check import FiniteCheck, all_finite
from leafgrad._debug.training_objects import Trained, named_gradients, trained_by
from leafgrad._diagnosis.checks.forward import findings_of_error
from leafgrad._diagnosis.checks.gradient import CODES
from leafgrad._diagnosis.diagnose import diagnose, read_optimizers
from leafgrad._diagnosis.diagnosis import Diagnosis, Help, Severity, list_names
from leafgrad._diagnosis.report import Report
from leafgrad._diagnosis.situation import parameters_of
from leafgrad._messages import message
from leafgrad._record.record import Recording, record

STEPS = 3
"""The number of recorded training steps; the third shows what the first two left behind."""
MOST_PASSES = 12
"""The maximum number of diagnosed passes; a program without optimizers has no steps."""
MOST_RECORDINGS = 5
"""The maximum number of times that a recording starts again."""


NOTHING = Report(())
NOT_CLEAR = {"eval-mode", "frozen", "gradients-not-checked", "not-in-optimizer", "unregistered"}
"""The codes of notes about parameters that are not trained or were not checked."""
PLAIN = {"retain_graph", "create_graph"}
"""The keywords of an ordinary backward pass; passes with others are not diagnosed."""


class StepReport(NamedTuple):
    """A report on one training step. `debug` adds it to its list.

    Attributes:
        step: The number of the training step, counted from 1.
        report: The findings of `diagnose` in this step.
    """

    step: int
    report: Report


class Session:
    """A context manager that watches the training loop of one thread.

    Attributes:
        reports: The reports so far.
        step: The number of the running training step, which ends when an optimizer has stepped.
        backward_count: The number of backward passes that began.
        notes: Notes to show if no problem was found.
    """

    def __init__(
        self,
        model: Any = None,
        optimizers: Iterable[Optimizer] = (),
        first: int = 1,
        *,
        is_quiet: bool = False,
    ) -> None:
        """Prepare to record from the training step number `first` on."""
        self.model = model
        self.optimizers = [*optimizers]
        self.first = first
        self.is_quiet = is_quiet
        self.reports: list[StepReport] = []
        self.step = 1
        self.backward_count = 0
        self.thread: int | None = None
        self.recording: Recording | None = None
        self._exits = ExitStack()
        self._recorder = ExitStack()
        self._modes: list[Any] = []
        self._recorder_modes: list[Any] = []
        self._started_at = first
        self._passes = self._recordings = 0
        self._steps: dict[int, int] = {}
        self._check = FiniteCheck()
        self._was_finite = True
        self._wants_recording = False
        self._is_in_backward = False
        self._seen = set[tuple[str, object]]()
        self.notes: dict[Diagnosis, None] = {}
        self._missed: list[tuple[Optimizer, Report]] = []
        self._first_missed: dict[Optimizer, list[Report]] = {}
        self._reached = set[int]()
        self._flags: list[tuple[ref[Tensor], bool]] = []
        self._failure = 0, NOTHING

    def __enter__(self) -> list[StepReport]:
        """Start watching; return the list to which reports are added."""
        self.thread = threading.get_ident()
        self._modes = _autograd.function_mode_stack()
        for owner in (torch.Tensor, torch.autograd):
            self._exits.enter_context(self._watched(owner))
        for hook in (
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ):
            self._exits.callback(hook.remove)
        if self.first <= 1:
            self._start_recording()
        # A forked process is a worker of a DataLoader, which only loads data.
        register_after_fork(self, Session.close)
        return self.reports

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Stop watching; if an error leaves the block, attach a report to it."""
        is_recorded = self.recording is not None
        self.close()
        for optimizer, missed in self._first_missed.items() if error is None else ():
            self._report_idle(optimizer, missed)
        if isinstance(error, Exception):
            self._explain(error, is_recorded=is_recorded)
            remove_own_frames(error)

    def close(self) -> None:
        """Remove all hooks and end the recording; also called in forked processes."""
        self.thread = None
        self._exits.close()
        self._stop_recording()

    # --- Recording

    def _start_recording(self) -> None:
        """Start recording, unless a function mode of the user is active that must end first."""
        if self.recording is None and _autograd.function_mode_stack() == self._modes:
            self.recording = self._recorder.enter_context(record(values=True))
            self._started_at, self._passes = self.step, 0
            self._recordings += 1
            self._recorder_modes = _autograd.function_mode_stack()

    def _stop_recording(self) -> None:
        """Stop recording, unless a function mode was entered after the recorder's."""
        if self.recording and _autograd.function_mode_stack() == self._recorder_modes:
            self._recorder.close()
            self.recording = None

    # --- Steps

    def _before_step(self, optimizer: Optimizer, *_: Any) -> None:
        if threading.get_ident() != self.thread or self.recording is not None:
            return
        held = parameters_of([optimizer]).values()
        gradients = [one.grad for one in held if one.grad is not None]
        if self._check.has_failed(gradients):
            self._note_not_finite(optimizer=optimizer)
        else:
            self._was_finite = True

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        if threading.get_ident() != self.thread:
            return
        is_new = id(optimizer) not in self._steps and self.recording is None
        steps = self._steps.get(id(optimizer), self.step - 1 if is_new else 0) + 1
        self._steps[id(optimizer)] = steps
        missed, self._missed = self._missed, []
        own = [report for one, report in missed if one is optimizer]
        self._first_missed[optimizer] = own if steps == 1 else []
        if steps > 1:
            self._report_idle(optimizer, own)
        self.step = max(self.step, steps + 1)
        is_over = self.step >= self._started_at + STEPS or self._passes >= MOST_PASSES
        if self.recording is not None and is_over:
            self._stop_recording()
        elif self._wants_recording:
            self._wants_recording = False
            # After an optimizer step that left NaN in a parameter, all later steps would show
            # nothing but NaN, so they are not recorded.
            if all_finite(parameters_of([optimizer]).values()):
                self._start_recording()
        elif self.step >= self.first and (not self._recordings or is_new):
            self._start_recording()  # a new optimizer begins another part of the training

    def _note_not_finite(self, loss: Any = None, optimizer: Optimizer | None = None) -> None:
        """Report a loss or gradients that stopped being finite; record the next training steps.

        Pass the `loss`, or the `optimizer` whose gradients are not finite.
        """
        if not self._was_finite or self._recordings > MOST_RECORDINGS:
            return
        self._was_finite = False
        self._wants_recording = True
        found = () if loss is None else self._diagnose(loss).diagnoses
        if not found:
            found = (_bad_gradients(self.model, optimizer),)
        self._report(Report(found, help=message("debug.again", step=self.step)))

    # --- Backward passes

    @contextmanager
    def _watched(self, owner: Any) -> Iterator[None]:
        """Replace ``owner.backward`` in the block by a function that first diagnoses the loss."""
        original = owner.backward

        @functools.wraps(original)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if self._is_in_backward or threading.get_ident() != self.thread:
                return original(tensors, *args, **kwargs)
            self._is_in_backward = True
            try:
                with self._diagnosed(tensors, is_plain=not args and PLAIN.issuperset(kwargs)):
                    return original(tensors, *args, **kwargs)
            finally:
                self._is_in_backward = False

        owner.backward = backward
        try:
            yield
        finally:
            if owner.backward is backward:
                owner.backward = original

    @contextmanager
    def _diagnosed(self, loss: Any, *, is_plain: bool) -> Iterator[None]:
        """Diagnose a loss before its backward pass; report after it, or explain its error."""
        loss = [loss] if isinstance(loss, Tensor) else [*loss]
        self.backward_count += 1
        report = Report(())
        if self.recording is not None and self._passes < MOST_PASSES and is_plain:
            self._passes += 1
            report = self._diagnose(loss)
        elif self.recording is None and self._check.has_failed(loss):
            self._note_not_finite(loss)
        elif self.recording is None and any(
            (one := get()) is not None and one.requires_grad is not flag
            for get, flag in self._flags
        ):  # a tensor was frozen or unfrozen since the diagnosis
            self._flags, self._wants_recording = [], self._recordings <= MOST_RECORDINGS
        try:
            yield
        except Exception as error:
            # Storing the error would keep the local variables of its traceback alive.
            self._failure = id(error), report if self.recording else self._diagnose(loss)
            raise
        self._report(report)
        if self._passes >= MOST_PASSES:  # Without optimizers, no `step()` ends the recording.
            self._stop_recording()

    def _diagnose(self, loss: Sequence[Tensor]) -> Report:
        """Diagnose a loss; if leafgrad itself fails, warn and return an empty report."""
        try:
            trained = trained_by(loss, self.model, self.optimizers)
            self._flags = [(ref(one), one.requires_grad) for _, one in named_tensors(trained.model)]
            if self.recording is not None:
                self._note_idle(loss, trained)
            return diagnose(
                loss[0] if len(loss) == 1 else loss,
                trained.model,
                trained.optimizers,
                recording=self.recording,
                gradients=self.recording is not None,
            )
        except Exception as error:  # noqa: BLE001
            warnings.warn(message("debug.failed", error=repr(error)), stacklevel=2)
            return Report(())

    def _note_idle(self, loss: Sequence[Tensor], trained: Trained) -> None:
        """Remember which optimizers a loss reaches, and a diagnosis for each of the others."""
        self._reached.update(map(id, trained.optimizers))
        self._missed += (
            (one, diagnose(loss, trained.whole, one, recording=self.recording))
            for one in trained.idle
            if id(one) not in self._reached
        )

    def _report_idle(self, optimizer: Optimizer, missed: Sequence[Report]) -> None:
        """Report that an optimizer steps although no loss has reached its parameters.

        `missed` has a report for each loss since the last optimizer step that did not reach them.
        Nothing is shown unless there was exactly one.
        """
        gradients = [one.grad for one in parameters_of([optimizer]).values()]
        is_reached = id(optimizer) in self._reached or any(
            one is not None and bool(one.any()) for one in gradients
        )
        if len(missed) == 1 and not is_reached:
            self._report(Report(tuple(one for one in missed[0] if one.code in CODES)))

    # --- Reports

    def _explain(self, error: Exception, *, is_recorded: bool) -> None:
        """Attach a report to an error that leaves the block."""
        # Memory can run out in any line. And the line that started a process is not the cause of an
        # error inside the process.
        if isinstance(error, torch.OutOfMemoryError | ProcessRaisedException):
            return
        report = self._failure[1] if self._failure[0] == id(error) else NOTHING
        if all(one.severity is not Severity.ERROR for one in report):
            found = findings_of_error(error, self.model)
            report = Report((*found, *report))
        if not is_recorded:
            report = replace(report, help=message("debug.again", step=self.step))
        if not report.ok:
            self.reports.append(StepReport(self.step, report))
            error.add_note(f"\n{message('debug.found', step=self.step)}\n{report}")

    def _report(self, report: Report) -> None:
        """Show a report, if it has an error or a warning that was not shown before."""
        self.notes.update(dict.fromkeys(one for one in report if one.code in NOT_CLEAR))
        serious = {
            (one.code, one.primary.source if one.primary else one.subject)
            for one in report
            if one.severity is not Severity.NOTE
            and not (
                one.code == "nan-input"
                and one.primary is None
                and any(code.startswith("nan-") for code, _ in self._seen)
            )
        }
        if not serious <= self._seen:
            self._seen |= serious
            self.reports.append(StepReport(self.step, report))
            if not self.is_quiet:
                print(message("debug.found", step=self.step), file=sys.stderr)
                report.show(sys.stderr)


def _bad_gradients(model: Any, optimizer: Optimizer | None) -> Diagnosis:
    """Return a finding that names the parameters with a non-finite gradient."""
    named = named_gradients(model, optimizer)
    names = [name for name, one in named.items() if one is not None and not all_finite([one])]
    return Diagnosis(
        code="nan-gradient",
        severity=Severity.ERROR,
        headline=message("debug.gradients", names=list_names(names, [*named]), count=len(names)),
        subject=(*names,),
        help=(Help(text=message("debug.gradients-help")),),
    )


OWN = (f"{Path(__file__).parents[1]}{os.sep}", "<frozen runpy>")


def remove_own_frames(error: BaseException) -> None:
    """Remove the frames of leafgrad from the traceback of an error."""
    first = TracebackType(error.__traceback__, inspect.currentframe(), 0, 0)  # type: ignore[arg-type]
    last = first
    while (step := last.tb_next) is not None:
        if step.tb_frame.f_code.co_filename.startswith(OWN):
            last.tb_next = step.tb_next
        else:
            last = step
    error.__traceback__ = first.tb_next


@public_function()
def debug(
    model: Names = None,
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
    *,
    first: int = 1,
) -> AbstractContextManager[list[StepReport]]:
    """Watch a training step or a whole loop, and report what is wrong with it.

    Put the loop inside ``with debug():``. The first three steps are recorded, and `diagnose` checks
    each ``backward()`` in them. If a report contains an error or a warning, it is printed to
    standard error once. If the forward pass or ``backward()`` raises an error, the report appears
    in the traceback.

    Later steps are not recorded, but `debug` still checks the loss at each ``backward()`` and all
    gradients at each ``optimizer.step()``. If one of them stops being finite, `debug` reports it
    and records the next three steps.

    Args:
        model: The module to check, a mapping from name to tensor or module, or an optimizer. By
            default, `debug` checks the modules that the optimizers train.
        optimizer: The optimizer, or several. By default, `debug` finds all optimizers that exist in
            the process.
        first: The number of the first step to record. If a loss stopped being finite in step 812,
            run the program again with the same seed and ``first=812`` to see the line that caused
            it.

    Returns:
        A context manager. The value after ``as`` is a list, and `debug` appends a `StepReport` to
        it for each report.

    Example:
        >>> import torch, leafgrad
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> with leafgrad.debug(model, optimizer) as reports:
        ...     for _ in range(5):
        ...         optimizer.zero_grad()
        ...         model(torch.ones(3, 2)).square().mean().backward()
        ...         optimizer.step()
        >>> reports
        []

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `first` is below 1.

    Note:
        Recorded steps run differently from others. Functions compiled by `torch.compile` run
        uncompiled, because compiled code has no lines. `debug` waits for each operation on a GPU,
        and it runs a second backward pass, so hooks on the graph run once more.

        The checks of later steps are cheap: they made a training step 3 % longer for a small GPT
        and 5 % longer for a PINN (``benchmarks/debug_cost.py``). These checks do not wait for a
        GPU, so a report about values on a GPU appears about one step later.

        Only the thread that entered the block is watched.
    """
    if first < 1:
        raise ValueError(f"first must be 1 or more, not {first}")
    return Session(read_names(model), read_optimizers(optimizer), first)
