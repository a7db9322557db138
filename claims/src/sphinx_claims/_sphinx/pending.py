"""What the document that is being read has executed and not shown yet, in its own order."""

from collections import defaultdict, deque
from typing import Any

from nbformat import NotebookNode
from sphinx.environment import BuildEnvironment

from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._page import Inline
from sphinx_claims._sphinx.notebook import nested_cells

_KEY = "sphinx_claims"
_CELL = "code-cell"
CLAIM = "claim directive"
"""Beside the role `claim`, of which a page has its own."""

ESCAPE = "unproven"


def note_pending(env: BuildEnvironment, verdict: PageVerdict, notebook: NotebookNode) -> None:
    """Note the nested cells, expressions, claims and escapes of the document that is being read."""
    pending: defaultdict[tuple[str, str], deque[Any]] = defaultdict(deque)
    for index, source in nested_cells(notebook):
        pending[_CELL, source].append(index)
    for step, record in verdict.executed:
        if isinstance(step, Inline):
            pending[step.role, step.source].append(record)
    for claim in verdict.page.claims:
        pending[CLAIM, claim.id].append(claim)
    for escape in verdict.page.escapes:
        pending[ESCAPE, escape.because].append(escape)
    env.current_document[_KEY] = pending


def take_pending(env: BuildEnvironment, kind: str, source: str) -> Any:
    """Return the next index (of a cell), record (of an expression), claim or escape, if any."""
    pending: dict[tuple[str, str], deque[Any]] = env.current_document.get(_KEY) or {}
    waiting = pending.get((kind, source))
    return waiting.popleft() if waiting else None
