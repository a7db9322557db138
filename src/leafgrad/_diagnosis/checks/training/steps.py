"""Steps of the training loop in the wrong order."""

import ast
from collections.abc import Iterator

from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity, diagnosis, spans
from leafgrad._diagnosis.edits import call_at, insert, move
from leafgrad._diagnosis.situation import Situation, check
from leafgrad._graph.nodes import Source
from leafgrad._record.tape import Call


@check("zero-grad-misplaced", "missing-zero-grad")
def find_gradients_of_other_steps(situation: Situation) -> Iterator[Diagnosis]:
    """Find steps without gradients, and steps with gradients that took part in an earlier one."""
    log, events = situation.log, situation.log.training
    if events.emptied is not None:
        step, zero = map(log.source_at, events.emptied[:2])
        yield diagnosis(
            "zero-grad-misplaced",
            Severity.ERROR,
            at=zero,
            secondary=spans("zero-grad-misplaced.step", step),
            edits=move(zero, step, below=True),
        )
    if events.accumulated is not None:
        step, backward = map(log.source_at, events.accumulated[:2])
        yield diagnosis(
            "missing-zero-grad",
            Severity.WARNING,
            at=backward,
            secondary=spans("missing-zero-grad.step", step),
            edits=() if events.accumulated.in_closure else _zero_grad_below(step),
        )


def _zero_grad_below(step: Source | None) -> tuple[Edit, ...]:
    """Insert ``optimizer.zero_grad()`` below ``optimizer.step()``."""
    match call_at(step):
        case ast.Call(func=ast.Attribute(value=receiver, attr="step"), args=args) if step:
            optimizer = ast.unparse([*args, receiver][0])  # scaler.step(optimizer)
            return insert(step, [f"{optimizer}.zero_grad()"], below=True)
    return ()


@check("rounded-away")
def find_updates_rounded_away(situation: Situation) -> Iterator[Diagnosis]:
    """Find steps whose updates are too small for parameters in half precision."""
    place, share = situation.log.training.rounded or (None, None)
    if share is not None:
        at = situation.log.source_at(place)
        yield diagnosis("rounded-away", Severity.WARNING, at=at, percent=f"{share:.0%}")


@check("clip-before-unscale")
def find_clipping_of_scaled_gradients(situation: Situation) -> Iterator[Diagnosis]:
    """Find gradients that were clipped before a `GradScaler` divided them by its scale."""
    place, clip = situation.log.training.unscaled or (None, None)
    unscale = situation.log.source_at(place)
    if clip is not None and _is_clipping(clip):
        yield diagnosis(
            "clip-before-unscale",
            Severity.WARNING,
            at=clip,
            secondary=spans("clip-before-unscale.unscale", unscale),
            edits=_unscale_above(clip, unscale),
        )


@check("clip-after-step")
def find_clipping_after_the_step(situation: Situation) -> Iterator[Diagnosis]:
    """Find gradients that were clipped when a step had used them, and were not used again."""
    log = situation.log
    steps: list[Call] = []
    clips: list[tuple[Call, Call]] = []
    late: list[tuple[Call, Call]] = []
    for call in log.tape.calls:
        if call.name == "backward":
            late, steps, clips = [*late, *clips], [], []
        elif call.name == "step":
            steps.append(call)
            clips = [one for one in clips if not _changes_input(one[1], call)]
        elif steps and call.writes and _is_clipping(log.source_at(call.place)):
            clips += [(one, call) for one in steps if _changes_input(call, one)]
    for step, clip in [*late, *clips][:1]:
        at, before = log.source_at(clip.place), log.source_at(step.place)
        yield diagnosis(
            "clip-after-step",
            Severity.WARNING,
            at=at,
            secondary=spans("clip-after-step.step", before),
            edits=move(at, before, below=False),
        )


def _changes_input(write: Call, step: Call) -> bool:
    return any(one.value in step.inputs for one in write.writes)


def _is_clipping(at: Source | None) -> bool:
    call = call_at(at)
    return call is not None and "clip_grad" in ast.unparse(call.func)


def _unscale_above(clip: Source, step: Source | None) -> tuple[Edit, ...]:
    match call_at(step):
        case ast.Call(func=ast.Attribute(value=scaler), args=[optimizer, *_]):
            return insert(clip, [f"{ast.unparse(scaler)}.unscale_({ast.unparse(optimizer)})"])
    return ()
