"""The table of rules: one for each kind of node."""

from __future__ import annotations

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.taylor.custom import CUSTOM
from leafgrad._derivative.taylor.rules import (
    arithmetic,
    attention,
    compounds,
    elementwise,
    indexing,
    joints,
    linear,
    piecewise,
    reductions,
    shape,
)
from leafgrad._derivative.taylor.step import Rule

RULES: dict[str, Rule] = {
    **arithmetic.RULES,
    **attention.RULES,
    **compounds.RULES,
    **elementwise.RULES,
    **joints.RULES,
    **linear.RULES,
    **piecewise.RULES,
    **indexing.RULES,
    **shape.RULES,
    **reductions.RULES,
}


def rule_of(node: Node, name: str) -> Rule | None:
    """Find the rule for a node of that name, None where there is none."""
    rule = RULES.get(name)
    if rule is None and (function := _autograd.forward_class(node)) is not None:
        return CUSTOM.get(function)
    return rule
