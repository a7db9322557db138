"""Find out which backward formula a node runs, whether it can be differentiated, and run it."""

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

from leafgrad._autograd.checkpoint import captured_variable
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
    """Return whether the node runs one of PyTorch's own derivative formulas.

    Each of these has its own Python type. Nodes that other C++ code defines share one type.
    """
    return forward_class(node) is None and not hides_saved(node)


def hides_saved(node: Node) -> bool:
    """Return whether Python cannot see what the node saved.

    This is the case for C++ classes without a Python type of their own (most foreach functions) and
    for writes into views.
    """
    return type(node).__name__ in {"CppFunction", "CopySlices"}


def is_scripted(node: Node) -> bool:
    """Return whether the node runs TorchScript code that the TorchScript compiler differentiated.

    Its backward can be differentiated again.
    """
    return node_name(node) == "DifferentiableGraphBackward"


def is_write_into_view(node: Node) -> bool:
    """Return whether the node stands for an in-place write into a view (``CopySlices``)."""
    return node_name(node) == "CopySlices"


def is_compiled(node: Node) -> bool:
    """Return whether the node runs a backward that `torch.compile` generated."""
    return hasattr(forward_class(node), "_lazy_backward_info")


def lacks_formula(node: Node) -> bool:
    """Return whether the node's operator has no backward, so that no gradient passes."""
    return node_name(node) == "WarnNotImplemented"


def is_refusal(node: Node) -> bool:
    """Return whether the node is the one that raises the error of ``@once_differentiable``."""
    return node_name(node) == "Error"


def is_training_batch_norm(node: Node) -> bool:
    """Return whether the node is a batch normalization that used the statistics of the batch."""
    return "BatchNorm" in node_name(node) and getattr(node, "_saved_training", False)


def kept_tensors(node: Node) -> list[torch.Tensor]:
    """Return the floating-point tensors that a custom function saved or stored on its ``ctx``."""
    custom: Any = node
    kept = [*custom.saved_tensors, *(slot.tensor for slot in slots_on_ctx(node))]
    return [t for t in kept if t is not None and (t.is_floating_point() or t.is_complex())]


def keeps_array(node: Node) -> bool:
    """Return whether a custom function stores a floating-point array of NumPy on its ``ctx``.

    Arrays of integers and arrays with a single number (no axes) do not count: they are settings.
    """
    arrays = [getattr(kept, "__array_interface__", None) for _, kept in on_ctx(node)]
    return any(one and one["shape"] and one["typestr"][1] in "fc" for one in arrays)


def sample_gradients(node: Node) -> list[torch.Tensor]:
    """Return the gradients that a node computes from sample gradients, except those that are None.

    Neither the engine nor its hooks run.
    """
    return [gradient for gradient in sample_backward(node)[1] if gradient is not None]


def sample_backward(node: Node) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    """Run a node's backward on sample gradients that require grad, outside of the engine.

    The samples are distinct numbers between 1 and 2: differences of equal numbers would cancel out.

    Returns:
        The sample gradients, and the gradient for each edge (None where none is needed).
    """
    run: Any = node
    sent = [_sample_gradient(output).requires_grad_() for output in run._input_metadata]
    return sent, [*call_backward(node, *sent)]


def _sample_gradient(output: Any) -> torch.Tensor:
    """Return distinct numbers between 1 and 2 with the shape, dtype and device of an output."""
    count = torch.Size(output.shape).numel()
    numbers = 1 + torch.arange(1, count + 1, dtype=torch.float64, device="cpu") * _GOLDEN % 1
    return numbers.reshape(output.shape).to(dtype=output.dtype, device=output.device)


_GOLDEN = (math.sqrt(5) - 1) / 2


def hides_custom_function(node: Node) -> bool:
    """Return whether a write into a view (``CopySlices``) hides the node of a custom function.

    The node's backward is run on sample gradients under a profiler. Only a custom function runs
    Python code there. The profiler is set in a new thread, because one set in this thread could not
    be restored.
    """
    ran: set[CodeType] = set()

    def run() -> None:
        sys.setprofile(lambda frame, *_: ran.add(frame.f_code))
        sample_gradients(node)

    with ThreadPoolExecutor(1) as apart:
        apart.submit(run).result()
    return BackwardCFunction.apply.__code__ in ran


def call_backward(node: Node, *sent: torch.Tensor | None) -> Sequence[torch.Tensor | None]:
    """Run a node's backward directly, without the engine and its hooks.

    Args:
        node: The node.
        sent: The gradient of each of the node's outputs.

    Returns:
        A gradient for each edge, None where the input needs none.
    """
    run: Any = node
    custom = forward_class(node) is not None
    gradients = run.apply(*sent) if custom else run(*sent)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    if not custom:
        return gradients
    pairs = zip(gradients, run.needs_input_grad, strict=False)  # trailing Nones are allowed
    needed = iter([gradient for gradient, is_needed in pairs if is_needed])
    return [None if after is None else next(needed) for after, _ in next_functions(node)]


def is_once_differentiable(node: Node) -> bool:
    """Return whether PyTorch can differentiate the node's operation once, but not twice."""
    return node_name(node) in _ONCE


def all_twice_differentiable(nodes: Collection[Node]) -> bool:
    """Return whether PyTorch can differentiate the operations of all nodes at least twice."""
    if _RECORDED.issuperset(map(type, nodes)):
        return True
    if any(map(is_once_differentiable, nodes)):
        return False
    _RECORDED.update(type(node) for node in nodes if has_lasting_type(node))
    return True


# PyTorch's own node types that turned out to be twice differentiable.
_RECORDED = set[type[Node]]()


def _raises(operation: str) -> bool:
    """Return whether the second derivative of an operation is not implemented in this PyTorch.

    Its node then saves no tensors: it only raises an error.
    """
    node = getattr(torch._C._functions, f"{operation}BackwardBackward0", None)
    return not any(name.startswith("_saved_") for name in dir(node))


# A PyTorch release after 2.13 implements the second derivatives of distances.
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
    """Return the backward of an operator that was registered with `torch.library`, in a tuple.

    Return ``(None,)`` if no backward was registered for it, so that its node raises an error.
    Return None for all other functions.

    Args:
        function: The `torch.autograd.Function` of a node, as `forward_class` returns it.
    """
    if getattr(function, "__module__", "") != "torch._library.autograd":
        return None
    backward = function.backward
    backward = captured_variable(backward, "orig_backward") or backward
    return (getattr(captured_variable(backward, "info"), "_backward_fn", None),)


def refuses(node: Node) -> bool:
    """Return whether the node has no derivative and raises an error when a gradient arrives."""
    name = node_name(node)
    function = forward_class(node)
    if function is not None:
        base = torch.autograd.Function
        lacks_backward = function.backward is base.backward and function.vjp is base.vjp
        is_of_compiled = function.__module__.startswith("torch._functorch._aot_autograd.")
        # A pass with `create_graph` creates such nodes.
        is_second = is_of_compiled and not is_compiled(node)
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
    """Return whether nodes of this kind can pass on a gradient that is always zero."""
    operation = own_stem(node_name(node))
    return operation in _ZERO or operation in _SOMETIMES or operation in _STRAIGHT


def gives_zeros(node: Node, place: int) -> bool:
    """Return whether the node's gradient for input number `place` is always zero."""
    operation = own_stem(node_name(node))
    if operation in _WRITTEN_OVER:
        return place == 0
    if operation in _STRAIGHT:
        return place == 1  # input 1 is the argument of the activation
    if operation == "Div":
        # It is set if the division rounds.
        return getattr(node, "_saved_rounding_mode", None) is not None
    if operation == "Sgn":
        return not forward_outputs(node)[0].dtype.is_complex
    return operation in _ZERO


_SOMETIMES = {"Copy", "Div", "Fill", "Sgn"}
_WRITTEN_OVER = {"Copy", "Fill"}  # the values of input 0 are overwritten
_STRAIGHT = {
    f"{name}Backward"
    for name in "Hardshrink Hardtanh LeakyRelu RreluWithNoise Softshrink Threshold".split()
}
_DRAWN = "Bernoulli Cauchy Exponential Geometric LogNormal Normal Poisson Random Uniform"
_COMPARED = "Eq Ge Gt Le Lt Ne"
_ROUNDED = "Ceil Floor Round Sign Trunc Zero"
_ZERO = {*_DRAWN.split(), *_COMPARED.split(), *_ROUNDED.split()}
