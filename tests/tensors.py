"""What tests of graphs begin with."""

from typing import Any

import torch


def leaf(*shape: int) -> torch.Tensor:
    """Return ones that ask for a gradient."""
    return torch.ones(*shape, requires_grad=True)


def node_of(tensor: torch.Tensor) -> Any:
    """Return the node of a result."""
    assert tensor.grad_fn is not None
    return tensor.grad_fn


def outcome_of(function: Any, *inputs: torch.Tensor) -> Any:
    """Return what a custom function gives, of whatever type that is."""
    return function.apply(*inputs)
