"""What the document that is being read has executed and not shown yet, in its own order."""

from collections import defaultdict, deque
from typing import Any

from nbformat import NotebookNode
from sphinx.environment import BuildEnvironment

from leafgrad.claims._notebook import nested_cells
from leafgrad.claims._page import Inline
from leafgrad.claims._verdict import PageVerdict

_KEY = "leafgrad.claims"
_CELL = "code-cell"


def note_pending(env: BuildEnvironment, verdict: PageVerdict, notebook: NotebookNode) -> None:
    """Note the nested cells and inline expressions of the document that is being read."""
    pending: defaultdict[tuple[str, str], deque[Any]] = defaultdict(deque)
    for index, source in nested_cells(notebook):
        pending[_CELL, source].append(index)
    for step, record in verdict.executed:
        if isinstance(step, Inline):
            pending[step.role, step.source].append(record)
    env.current_document[_KEY] = pending


def take_pending(env: BuildEnvironment, kind: str, source: str) -> Any:
    """Return the next notebook index (of a cell) or record (of an expression); None if no more."""
    pending: dict[tuple[str, str], deque[Any]] = env.current_document.get(_KEY) or {}
    waiting = pending.get((kind, source))
    return waiting.popleft() if waiting else None
