"""Proof, from the kinds of nodes alone, that rows are independent."""

from __future__ import annotations

from leafgrad import _autograd
from leafgrad._derivative.taylor.rules import RULES


def keep_rows_apart(path: _autograd.Path, ndim: int, batch: int) -> bool:
    """Return whether the path to inputs with `ndim` axes, of which `batch` count rows, shows it.

    As long as nothing adds axes in front, the first axes of all that is computed count rows.
    """
    known: set[object] = {path.start}
    for node, edges in path.nodes.items():
        rule = RULES.get(_autograd.node_name(node))
        if rule is None or not rule.rowwise:
            return False
        if len(_autograd.output_types(node)[0].shape) != ndim:
            return False
        if rule.shared and (batch != 1 or any(edges[number] in known for number in rule.shared)):
            return False
        known.add((node, 0))
    return True
