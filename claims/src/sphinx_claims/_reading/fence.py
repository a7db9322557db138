"""A fence of code: executed as examples or by choice, or shown."""

import doctest
import re
from collections.abc import Iterator

from sphinx_claims._page import Cell, Doctest, Escape, Problem
from sphinx_claims._reading.bodies import PYTHON

NOT_EXECUTED = "this Python is not executed: use {code-cell}, or {unproven} with a reason"
_PROMPT = re.compile(r"^[ \t]*>>>(?= |$)", re.MULTILINE)


def has_examples(source: str) -> bool:
    """Return whether `source` holds `>>>` examples."""
    return _PROMPT.search(source) is not None


def read_examples(step: Doctest, python_fences: str) -> Iterator[Doctest | Escape | Problem]:
    """Yield examples, and those among them that ask to be skipped."""
    yield step
    try:
        examples = step.examples()
    except ValueError:  # reported where they are executed
        return
    for line, example in examples:
        if example.options.get(doctest.SKIP):
            is_refused = python_fences == "refuse"
            yield Problem(line, NOT_EXECUTED) if is_refused else Escape(line=line, because="")


def read_fence(
    source: str, info: str, fence: int, line: int, python_fences: str
) -> Iterator[Cell | Doctest | Escape | Problem]:
    """Yield what a block of code from `line` on executes: `>>>` examples, or Python by choice."""
    language = info.partition(" ")[0].strip("{}.").lower()
    is_python = language in PYTHON
    if has_examples(source) and (is_python or not language):
        yield from read_examples(Doctest(line=line, source=source), python_fences)
    elif not source.strip():
        return
    elif is_python and python_fences == "execute":
        yield Cell(line=line, fence=fence, source=source)
    elif is_python and python_fences == "refuse":
        yield Problem(fence, NOT_EXECUTED)
    elif is_python:
        yield Escape(line=fence, because="")
