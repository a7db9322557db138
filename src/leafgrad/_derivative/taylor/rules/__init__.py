"""The table of Taylor rules, by PyTorch's name for each kind of node.

Each file contains the rules for one family of operations, with a table `RULES` at its end. To find
the rule of a node, search for its name, such as ``TanhBackward0``.

A rule is called with a `Step`, which describes the node, and with the series of each input of the
operation: a stack ``[K, *shape]``, or None if the input does not depend on the inputs of the
derivative. It returns the series of the result, in the shape `step.shape`. For a function F this is
``F(a + h) - F(a)``, where a is the value that the node saved and h the series. "Return the
exponential" in a docstring means this difference. "The saved axis" is the axis that the node saved,
an argument of its operation. No rule depends on the algebra.
"""

from __future__ import annotations

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.taylor.custom import CUSTOM
from leafgrad._derivative.taylor.rule import Rule
from leafgrad._derivative.taylor.rules import (
    activation_gradients,
    arithmetic,
    attention,
    bessel,
    complex_numbers,
    elementwise,
    fourier,
    grid_sample,
    images,
    indexing,
    linear,
    matrices,
    piecewise,
    recurrent,
    reductions,
    scatter,
    shape,
    special,
    view_writes,
)

_OF_ELEMENTS = (arithmetic, bessel, complex_numbers, elementwise, piecewise, special)
_OF_AXES = (fourier, indexing, scatter, reductions, shape, view_writes)
_OF_LAYERS = (activation_gradients, attention, linear, matrices, images, recurrent, grid_sample)
_FILES = (*_OF_ELEMENTS, *_OF_AXES, *_OF_LAYERS)
RULES: dict[str, Rule] = {name: rule for file in _FILES for name, rule in file.RULES.items()}


def rule_of(node: Node, name: str) -> Rule | None:
    """Return the rule for a node with this name, or None if there is none.

    A custom function may have a rule that a user registered.
    """
    rule = RULES.get(name.removesuffix("_copy"))  # for example, `transpose_copy` is a transpose
    if rule is None and (function := _autograd.forward_class(node)) is not None:
        return CUSTOM.get(function)
    return rule
