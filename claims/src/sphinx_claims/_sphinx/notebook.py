"""Make the executed notebook that MyST-NB renders, from a page and its records."""

import itertools
import json
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Any

from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from nbformat import NotebookNode, from_dict, v4
from sphinx.environment import BuildEnvironment

from sphinx_claims._executing.cell import remove_pins
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._page import Cell, Escape, Inline
from sphinx_claims._reading.include import ENDLESS
from sphinx_claims._reading.read import TOO_DEEP
from sphinx_claims._record import Record

_KEY, _SAID = "sphinx_claims", "sphinx_claims said"
_CELL = "code-cell"
CLAIM = "claim directive"
"""The key of claim directives. The role `claim` has another key."""

ESCAPE = "unproven"


def note_pending(env: BuildEnvironment, verdict: PageVerdict, notebook: NotebookNode) -> None:
    """Store the nested cells, expressions, claims and escapes of the document that is being read.

    An escape is a passage that the page marks as unproven. `take_pending` returns all of these when
    Sphinx renders the document.
    """
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
    """Return the next item that `note_pending` stored for a kind and a text, or None.

    What the item is depends on its kind:

    - a nested cell: its index in the notebook
    - a claim: the claim itself
    - an escape, which is a passage marked as unproven: the escape itself
    - an expression: a pair of the value to show, or None, and whether its check failed
    """
    pending: dict[tuple[str, str], deque[Any]] = env.current_document.get(_KEY) or {}
    waiting = pending.get((kind, source))
    return waiting.popleft() if waiting else None


def said_again(env: BuildEnvironment, role: str, source: str, line: int) -> Any:
    """Return the result of an expression in a translated text whose original begins on `line`.

    The result is the value to show, or None, and whether the check failed. Return None if the
    expression was not executed.
    """
    said: dict[tuple[str, str], list[tuple[int, Any]]] = env.current_document.get(_SAID) or {}
    return next((result for at, result in said.get((role, source), ()) if at >= line), None)


NESTED = "remove-cell"
"""A tag: MyST-NB does not render cells with it. A directive renders them inside a container."""


def executed_notebook(text: str, verdict: PageVerdict, config: MdParserConfig) -> NotebookNode:
    """Return the page `text` as a notebook whose cells contain the outputs of their execution.

    MyST-NB finds cells at the top level only. The others follow as cells tagged `NESTED`.
    """
    notebook = _read(text, verdict, config)
    waiting = {
        step.fence: (step, record) for step, record in verdict.executed if isinstance(step, Cell)
    }
    for index, fence in enumerate(notebook.metadata.source_map):
        if fence in waiting and notebook.cells[index].cell_type == "code":
            notebook.cells[index] = _code_cell(*waiting.pop(fence))
    for fence, executed in waiting.items():
        notebook.cells.append(_code_cell(*executed, NESTED))
        notebook.metadata.source_map.append(fence)
    notebook.metadata.source_map = list(_exact(notebook, text.splitlines()))
    notebook.metadata.language_info = {"name": "python", "pygments_lexer": "python"}
    return notebook


def _read(text: str, verdict: PageVerdict, config: MdParserConfig) -> NotebookNode:
    """Return `text` as a notebook; an empty one if MyST-NB fails and a problem explains why."""
    nothing: NotebookNode = v4.new_notebook(metadata={"source_map": []})
    told = " ".join(problem.message for problem in verdict.problems)
    if not text.strip() or ENDLESS in told or TOO_DEEP in told:
        return nothing
    try:
        notebook: NotebookNode = read_myst_markdown_notebook(text, config, add_source_map=True)
    except Exception:
        if not told:
            raise
        return nothing
    # Convert values that JSON does not have, such as dates, to text.
    notebook.metadata = from_dict(json.loads(json.dumps(notebook.metadata, default=str)))
    return notebook


def nested_cells(notebook: NotebookNode) -> Iterator[tuple[int, str]]:
    """Yield the index and the source of each cell that a directive has to render."""
    for index, cell in enumerate(notebook.cells):
        if NESTED in cell.metadata.get("tags", []):
            yield index, cell.source


def _exact(notebook: NotebookNode, lines: Sequence[str]) -> Iterator[int]:
    """Yield the line before each cell, corrected so that MyST-NB reports the right lines.

    MyST-NB strips blank lines from Markdown without counting them, and adds one line too many.
    """
    for cell, start in zip(notebook.cells, notebook.metadata.source_map, strict=True):
        text = itertools.dropwhile(lambda index: not lines[index].strip(), itertools.count(start))
        yield next(text) - 1 if cell.cell_type == "markdown" else start


def _code_cell(cell: Cell, record: Record, *tags: str) -> NotebookNode:
    """Return a notebook cell. This is faster than `v4.new_code_cell`, which validates each cell."""
    code: NotebookNode = from_dict(
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"line-{cell.fence}",
            "metadata": {"judged": True, "tags": [*cell.tags, *tags]},
            "outputs": [_output(**output) for output in record.outputs],
            "source": remove_pins(cell.source),
        }
    )
    return code


def _output(shown: dict[str, Any] | None = None, **output: Any) -> dict[str, Any]:
    extra = {"execution_count": None} if output["output_type"] == "execute_result" else {}
    return {**output, **(shown or {}), **extra}
