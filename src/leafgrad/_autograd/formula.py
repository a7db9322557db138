"""Whose formula a node runs in backward, what that records, and where there is none."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import CodeType
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

from leafgrad._autograd.checkpoint import taken_along
from leafgrad._autograd.node import (
    forward_class,
    forward_outputs,
    has_lasting_type,
    next_functions,
    node_name,
    own_stem,
)
from leafgrad._autograd.saved import on_ctx, slots_on_ctx


def is_own_formula(node: Node) -> bool:
    """Return whether the node's backward is one of PyTorch's own formulas for its operations.

    Those have a Python type each; what is defined elsewhere in C++ shares one type.
    """
    return forward_class(node) is None and not hides_saved(node)


def hides_saved(node: Node) -> bool:
    """Return whether Python is shown nothing of what the node saved, nor whether it saved anything.

    So it is with C++ classes that have no Python type of their own, as those of most foreach
    functions, and with writes into views.
    """
    return type(node).__name__ in {"CppFunction", "CopySlices"}


def is_scripted(node: Node) -> bool:
    """Return whether the node runs a part of TorchScript code that its compiler differentiated.

    Which differentiates what that makes as well, or has it recorded.
    """
    return node_name(node) == "DifferentiableGraphBackward"


def is_write_into_view(node: Node) -> bool:
    """Return whether the node stands for a write into a view, of which it hides the formula."""
    return node_name(node) == "CopySlices"


def is_compiled(node: Node) -> bool:
    """Return whether the node runs a backward that `torch.compile` made."""
    return hasattr(forward_class(node), "_lazy_backward_info")


def lacks_formula(node: Node) -> bool:
    """Return whether the node stands for an operator without a backward, thus without gradient."""
    return node_name(node) == "WarnNotImplemented"


def is_refusal(node: Node) -> bool:
    """Return whether the node is the one that raises for ``@once_differentiable``."""
    return node_name(node) == "Error"


def is_training_batch_norm(node: Node) -> bool:
    """Return whether the node normalises by statistics of the batch that it was given."""
    return "BatchNorm" in node_name(node) and getattr(node, "_saved_training", False)


def kept_tensors(node: Node) -> list[torch.Tensor]:
    """Return the differentiable tensors that a custom function keeps, as its backward gets them."""
    custom: Any = node
    kept = [*custom.saved_tensors, *(slot.tensor for slot in slots_on_ctx(node))]
    return [t for t in kept if t is not None and (t.is_floating_point() or t.is_complex())]


def keeps_array(node: Node) -> bool:
    """Return whether a custom function keeps numbers in an array of another library, as numpy's.

    Single numbers and arrays of integers are taken for settings.
    """
    arrays = [getattr(kept, "__array_interface__", None) for _, kept in on_ctx(node)]
    return any(one and one["shape"] and one["typestr"][1] in "fc" for one in arrays)


def backward_alone(node: Node) -> list[torch.Tensor]:
    """Run a node's backward by itself, as `recorded_backward` does, past the engine and its hooks.

    The gradients are those of the inputs that need one, where the backward gives any.
    """
    return [gradient for gradient in recorded_backward(node)[1] if gradient is not None]


def recorded_backward(node: Node) -> tuple[list[torch.Tensor], Sequence[torch.Tensor | None]]:
    """Run a node's backward on gradients that require grad; return them, and one for each edge.

    What is sent are numbers between 1 and 2, all different: differences of equal numbers would
    cancel out.
    """
    run: Any = node
    sent = [_generic(output).requires_grad_() for output in run._input_metadata]
    return sent, sent_through(node, *sent)


def _generic(output: Any) -> torch.Tensor:
    """Return numbers for a result of this type: fractions of multiples of the golden ratio, + 1."""
    count = torch.Size(output.shape).numel()
    numbers = 1 + torch.arange(1, count + 1, dtype=torch.float64, device="cpu") * _GOLDEN % 1
    return numbers.reshape(output.shape).to(dtype=output.dtype, device=output.device)


_GOLDEN = (math.sqrt(5) - 1) / 2


def hides_custom_function(node: Node) -> bool:
    """Return whether a write into a view hides the node of a custom function.

    Its backward is run, as in `backward_alone`: of all that may be hidden, Python runs in it alone.
    That is seen from a thread of its own, as a profiler of this one could not be put back.
    """
    ran: set[CodeType] = set()

    def run() -> None:
        sys.setprofile(lambda frame, *_: ran.add(frame.f_code))
        backward_alone(node)

    with ThreadPoolExecutor(1) as apart:
        apart.submit(run).result()
    return BackwardCFunction.apply.__code__ in ran


def sent_through(node: Node, *sent: torch.Tensor | None) -> Sequence[torch.Tensor | None]:
    """Run a node's backward by itself on the gradients of its outputs, past engine and hooks.

    Each edge gets a gradient, or None where its input needs none.
    """
    run: Any = node
    custom = forward_class(node) is not None
    gradients = run.apply(*sent) if custom else run(*sent)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    if not custom:
        return gradients
    pairs = zip(gradients, run.needs_input_grad, strict=False)  # there may be a few Nones more
    needed = iter([gradient for gradient, is_needed in pairs if is_needed])
    return [None if after is None else next(needed) for after, _ in next_functions(node)]


def is_once_differentiable(node: Node) -> bool:
    """Return whether PyTorch has a formula for the node's operation, but none for that formula."""
    return node_name(node) in _ONCE


def records_gradient(nodes: Collection[Node]) -> bool:
    """Return whether none of the nodes is one that `is_once_differentiable` tells."""
    if _RECORDED.issuperset(map(type, nodes)):
        return True
    if any(map(is_once_differentiable, nodes)):
        return False
    _RECORDED.update(type(node) for node in nodes if has_lasting_type(node))
    return True


# Types of PyTorch's own that were seen not to be once differentiable.
_RECORDED = set[type[Node]]()


def _raises(operation: str) -> bool:
    """Return whether the node of a gradient only raises: one that computes saves what it needs."""
    node = getattr(torch._C._functions, f"{operation}BackwardBackward0", None)
    return not any(name.startswith("_saved_") for name in dir(node))


# Those of distances have formulas from some PyTorch after 2.13 on.
_UNWRITTEN = tuple(filter(_raises, ("Cdist", "Pdist")))
_ONCE = {
    *(f"{operation}Backward0" for operation in _UNWRITTEN),
    "CtcLossBackward0",
    "CudnnCtcLossBackward0",
    "CudnnRnnBackward0",
    "EmbeddingBagBackward0",
    "FakeQuantizeLearnablePerChannelAffineBackward0",
    "FakeQuantizeLearnablePerTensorAffineBackward0",
    "HardsigmoidBackward0",
    "MaskedSoftmaxBackward0",
    "MiopenCtcLossBackward0",
    "MiopenRnnBackward0",
    "MultiMarginLossBackward0",
    "MultilabelMarginLossBackward0",
    "ScaledDotProductCudnnAttentionBackward0",
    "ScaledDotProductEfficientAttentionBackward0",
    "ScaledDotProductFlashAttentionBackward0",
    "ScaledDotProductFlashAttentionForCpuBackward0",
    "SegmentReduceBackward0",
    "SparseMmReduceImplBackward0",
    "SparseSoftmaxBackward0",
    "SparseSumBackward0",
    "StandardGammaBackward0",
}


def registered_backward(function: Any) -> tuple[Any] | None:
    """Return the backward that `torch.library` runs for an operator, in a tuple; None for others.

    It is None inside the tuple where none was registered, so that the node raises.
    """
    if getattr(function, "__module__", "") != "torch._library.autograd":
        return None
    backward = function.backward
    backward = taken_along(backward, "orig_backward") or backward
    return (getattr(taken_along(backward, "info"), "_backward_fn", None),)


def refuses(node: Node) -> bool:
    """Return whether the node raises once a gradient arrives, as no derivative is implemented."""
    name = node_name(node)
    function = forward_class(node)
    if function is not None:
        base = torch.autograd.Function
        lacks_backward = function.backward is base.backward and function.vjp is base.vjp
        is_of_compiled = function.__module__.startswith("torch._functorch._aot_autograd.")
        is_second = is_of_compiled and not is_compiled(node)  # made under `create_graph`
        return registered_backward(function) == (None,) or lacks_backward or is_second
    if name in _FIRST_REFUSED:
        return next_functions(node)[0][0] is not None
    return name in _REFUSING


_FIRST_REFUSED = {
    "AcoshBackward1",
    "AsinhBackward1",
    "AtanhBackward1",
    "GeqrfBackward0",
    "IgammaBackward0",
    "IgammacBackward0",
    "SpecialZetaBackward0",
}
_REFUSING = {
    *(f"{operation}BackwardBackward0" for operation in _UNWRITTEN),
    "EmbeddingBagBackwardBackward0",
    "Error",
    "NotImplemented",
    "StandardGammaGradBackward0",
    "Unique2Backward0",
    "UniqueBackward0",
    "UniqueConsecutiveBackward0",
    "UniqueDimBackward0",
    "UniqueDimConsecutiveBackward0",
}


def may_give_zeros(node: Node) -> bool:
    """Return whether any node of this name hands on zeros to one of its inputs."""
    operation = own_stem(node_name(node))
    return operation in _ZERO or operation in _SOMETIMES or operation in _STRAIGHT


def gives_zeros(node: Node, place: int) -> bool:
    """Return whether the node hands on zeros to this one of its inputs, as its formula says so."""
    operation = own_stem(node_name(node))
    if operation in _WRITTEN_OVER:
        return place == 0
    if operation in _STRAIGHT:
        return place == 1  # what the activation was given, behind the gradient of its result
    if operation == "Div":
        return getattr(node, "_saved_rounding_mode", None) is not None  # a division that rounds
    if operation == "Sgn":
        return not forward_outputs(node)[0].dtype.is_complex
    return operation in _ZERO


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
