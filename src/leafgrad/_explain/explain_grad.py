"""Finding out why a tensor has no gradient, or will get none."""

from collections.abc import Iterable
from typing import Any

import torch

from leafgrad import _autograd
from leafgrad._arguments.names import Names, named_modules, named_tensors, read_names
from leafgrad._arguments.outputs import iter_outputs, unwrap_functorch
from leafgrad._arguments.signature import public_function
from leafgrad._explain.grad_explainer import GradExplainer
from leafgrad._explain.grad_explanation import GradExplanation
from leafgrad._record.record import Recording, log_of


@public_function()
def explain_grad(
    tensor: torch.Tensor,
    outputs: Any,
    *,
    names: Names = None,
    recording: Recording | None = None,
) -> GradExplanation:
    """Explain why ``tensor.grad`` is empty, or will be after a backward from some outputs.

    Nothing is run, so what a gradient will be is not said, nor what hooks do to it. What ``.grad``
    holds is read, which waits for a GPU. Where a path
    was cut can only be said of what was recorded. What the graph does not show, such as the
    backward that a reentrant checkpoint runs within its own, is said to be unseen.

    Args:
        tensor: The tensor that has no gradient.
        outputs: What backward is or was called on: a tensor of any shape and dtype, a
            `torch.autograd.graph.GradientEdge`, or any nest of lists, tuples and dicts of them.
        names: What tensors are called, as in `preflight`: the model, for one.
        recording: What `record` gave while the outputs were computed in this thread.

    Returns:
        The cause and the cure, with the facts, as a value that keeps nothing alive.

    Raises:
        TypeError: If `tensor` is not a tensor, `outputs` holds anything else, `names` does not lead
            from strings to tensors, or `recording` is no recording.
        ValueError: If `outputs` holds nothing.

    Example:
        >>> import torch
        >>> from leafgrad import explain_grad, record
        >>> x = torch.ones(2, requires_grad=True)
        >>> w = torch.ones(2, requires_grad=True)
        >>> with record() as recording:
        ...     loss = (w * x.exp().detach()).sum()
        >>> explanation = explain_grad(x, loss, recording=recording)
        >>> print(explanation.cause, "in line", explanation.cuts[0].source.line)
        cut by detach() in line 2
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(_not_a_tensor(tensor))
    log, names = log_of(recording), read_names(names)
    with _autograd.unobserved():
        ends = [unwrap_functorch(end) for end in iter_outputs(outputs)]
    if not ends:
        raise ValueError("outputs must hold at least one tensor, not none; pass a result")
    with _autograd.unobserved():
        name = next((name for name, one in named_tensors(names) if one is tensor), None)
    return GradExplainer(ends, log, named_modules(names)).explain(tensor, name)


def _not_a_tensor(tensor: object) -> str:
    several = torch.nn.Module, Iterable
    cure = (
        "preflight(outputs, names=model) explains all parameters at once"
        if isinstance(tensor, several)
        else "pass the one whose .grad you ask for"
    )
    return f"tensor must be a torch.Tensor, not {type(tensor).__name__}; {cure}"
