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
    outputs: object = function(leaf)
    if not isinstance(outputs, Tensor):
        raise TypeError(_no_tensor(outputs))
    return outputs, leaf


def _no_tensor(outputs: object) -> str:
    what = (
        "outputs must be a tensor, not of type "
        f"{type(outputs).__name__}, which the function that was given for it returned"
    )
    if outputs is None:
        return f"{what}: is its return missing?"
    if isinstance(outputs, tuple | list):
        return f"{what}; pick one of them, as in lambda x: model(x)[0]"
    return f"{what}; give one that returns the tensor to differentiate"
