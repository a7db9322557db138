"""A fence of code: executed as examples or by choice, or shown."""

import re
from collections.abc import Iterator

from sphinx_claims._page import Cell, Doctest, Escape, Problem
from sphinx_claims._reading.bodies import PYTHON

NOT_EXECUTED = "this Python is not executed: use {code-cell}, or {unproven} with a reason"
_PROMPT = re.compile(r"^[ \t]*>>>(?= |$)", re.MULTILINE)


def has_examples(source: str) -> bool:
    """Return whether `source` holds `>>>` examples."""
    return _PROMPT.search(source) is not None


def read_fence(
    source: str, info: str, fence: int, line: int, python_fences: str
) -> Iterator[Cell | Doctest | Escape | Problem]:
    """Yield what a block of code from `line` on executes: `>>>` examples, or Python by choice."""
    language = info.partition(" ")[0].strip("{}.").lower()
    is_python = language in PYTHON
    if has_examples(source) and (is_python or not language):
        yield Doctest(line=line, source=source)
    elif not source.strip():
        return
    elif is_python and python_fences == "execute":
        yield Cell(line=line, fence=fence, source=source)
    elif is_python and python_fences == "refuse":
        yield Problem(fence, NOT_EXECUTED)
    elif is_python:
        yield Escape(line=fence, because="")
