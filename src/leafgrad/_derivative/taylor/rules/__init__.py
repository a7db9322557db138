"""The table of rules: one row for each kind of node.

A rule is called with a `Step`, which knows the node, and with the series of each input, None where
an input does not depend on the inputs of the derivative. A series is a stack ``[K, *shape]``, in
which `shape` is that of the input (see `series`); the rule returns the series of the result, whose
shape is `step.shape`. So a rule for a function F computes ``F(a + h) - F(a)``, from the value a
that the node saved and the series h, and neither knows which algebra it computes in.
"""

from __future__ import annotations

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.taylor.custom import CUSTOM
from leafgrad._derivative.taylor.rule import Rule
from leafgrad._derivative.taylor.rules import (
    arithmetic,
    attention,
    bessel,
    complex_numbers,
    elementwise,
    fourier,
    indexing,
    linear,
    matrices,
    pictures,
    piecewise,
    placing,
    recurrent,
    reductions,
    sampling,
    shape,
    slopes,
    special,
    writes,
)

_OF_ELEMENTS = (arithmetic, bessel, complex_numbers, elementwise, piecewise, slopes, special)
_OF_AXES = (fourier, indexing, placing, reductions, shape, writes)
_OF_LAYERS = (attention, linear, matrices, pictures, recurrent, sampling)
_FILES = (*_OF_ELEMENTS, *_OF_AXES, *_OF_LAYERS)
RULES: dict[str, Rule] = {name: rule for file in _FILES for name, rule in file.RULES.items()}


def rule_of(node: Node, name: str) -> Rule | None:
    """Return the rule for a node of that name, None where there is none."""
    rule = RULES.get(name.removesuffix("_copy"))  # as transpose_copy is a transpose
    if rule is None and (function := _autograd.forward_class(node)) is not None:
        return CUSTOM.get(function)
    return rule
