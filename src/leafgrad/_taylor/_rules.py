"""The table of rules: one for each kind of node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._taylor import _arithmetic, _elementwise, _matmul, _shape, _statistics
from leafgrad._taylor._step import Rule

RULES: dict[str, Rule] = {
    **_arithmetic.RULES,
    **_elementwise.RULES,
    **_matmul.RULES,
    **_shape.RULES,
    **_statistics.RULES,
}
_CUSTOM: dict[type[torch.autograd.Function], Rule] = {}

AnyRule = TypeVar("AnyRule", bound=Rule)


def taylor_rule(function: type[torch.autograd.Function]) -> Callable[[AnyRule], AnyRule]:
    """Register how series pass through a custom function."""

    def register(rule: AnyRule) -> AnyRule:
        _CUSTOM[function] = rule
        return rule

    return register


def rule_of(node: Node, name: str) -> Rule | None:
    """Find the rule for a node of that name, None where there is none."""
    rule = RULES.get(name)
    if rule is None and (function := _autograd.forward_class(node)) is not None:
        return _CUSTOM.get(function)
    return rule
