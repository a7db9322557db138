"""Read a fence of code, which is executed or only shown.

It is executed if it contains `>>>` examples, or if `python_fences` says so.
"""

import difflib
import doctest
import re
from collections.abc import Iterator

from sphinx_claims._page import Cell, Doctest, Escape, Problem

PLAIN = frozenset(
    "autosummary bibliography claims-ledger contents csv-table d2 digraph eval-rst graph graphviz"
    " highlight inheritance-diagram math mermaid meta parsed-literal plantuml productionlist raw"
    " raw-cell role tabularcolumns toctree uml".split()
)
"""Directives whose body is neither Markdown nor executed."""

CODE = frozenset({"code", "code-block", "sourcecode"})
PYTHON = frozenset(
    "python python2 python3 py py2 py3 pycon pycon3 python-console python-repl ipython ipython2"
    " ipython3 ipythonconsole".split()
)
"""The languages of fences that contain Python."""

_OWN = {"codecell": "code-cell", "claim": "claim", "unproven": "unproven"}


def directive_meant_by(name: str) -> str | None:
    """Return the directive of this extension that `name` may be a misspelling of, or None."""
    plain = "".join(filter(str.isalnum, name.lower()))
    close = difflib.get_close_matches(plain, _OWN, n=1, cutoff=0.8)
    return _OWN[close[0]] if close else None


NOT_EXECUTED = "this Python is not executed: use {code-cell}, or {unproven} with a reason"
_PROMPT = re.compile(r"^[ \t]*>>>(?= |$)", re.MULTILINE)


def has_examples(source: str) -> bool:
    """Return whether `source` contains `>>>` examples."""
    return _PROMPT.search(source) is not None


def read_examples(step: Doctest, python_fences: str) -> Iterator[Doctest | Escape | Problem]:
    """Yield `step`, and an `Escape` or a problem for each of its examples with the flag SKIP.

    An `Escape` is code that is shown but not executed.
    """
    yield step
    try:
        examples = step.examples()
    except ValueError:  # The execution reports malformed examples.
        return
    for line, example in examples:
        if example.options.get(doctest.SKIP):
            is_refused = python_fences == "refuse"
            yield Problem(line, NOT_EXECUTED) if is_refused else Escape(line=line, because="")


def read_fence(
    source: str, info: str, fence: int, line: int, python_fences: str
) -> Iterator[Cell | Doctest | Escape | Problem]:
    """Yield what a block of code contains: examples, a cell, an `Escape` or a problem.

    An `Escape` is code that is not executed. The block begins on `line`, and its fence on line
    `fence`. `info` is the text after the fence, such as ``python``. `python_fences` says how to
    treat plain Python (see `Config`).
    """
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
