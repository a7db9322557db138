"""The table of rules: one for each kind of node."""

from __future__ import annotations

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._taylor import (
    _arithmetic,
    _attention,
    _compounds,
    _elementwise,
    _joints,
    _matmul,
    _pieces,
    _places,
    _shape,
    _statistics,
)
from leafgrad._taylor._custom import CUSTOM
from leafgrad._taylor._step import Rule

RULES: dict[str, Rule] = {
    **_arithmetic.RULES,
    **_attention.RULES,
    **_compounds.RULES,
    **_elementwise.RULES,
    **_joints.RULES,
    **_matmul.RULES,
    **_pieces.RULES,
    **_places.RULES,
    **_shape.RULES,
    **_statistics.RULES,
}
# Whose rule gives a series with the shape and dtype of the only result, so that neither is asked.
FITTING = frozenset(f"{name}Backward0" for name in "Addmm Mm Sigmoid Tanh".split())


def rule_of(node: Node, name: str) -> Rule | None:
    """Find the rule for a node of that name, None where there is none."""
    rule = RULES.get(name)
    if rule is None and (function := _autograd.forward_class(node)) is not None:
        return CUSTOM.get(function)
    return rule
