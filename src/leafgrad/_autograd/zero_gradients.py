"""Where PyTorch's own formulas hand on zeros whatever arrives."""

from __future__ import annotations

from typing import Any

from torch.autograd.graph import Node

from leafgrad._autograd.node import forward_outputs, node_name


def may_give_zeros(node: Node) -> bool:
    """Say whether any node of this name hands on zeros to one of its inputs."""
    operation, _, _ = node_name(node).partition("Backward")
    return operation in _ZERO or operation in _SOMETIMES


def gives_zeros(node: Node, place: int) -> bool:
    """Say whether the node hands on zeros to this one of its inputs, as its formula says so."""
    operation, _, _ = node_name(node).partition("Backward")
    if operation in _WRITTEN_OVER:
        return place == 0
    if operation == "Div":
        return _rounds(node)
    if operation == "Sgn":
        return not forward_outputs(node)[0].dtype.is_complex
    return operation in _ZERO


def _rounds(node: Any) -> bool:
    """Say whether a division rounds its result, of which only those of two kinds tell."""
    return getattr(node, "_saved_rounding_mode", None) is not None


_SOMETIMES = {"Copy", "Div", "Fill", "Sgn"}
_WRITTEN_OVER = {"Copy", "Fill"}  # what was there before, by what its second input holds
_DRAWN = "Bernoulli Cauchy Exponential Geometric LogNormal Normal Poisson Random Uniform"
_COMPARED = "Eq Ge Gt Le Lt Ne"
_ROUNDED = "Ceil Floor Round Sign Trunc Zero"
_ZERO = {*_DRAWN.split(), *_COMPARED.split(), *_ROUNDED.split()}
