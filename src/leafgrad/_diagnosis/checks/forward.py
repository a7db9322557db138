"""Errors of a forward pass: the user's line, the module, its inputs, and a fix."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from leafgrad import _autograd
from leafgrad._diagnosis.diagnosis import Diagnosis, Help, Severity, Span, as_code, diagnosis
from leafgrad._diagnosis.situation import Situation, check
from leafgrad._display.units import shape_text, torch_name
from leafgrad._graph.code_files import is_installed
from leafgrad._messages import code_of_error, message
from leafgrad._record.place import is_library_file, source_at

MOST_WORDS = 80
FEATURES = {"in_features": -1, "in_channels": 1, "num_features": 1, "input_size": -1}
"""Attributes of modules that fix the size of an input axis, and the number of that axis."""


@check("forward-failed")
def find_failed_forward(situation: Situation) -> Iterator[Diagnosis]:
    """Find the line at which the forward pass failed, if an exception was passed as the loss."""
    if isinstance(situation.loss, Exception):
        yield from findings_of_error(situation.loss, situation.names)


def findings_of_error(error: Exception, model: Any = None) -> tuple[Diagnosis, ...]:
    """Return a finding about an exception that the forward pass raised, in a tuple.

    The tuple is empty if no message file describes the exception and no module raised it.
    """
    steps = [*_steps(error.__traceback__)]
    own = [step for step in steps if not is_installed(step.tb_frame.f_code.co_filename)]
    code = code_of_error(str(error))
    called = [(one, step) for step in steps if (one := _module_of(step)) is not None]
    if not own or not (code or called):
        return ()
    source = source_at((own[-1].tb_frame.f_code, own[-1].tb_lasti, None))
    text = str(error).strip().partition("\n")[0]
    found = diagnosis("forward-failed", Severity.ERROR, at=source, error=text.partition(". ")[0])
    if code not in {None, found.code}:
        primary = None if source is None else Span(source=source)
        found = replace(found, code=code or "", primary=primary)
    notes: list[str] = []
    advice: list[Help] = []
    # The error may have no help, or its text may have placeholders that only a graph can fill.
    with suppress(KeyError):
        advice.append(Help(text=message(f"{code}.help")))
    if called:
        module, step = called[-1]
        given = _tensor_arguments(step)
        notes += _notes(module, model if isinstance(model, nn.Module) else called[0][0], given)
        advice += _features(module, given)
    return (replace(found, notes=(*notes,), help=(*advice,)),)


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """Yield the frames of a traceback that are the user's or run a module's forward pass."""
    while traceback is not None:
        if not is_library_file[traceback.tb_frame.f_code.co_filename] or _module_of(traceback):
            yield traceback
        traceback = traceback.tb_next


def _module_of(step: TracebackType) -> nn.Module | None:
    """Return the module whose ``forward`` a frame runs; None for other functions."""
    code = step.tb_frame.f_code
    first = step.tb_frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    return first if isinstance(first, nn.Module) and code.co_name == "forward" else None


def _tensor_arguments(step: TracebackType) -> dict[str, Tensor]:
    """Return the tensors passed to the function of a frame, by parameter name."""
    code, values = step.tb_frame.f_code, step.tb_frame.f_locals
    names = code.co_varnames[1 : code.co_argcount]
    return {name: one for name in names if isinstance(one := values.get(name), Tensor)}


def _notes(module: nn.Module, root: nn.Module, given: dict[str, Tensor]) -> Iterator[str]:
    """Yield notes about the module that failed: its path and its input tensors.

    `given` contains these tensors, by parameter name.
    """
    path = next((path for path, one in root.named_modules() if one is module), "")
    kind = repr(module) if len(repr(module)) < MOST_WORDS else type(module).__name__
    yield message("forward-failed.module", module=as_code(path) or type(root).__name__, kind=kind)
    with _autograd.unobserved():
        texts = [
            f"`{name}` {shape_text(one.shape)} {torch_name(one.dtype)}"
            for name, one in given.items()
        ]
    if texts:
        yield message("forward-failed.input", arguments=", ".join(texts))


def _features(module: nn.Module, given: dict[str, Tensor]) -> Iterator[Help]:
    """Yield a help if the size of an input does not match ``in_features`` or the like.

    `given` contains the input tensors, by parameter name.
    """
    with _autograd.unobserved():
        sizes: Sequence[int] = next((one.shape for one in given.values()), ())
    is_batch = len(sizes) == 2 + len(getattr(module, "kernel_size", sizes[2:]))
    for name, axis in FEATURES.items():
        wanted = getattr(module, name, None)
        if isinstance(wanted, int) and len(sizes) > 1 and is_batch and sizes[axis] != wanted:
            slots = {"attribute": name, "wanted": wanted, "got": sizes[axis]}
            yield Help(text=message("forward-failed.features", **slots))
