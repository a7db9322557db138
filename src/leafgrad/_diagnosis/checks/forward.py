"""Errors of a forward pass: the user's line, the module, what it got, and a fix."""

from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from leafgrad import _autograd
from leafgrad._diagnosis.build import as_code, diagnosis
from leafgrad._diagnosis.diagnosis import Diagnosis, Help, Severity, Span
from leafgrad._diagnosis.registry import check
from leafgrad._diagnosis.situation import Situation
from leafgrad._display.units import shape_text, torch_name
from leafgrad._graph.code_files import is_installed
from leafgrad._messages import code_of_error, message
from leafgrad._record.place import is_library_file, source_at

MOST_WORDS = 80
FEATURES = {"in_features": -1, "in_channels": 1, "num_features": 1, "input_size": -1}
"""The attributes of modules that say how long an axis of their input must be, and the axis."""


@check("forward-failed")
def find_failed_forward(situation: Situation) -> Iterator[Diagnosis]:
    """Find where a forward pass stopped, if its error was passed instead of a loss."""
    if isinstance(situation.loss, Exception):
        yield from findings_of_error(situation.loss, situation.names)


def findings_of_error(error: Exception, model: Any = None) -> tuple[Diagnosis, ...]:
    """Return a finding if PyTorch raised an error that has a code, or that a module ran into."""
    steps = [*_steps(error.__traceback__)]
    own = [step for step in steps if not is_installed(step.tb_frame.f_code.co_filename)]
    code = code_of_error(str(error))
    called = [one for step in steps if (one := _module_of(step)) is not None]
    if not own or not (code or called):
        return ()
    source = source_at((own[-1].tb_frame.f_code, own[-1].tb_lasti, None))
    text = str(error).strip().partition("\n")[0]
    found = diagnosis("forward-failed", Severity.ERROR, at=source, error=text.partition(". ")[0])
    if code not in {None, found.code}:
        primary = None if source is None else Span(source=source)
        found = replace(found, code=code or "", primary=primary)
    notes = (*_notes(called, model),) if called else ()
    advice = (*_help(code), *_features(called))
    return (replace(found, notes=notes, help=advice),)


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        if not is_library_file[traceback.tb_frame.f_code.co_filename] or _module_of(traceback):
            yield traceback
        traceback = traceback.tb_next


def _module_of(step: TracebackType) -> tuple[nn.Module, TracebackType] | None:
    """Return the module whose forward pass a frame runs, if any."""
    code = step.tb_frame.f_code
    first = step.tb_frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    is_forward = isinstance(first, nn.Module) and code.co_name == "forward"
    return (first, step) if isinstance(first, nn.Module) and is_forward else None


def _notes(called: list[tuple[nn.Module, TracebackType]], model: Any) -> Iterator[str]:
    """Yield the innermost module and the tensors that it got."""
    module, step = called[-1]
    root = model if isinstance(model, nn.Module) else called[0][0]
    path = next((path for path, one in root.named_modules() if one is module), "")
    kind = repr(module) if len(repr(module)) < MOST_WORDS else type(module).__name__
    yield message("forward-failed.module", module=as_code(path) or type(root).__name__, kind=kind)
    code = step.tb_frame.f_code
    with _autograd.unobserved():
        given = [
            f"`{name}` {shape_text(one.shape)} {torch_name(one.dtype)}"
            for name in code.co_varnames[1 : code.co_argcount]
            if isinstance(one := step.tb_frame.f_locals.get(name), Tensor)
        ]
    if given:
        yield message("forward-failed.input", arguments=", ".join(given))


def _help(code: str | None) -> Iterator[Help]:
    """Yield the advice of a code, if it needs no details that only a graph has."""
    try:
        yield Help(text=message(f"{code}.help"))
    except KeyError:
        return


def _features(called: list[tuple[nn.Module, TracebackType]]) -> Iterator[Help]:
    """Yield the advice for an input whose size is not what the innermost module was made for."""
    if not called:
        return
    module, step = called[-1]
    names = step.tb_frame.f_code.co_varnames[1:2]
    given = [step.tb_frame.f_locals.get(name) for name in names]
    with _autograd.unobserved():
        sizes = next((one.shape for one in given if isinstance(one, Tensor)), ())
    is_batch = len(sizes) == 2 + len(getattr(module, "kernel_size", sizes[2:]))
    for name, axis in FEATURES.items():
        wanted = getattr(module, name, None)
        if isinstance(wanted, int) and len(sizes) > 1 and is_batch and sizes[axis] != wanted:
            slots = {"attribute": name, "wanted": wanted, "got": sizes[axis]}
            yield Help(text=message("forward-failed.features", **slots))
