"""Where PyTorch's own formulas hand on zeros whatever arrives."""

from __future__ import annotations

from torch.autograd.graph import Node

from leafgrad._autograd.node import forward_outputs, node_name
from leafgrad._autograd.operator import own_stem


def may_give_zeros(node: Node) -> bool:
    """Return whether any node of this name hands on zeros to one of its inputs."""
    operation = _operation(node)
    return operation in _ZERO or operation in _SOMETIMES or operation in _STRAIGHT


def gives_zeros(node: Node, place: int) -> bool:
    """Return whether the node hands on zeros to this one of its inputs, as its formula says so."""
    operation = _operation(node)
    if operation in _WRITTEN_OVER:
        return place == 0
    if operation in _STRAIGHT:
        return place == 1  # what the activation was given, behind the gradient of its result
    if operation == "Div":
        return getattr(node, "_saved_rounding_mode", None) is not None  # a division that rounds
    if operation == "Sgn":
        return not forward_outputs(node)[0].dtype.is_complex
    return operation in _ZERO


def _operation(node: Node) -> str:
    return own_stem(node_name(node))


_SOMETIMES = {"Copy", "Div", "Fill", "Sgn"}
_WRITTEN_OVER = {"Copy", "Fill"}  # what was there before, by what its second input holds
_STRAIGHT = {
    f"{name}Backward"
    for name in "Hardshrink Hardtanh LeakyRelu RreluWithNoise Softshrink Threshold".split()
}
_DRAWN = "Bernoulli Cauchy Exponential Geometric LogNormal Normal Poisson Random Uniform"
_COMPARED = "Eq Ge Gt Le Lt Ne"
_ROUNDED = "Ceil Floor Round Sign Trunc Zero"
_ZERO = {*_DRAWN.split(), *_COMPARED.split(), *_ROUNDED.split()}
