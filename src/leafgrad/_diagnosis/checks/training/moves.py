"""Edits that move a statement of the training loop."""

import ast
import linecache

from leafgrad._diagnosis.diagnosis import Edit
from leafgrad._diagnosis.edits import delete, insert, parse, statement_at
from leafgrad._diagnosis.situation import Situation
from leafgrad._graph.nodes import Source


def move_above_forward(situation: Situation, at: Source | None) -> tuple[Edit, ...]:
    """Move a statement below everything that comes before the forward pass."""
    statement = statement_at(at)
    lines = [one.line for one in situation.log.sources() if at and one.file == at.file]
    if at is None or statement is None or not lines:
        return ()
    first = min(lines)
    blocks = [
        node
        for node in ast.walk(parse(at.file))
        if isinstance(node, ast.stmt) and node.col_offset == statement.col_offset
        if node.lineno <= first <= (node.end_lineno or 0) and node.lineno > statement.lineno
    ]
    if not blocks:
        return ()
    target = Source(file=at.file, line=blocks[0].lineno, function=at.function)
    return move(at, target, below=False)


def move(at: Source | None, target: Source | None, *, below: bool) -> tuple[Edit, ...]:
    """Move a statement of one line above or below another one of the same block."""
    moved, other = statement_at(at), statement_at(target)
    if at is None or target is None or moved is None or other is None or at.file != target.file:
        return ()
    if moved.lineno != moved.end_lineno or moved.col_offset != other.col_offset:
        return ()
    text = linecache.getline(at.file, moved.lineno).strip()
    edits = (*delete(at), *insert(target, [text], below=below))
    return tuple(sorted(edits, key=lambda edit: edit.line))
