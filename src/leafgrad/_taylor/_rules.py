"""The table of rules: one for each kind of node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
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
from leafgrad._taylor._step import Result, Rule

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
CustomRule = TypeVar("CustomRule", bound=Callable[..., Result])
_CUSTOM: dict[type[torch.autograd.Function], Rule] = {}


def taylor_rule(function: type[torch.autograd.Function]) -> Callable[[CustomRule], CustomRule]:
    """Register how Taylor mode passes through a custom `torch.autograd.Function`.

    Without a rule, `higher_order_grad` uses nested reverse mode for outputs that were computed
    with the function. With one, its backward is not called, so it may be differentiable once only.

    The decorated function is called with the function's ``ctx``, as its backward is, and with a
    `Series` for each tensor that the function was applied to, None where a tensor does not depend
    on inputs. It gives a `Jet` or a `Series`, or None for zero; or a list of these, one for each
    output. It should take values from ``ctx.saved_tensors``, which come with their graph. A `Jet`
    brings its value to the precision of its series, which may be more than the function's own. The
    function is called again where numbers left the range of a dtype.

    Args:
        function: The class that was applied.

    Returns:
        A decorator that gives the decorated function back.

    Example:
        >>> import torch
        >>> from leafgrad import Jet, higher_order_grad, taylor_rule
        >>> class Cube(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x**3
        ...
        ...     @staticmethod
        ...     def backward(ctx, gradient):
        ...         return 3 * ctx.saved_tensors[0] ** 2 * gradient
        >>> @taylor_rule(Cube)
        ... def cube(ctx, x):
        ...     (value,) = ctx.saved_tensors
        ...     return Jet(value, x) ** 3
        >>> x = torch.tensor([[1.0], [2.0]], requires_grad=True)
        >>> higher_order_grad(Cube.apply(x), x, 2, method="taylor").tolist()
        [[6.0], [12.0]]
    """

    def register(rule: CustomRule) -> CustomRule:
        _CUSTOM[function] = lambda step, *inputs: rule(
            step.node, *[series and series.computed() for series in inputs]
        )
        return rule

    return register


def rule_of(node: Node, name: str) -> Rule | None:
    """Find the rule for a node of that name, None where there is none."""
    rule = RULES.get(name)
    if rule is None and (function := _autograd.forward_class(node)) is not None:
        return _CUSTOM.get(function)
    return rule
