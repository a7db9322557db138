"""What a gradient cannot be differentiated through, as far as its node shows it."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.autograd.graph import Node

from leafgrad._autograd.node import forward_class, node_name


def is_marked_once_differentiable(node: Node) -> bool:
    """Say whether a custom function's backward is marked ``@once_differentiable``."""
    backward: Any = getattr(forward_class(node), "backward", None)
    return getattr(backward, "__code__", None) is _MARK


_MARK = once_differentiable(lambda _: None).__code__  # each marked function has the wrapper's code


def is_once_differentiable(node: Node) -> bool:
    """Say whether PyTorch has a formula for the node's operation, but none for that formula."""
    return node_name(node) in _ONCE


def _raises(operation: str) -> bool:
    """Say whether the node of a gradient only raises: one that computes saves what it needs."""
    node = getattr(torch._C._functions, f"{operation}BackwardBackward0", None)
    return not any(name.startswith("_saved_") for name in dir(node))


# Those of distances have formulas from some PyTorch after 2.13 on.
UNWRITTEN = tuple(filter(_raises, ("Cdist", "Pdist")))
_ONCE = {
    *(f"{operation}Backward0" for operation in UNWRITTEN),
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
