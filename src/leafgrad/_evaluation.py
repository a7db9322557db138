"""Outputs that are given as a function of inputs."""

from collections.abc import Callable

from torch import Tensor

Function = Callable[[Tensor], Tensor]


def evaluated(function: Function, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Compute outputs from `inputs`, or from a copy that requires grad where `inputs` does not."""
    if not callable(function):
        raise TypeError(
            "outputs must be a tensor, or a function that computes one from inputs, not of type "
            f"{type(function).__name__}"
        )
    leaf = inputs if inputs.requires_grad else inputs.clone().detach().requires_grad_()
    return function(leaf), leaf
