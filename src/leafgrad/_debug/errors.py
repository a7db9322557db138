"""What an error that left a training loop says: the user's line, the module and a fix."""

import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from leafgrad import _autograd
from leafgrad._diagnosis.diagnosis import Diagnosis, Help, Severity, Span
from leafgrad._display.units import shape_text, torch_name
from leafgrad._graph.code_files import is_installed
from leafgrad._messages import code_of_error, message
from leafgrad._record.place import is_library_file, source_at

MOST_WORDS = 80
OWN = (f"{Path(__file__).parents[1]}{os.sep}", "<frozen runpy>")


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
    return (
        Diagnosis(
            code=code or "forward-failed",
            severity=Severity.ERROR,
            headline=text.partition(". ")[0],
            primary=None if source is None else Span(source=source),
            notes=(*_notes(called, model),) if called else (),
            help=(*_help(code),),
        ),
    )


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
    yield message("debug.in-module", module=path or type(root).__name__, kind=kind)
    code = step.tb_frame.f_code
    with _autograd.unobserved():
        given = [
            f"`{name}` {shape_text(one.shape)} {torch_name(one.dtype)}"
            for name in code.co_varnames[1 : code.co_argcount]
            if isinstance(one := step.tb_frame.f_locals.get(name), Tensor)
        ]
    if given:
        yield message("debug.arguments", arguments=", ".join(given))


def remove_own_frames(error: BaseException) -> None:
    """Remove the functions of leafgrad from a traceback, which say nothing about the program."""
    first = TracebackType(error.__traceback__, inspect.currentframe(), 0, 0)  # type: ignore[arg-type]
    last = first
    while (step := last.tb_next) is not None:
        if step.tb_frame.f_code.co_filename.startswith(OWN):
            last.tb_next = step.tb_next
        else:
            last = step
    error.__traceback__ = first.tb_next


def _help(code: str | None) -> Iterator[Help]:
    """Yield the advice of a code, if it needs no details that only a graph has."""
    try:
        yield Help(text=message(f"{code}.help"))
    except KeyError:
        return
