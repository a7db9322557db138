"""Find optimizers and modes that do not fit the model, and training steps in the wrong order."""

import ast
import sys
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn import Parameter
from torch.optim import Optimizer

from leafgrad import _autograd
from leafgrad._diagnosis.checks.gradient.cause import find_new_parameter, write_into_parameter
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity, diagnosis, spans
from leafgrad._diagnosis.edits import (
    call_at,
    function_around,
    insert,
    marked,
    move,
    move_above_forward,
    parse,
)
from leafgrad._diagnosis.situation import Situation, check, living, number_of, parameters_of
from leafgrad._graph.nodes import Source
from leafgrad._messages import message
from leafgrad._record.module_paths import join
from leafgrad._record.tape import Call


@check("eval-mode")
def find_evaluation_mode(situation: Situation) -> Iterator[Diagnosis]:
    """Find models that are trained in evaluation mode.

    An RNN of cuDNN in this mode saves nothing for the backward pass, which then fails.
    """
    unsaved = [node for node in situation.live if _is_rnn_in_evaluation(node)]
    situation.failing.update(map(number_of, unsaved))
    reached = {id(leaf) for leaf in map(_autograd.leaf_variable, situation.live)}
    trained = reached & situation.optimized
    idle = {
        name or "model": root
        for name, root in situation.modules.items()
        if not any(one.training for one in root.modules())
        if any(map(_acts_in_training, root.modules()))
        if any(id(one) in trained for one in root.parameters())
    }
    inner = [one for root in idle.values() for one in root.modules()]
    is_untrained = any(map(_has_no_statistics, inner))
    if unsaved:
        at = situation.source_of(unsaved[0])
        yield diagnosis("eval-mode", Severity.ERROR, at=at, variant="cudnn")
    elif idle:
        severity = Severity.WARNING if is_untrained else Severity.NOTE
        variant = "untrained" if is_untrained else ""
        yield diagnosis("eval-mode", severity, subject=[*idle], variant=variant)


def _is_rnn_in_evaluation(node: Any) -> bool:
    """Return whether a node is an RNN that cuDNN ran in evaluation mode."""
    is_rnn = _autograd.node_name(node).startswith("CudnnRnnBackward")
    return is_rnn and not _autograd.kept(node, "train")


def _acts_in_training(module: nn.Module) -> bool:
    """Return whether a module computes something different in training mode."""
    is_dropping = isinstance(module, _DROPOUTS) and module.p > 0
    return is_dropping or (isinstance(module, _BATCH_NORMS) and module.track_running_stats)


def _has_no_statistics(module: nn.Module) -> bool:
    """Return whether a batch normalisation has no running statistics yet."""
    return isinstance(module, _BATCH_NORMS) and bool(module.num_batches_tracked == 0)


_DROPOUTS = nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout
_BATCH_NORMS = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm


@check("not-in-optimizer", "idle-in-optimizer")
def find_parameters_of_another_model(situation: Situation) -> Iterator[Diagnosis]:
    """Find parameters that no optimizer holds, and tensors that only an optimizer holds."""
    held = situation.optimized
    if not held:
        return
    named = {id(one): name for name, one in situation.parameters.items()}
    reached = {id(leaf) for leaf in map(_autograd.leaf_variable, situation.live)}
    left_out = [one for one in named if one in reached and one not in held]
    held_elsewhere = {*parameters_of(living(Optimizer))} if left_out else held
    missing = [named[one] for one in left_out if one not in held_elsewhere]
    foreign = [one for one in held if one not in named and one not in reached]
    at, *others = _lines_that_create(situation) if missing or foreign else [None]
    if missing:
        replacing = _line_that_replaces(situation, missing)
        edits = move_above_forward(at, situation.log.sources()) if foreign else ()
        yield diagnosis(
            "not-in-optimizer",
            Severity.ERROR if foreign else _severity(situation, reached, missing),
            subject=missing,
            at=replacing or at,
            variant="replaced" if replacing else "" if foreign else "left-out",
            secondary=() if replacing else spans("not-in-optimizer.made", *others),
            notes=[message("not-in-optimizer.foreign", count=len(foreign))] if foreign else [],
            edits=write_into_parameter(replacing) if replacing else edits,
        )
    elif foreign and any(_is_held_by_optimizer_only(situation, one) for one in foreign):
        yield diagnosis(
            "idle-in-optimizer",
            Severity.WARNING,
            at=at,
            count=len(foreign),
            edits=move_above_forward(at, situation.log.sources()),
        )


def _severity(situation: Situation, reached: set[int], missing: list[str]) -> Severity:
    """Return how serious it is that no optimizer holds some parameters.

    It is normal for a network in evaluation mode, or if the optimizer changes the network's input.
    """
    held = parameters_of(situation.optimizers)
    names = [name for name, one in situation.parameters.items() if id(one) in held]
    modules = {name.rpartition(".")[0] for name in missing}
    if any(name.startswith(f"{module}." if module else "") for module in modules for name in names):
        return Severity.WARNING
    if not any(_autograd.plain(one, "requires_grad") for one in held.values()):
        return Severity.WARNING
    trains = any(key in reached and isinstance(one, Parameter) for key, one in held.items())
    for name, root in situation.modules.items():
        for path, module in root.named_modules() if trains else ():
            if module.training and join(name, path) in modules:
                return Severity.WARNING
    return Severity.NOTE


def _is_held_by_optimizer_only(situation: Situation, identity: int) -> bool:
    """Return whether only an optimizer refers to a tensor, by its reference count."""
    for optimizer in situation.optimizers:
        for params in (group["params"] for group in optimizer.param_groups):
            for place in range(len(params)):
                if id(params[place]) == identity:
                    expected = _LIST_AND_ARGUMENT + (params[place] in optimizer.state)
                    return sys.getrefcount(params[place]) <= expected
    return False


_LIST_AND_ARGUMENT = 2
"""What `sys.getrefcount` returns for an object that one list refers to."""


def _line_that_replaces(situation: Situation, names: list[str]) -> Source | None:
    """Return the call that created a new parameter after the first backward pass, or None.

    `names` are the parameters that are not in the optimizer. The call must have created one of
    them.
    """
    log = situation.log
    first = min((one.number for one in log.backwards.values()), default=None)
    values = {log.tape.value_of(situation.parameters[name]) for name in names}
    for call in log.tape.calls:
        is_late = call.name == "Parameter" and first is not None and call.start >= first
        if is_late and not values.isdisjoint(call.outputs):
            made = find_new_parameter(log.source_at(call.place))
            return None if made is None else made[0]
    return None


def _lines_that_create(situation: Situation) -> list[Source | None]:
    """Return the calls that create the optimizers.

    Return ``[None]`` if the recorded files do not have exactly one such call for each optimizer.
    """
    kinds = {type(one).__name__ for one in situation.optimizers}
    sources = {(one.file, one.function): one for one in situation.log.sources()}.values()
    for find_scope in (function_around, lambda source: parse(source.file)):
        scopes = {scope: source for source in sources if (scope := find_scope(source))}
        calls = {
            (source.file, node.lineno, node.col_offset): marked(source, node)
            for scope, source in scopes.items()
            for node in ast.walk(scope)
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in kinds
        }
        if len(calls) == len(situation.optimizers):
            return [*calls.values()]
    return [None]


@check("zero-learning-rate")
def find_zero_learning_rates(situation: Situation) -> Iterator[Diagnosis]:
    """Find parameter groups with learning rate 0, unless a scheduler set it."""
    for optimizer in situation.optimizers:
        idle = [group for group in optimizer.param_groups if _is_without_rate(group)]
        if idle:
            names = {id(one): name for name, one in situation.named.items()}
            held = [id(one) for group in idle for one in group["params"]]
            is_all, at = len(idle) == len(optimizer.param_groups), _lines_that_create(situation)[0]
            yield diagnosis(
                "zero-learning-rate",
                Severity.WARNING if is_all else Severity.NOTE,
                subject=[names[one] for one in held if one in names],
                at=at,
            )


def _is_without_rate(group: dict[str, Any]) -> bool:
    """Return whether a parameter group is trained with a learning rate that is always 0."""
    is_trained = any(_autograd.plain(one, "requires_grad") for one in group["params"])
    rate, initial = group.get("lr"), group.get("initial_lr")
    return is_trained and rate is not None and float(rate) == 0.0 and not initial


@check("zero-grad-misplaced", "missing-zero-grad")
def find_stale_gradients(situation: Situation) -> Iterator[Diagnosis]:
    """Find optimizer steps whose gradients were cleared, or include those of an earlier step.

    In the first case, `zero_grad()` ran between the backward pass and the optimizer step. In the
    second, it did not run after the earlier step.
    """
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
    """Return the edit that inserts ``optimizer.zero_grad()`` below ``optimizer.step()``."""
    match call_at(step):
        case ast.Call(func=ast.Attribute(value=receiver, attr="step"), args=args) if step:
            # In `scaler.step(optimizer)`, the optimizer is the argument.
            optimizer = ast.unparse([*args, receiver][0])
            return insert(step, [f"{optimizer}.zero_grad()"], below=True)
    return ()


@check("rounded-away")
def find_updates_rounded_away(situation: Situation) -> Iterator[Diagnosis]:
    """Find optimizer steps whose updates are too small to change half-precision parameters."""
    place, share = situation.log.training.rounded or (None, None)
    if share is not None:
        at = situation.log.source_at(place)
        yield diagnosis("rounded-away", Severity.WARNING, at=at, percent=f"{share:.0%}")


@check("clip-before-unscale")
def find_clipping_of_scaled_gradients(situation: Situation) -> Iterator[Diagnosis]:
    """Find gradients that were clipped before `GradScaler` divided them by its scale."""
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
    """Find gradients that were clipped after the optimizer step that used them."""
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
    """Return whether a recorded call writes to a tensor that an optimizer step read."""
    return any(one.value in step.inputs for one in write.writes)


def _is_clipping(at: Source | None) -> bool:
    """Return whether the line at `at` calls a function that clips gradients."""
    call = call_at(at)
    return call is not None and "clip_grad" in ast.unparse(call.func)


def _unscale_above(clip: Source, step: Source | None) -> tuple[Edit, ...]:
    """Return the edit that inserts ``scaler.unscale_(optimizer)`` above the clipping."""
    match call_at(step):
        case ast.Call(func=ast.Attribute(value=scaler), args=[optimizer, *_]):
            return insert(clip, [f"{ast.unparse(scaler)}.unscale_({ast.unparse(optimizer)})"])
    return ()
