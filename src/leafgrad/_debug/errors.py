"""Tracebacks that show the program, without the functions of leafgrad."""

import inspect
import os
from pathlib import Path
from types import TracebackType

OWN = (f"{Path(__file__).parents[1]}{os.sep}", "<frozen runpy>")


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
