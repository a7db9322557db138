"""What `debug` does from step to step: record, report, let go, and notice what goes wrong later."""

import functools
import os
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple
from weakref import WeakSet, ref

import torch
from torch import Tensor
from torch.multiprocessing.spawn import ProcessRaisedException
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from leafgrad import _autograd
from leafgrad._arguments.names import named_tensors
from leafgrad._debug.errors import remove_own_frames
from leafgrad._debug.finite_check import FiniteCheck, all_finite
from leafgrad._debug.training_objects import Trained, finite_gradients, trained_by
from leafgrad._diagnosis.checks.forward import findings_of_error
from leafgrad._diagnosis.checks.gradient import CODES
from leafgrad._diagnosis.diagnose import diagnose
from leafgrad._diagnosis.diagnosis import Diagnosis, Help, Severity, list_names
from leafgrad._diagnosis.report import Report
from leafgrad._diagnosis.situation import parameters_of
from leafgrad._messages import message
from leafgrad._record.record import Recording, record

STEPS = 3
"""How many steps are recorded; the third shows what the first two left behind."""
MOST_PASSES = 12
"""How many backward passes are diagnosed at most; a program without optimizers has no steps."""
MOST_RECORDINGS = 5
"""How often a recording starts again at most."""


NOTHING = Report(())
NOT_CLEAR = {"eval-mode", "frozen", "gradients-not-checked", "not-in-optimizer", "unregistered"}
"""The codes whose notes say what is not trained, or was not checked."""
PLAIN = {"retain_graph", "create_graph"}
"""The arguments of a backward pass from a loss; others start elsewhere, or fill chosen leaves."""


class StepReport(NamedTuple):
    """A report on one step.

    Attributes:
        step: The number of the step, from 1.
        report: What `diagnose` found in it.
    """

    step: int
    report: Report


class Session:
    """Watches the training loop of one thread between `__enter__` and `__exit__`.

    Attributes:
        reports: What was reported so far.
        step: The number of the running step; a step ends when an optimizer has stepped.
        backward_count: How many backward passes began.
        notes: What belongs to the answer that there are no problems.
    """

    def __init__(
        self,
        model: Any = None,
        optimizers: Iterable[Optimizer] = (),
        first: int = 1,
        *,
        is_quiet: bool = False,
    ) -> None:
        """Prepare to record from step `first` on."""
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
        """Begin; return the list that reports will be added to."""
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
        _sessions.add(self)
        return self.reports

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        """End, and explain an error that leaves the block."""
        is_recorded = self.recording is not None
        self.close()
        for optimizer, missed in self._first_missed.items() if error is None else ():
            self._report_idle(optimizer, missed)
        if isinstance(error, Exception):
            self._explain(error, is_recorded=is_recorded)
            remove_own_frames(error)

    def close(self) -> None:
        """Stop to watch, also in a process that was forked."""
        self.thread = None
        self._exits.close()
        self._stop_recording()

    # --- Recording

    def _start_recording(self) -> None:
        """Record from here on, unless a mode of the user's is active that must end first."""
        if self.recording is None and _autograd.function_mode_stack() == self._modes:
            self.recording = self._recorder.enter_context(record(values=True))
            self._started_at, self._passes = self.step, 0
            self._recordings += 1
            self._recorder_modes = _autograd.function_mode_stack()

    def _stop_recording(self) -> None:
        """Let go, unless a mode of the user's is active inside of the recorder's."""
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
            if all_finite(parameters_of([optimizer]).values()):  # otherwise all is lost
                self._start_recording()
        elif self.step >= self.first and (not self._recordings or is_new):
            self._start_recording()  # also if another part of the training begins

    def _note_not_finite(self, loss: Any = None, optimizer: Optimizer | None = None) -> None:
        """Report a loss or gradients that stopped being finite, and record the next steps."""
        if not self._was_finite or self._recordings > MOST_RECORDINGS:
            return
        self._was_finite = False
        self._wants_recording = True
        found = () if loss is None else self._diagnose(loss).diagnoses
        if not found:
            found = (_bad_gradients(finite_gradients(self.model, optimizer)),)
        self._report(Report(found, help=message("debug.again", step=self.step)))

    # --- Backward passes

    @contextmanager
    def _watched(self, owner: Any) -> Iterator[None]:
        """Replace a function that runs a backward pass, unless it was replaced again since."""
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
        elif self.recording is None and self._has_new_flags():
            self._flags, self._wants_recording = [], self._recordings <= MOST_RECORDINGS
        try:
            yield
        except Exception as error:
            # The error itself is not kept: it holds the variables of all functions it came through.
            self._failure = id(error), report if self.recording else self._diagnose(loss)
            raise
        self._report(report)
        if self._passes >= MOST_PASSES:  # without optimizers, no step ends the recording
            self._stop_recording()

    def _has_new_flags(self) -> bool:
        """Return whether a tensor that was diagnosed has been frozen or unfrozen since."""
        pairs = ((get(), flag) for get, flag in self._flags)
        return any(one is not None and one.requires_grad is not flag for one, flag in pairs)

    def _diagnose(self, loss: Sequence[Tensor]) -> Report:
        """Return what is wrong; what is wrong in leafgrad itself must not stop the training."""
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
        """Note which optimizers a loss reaches, and why it does not reach the others."""
        self._reached.update(map(id, trained.optimizers))
        self._missed += (
            (one, diagnose(loss, trained.whole, one, recording=self.recording))
            for one in trained.idle
            if id(one) not in self._reached
        )

    def _report_idle(self, optimizer: Optimizer, missed: Sequence[Report]) -> None:
        """Report a second step of an optimizer that no loss has reached.

        It is about the one loss that was differentiated since the last step of any optimizer.
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
        # The report must not call the line that started a process the cause of its error.
        if isinstance(error, torch.OutOfMemoryError | ProcessRaisedException):
            return
        identity, report = self._failure
        report = report if identity == id(error) else NOTHING
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


def _bad_gradients(is_finite: Mapping[str, bool]) -> Diagnosis:
    """Return the finding about gradients whose graph is gone."""
    names = [name for name, is_fine in is_finite.items() if not is_fine]
    words = list_names(names, [*is_finite])
    return Diagnosis(
        code="nan-gradient",
        severity=Severity.ERROR,
        headline=message("debug.gradients", names=words, count=len(names)),
        subject=(*names,),
        help=(Help(text=message("debug.gradients-help")),),
    )


_sessions: WeakSet[Session] = WeakSet()


def _close_all() -> None:
    for session in [*_sessions]:
        session.close()


if hasattr(os, "register_at_fork"):  # workers of a DataLoader only load data
    os.register_at_fork(after_in_child=_close_all)
