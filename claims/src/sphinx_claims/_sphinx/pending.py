"""What the document that is being read has executed and not shown yet, in its own order."""

from collections import defaultdict, deque
from typing import Any

from nbformat import NotebookNode
from sphinx.environment import BuildEnvironment

from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._page import Escape, Inline
from sphinx_claims._sphinx.notebook import nested_cells

_KEY, _SAID = "sphinx_claims", "sphinx_claims said"
_CELL = "code-cell"
CLAIM = "claim directive"
"""Beside the role `claim`, of which a page has its own."""

ESCAPE = "unproven"


def note_pending(env: BuildEnvironment, verdict: PageVerdict, notebook: NotebookNode) -> None:
    """Note the nested cells, expressions, claims and escapes of the document that is being read."""
    pending: defaultdict[tuple[str, str], deque[Any]] = defaultdict(deque)
    said: defaultdict[tuple[str, str], list[tuple[int, Any]]] = defaultdict(list)
    for index, source in nested_cells(notebook):
        pending[_CELL, source].append(index)
    skipped = {claim.claim for claim in verdict.claims if claim.is_skipped}
    for step, record in verdict.executed:
        if isinstance(step, Inline):
            has_passed = bool(record.checks) and all(check.passed for check in record.checks)
            is_true = has_passed and not record.problems
            is_red = not is_true and verdict.page.claim_of(step.line) not in skipped
            pending[step.role, step.source].append((record.value, is_red))
            said[step.role, step.source].append((step.line, (record.value, is_red)))
    for claim in verdict.page.claims:
        pending[CLAIM, claim.id].append(claim)
    for escape in verdict.page.of(Escape):
        pending[ESCAPE, escape.because].append(escape)
    env.current_document[_KEY] = pending
    env.current_document[_SAID] = said


def take_pending(env: BuildEnvironment, kind: str, source: str) -> Any:
    """Return the next of a kind: a cell's index, a claim, an escape; None if none is left.

    Of an expression it is the value, if that is shown, and whether it is red.
    """
    pending: dict[tuple[str, str], deque[Any]] = env.current_document.get(_KEY) or {}
    waiting = pending.get((kind, source))
    return waiting.popleft() if waiting else None


def said_again(env: BuildEnvironment, role: str, source: str, line: int) -> Any:
    """Return what an expression came to, for the translation of the text that begins on `line`."""
    said: dict[tuple[str, str], list[tuple[int, Any]]] = env.current_document.get(_SAID) or {}
    return next((result for at, result in said.get((role, source), ()) if at >= line), None)
