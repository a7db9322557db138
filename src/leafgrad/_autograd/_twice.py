"""What a gradient cannot be differentiated through, as far as its node shows it."""

from __future__ import annotations

from typing import Any

from torch.autograd.function import once_differentiable
from torch.autograd.graph import Node

from leafgrad._autograd._node import forward_class, node_name


def is_marked_once_differentiable(node: Node) -> bool:
    """Say whether a custom function's backward is marked ``@once_differentiable``."""
    backward: Any = getattr(forward_class(node), "backward", None)
    return getattr(backward, "__code__", None) is _MARK


_MARK = once_differentiable(lambda _: None).__code__  # each marked function has the wrapper's code


def is_once_differentiable(node: Node) -> bool:
    """Say whether PyTorch has a formula for the node's operation, but none for that formula."""
    return node_name(node) in _ONCE


_ONCE = {
    "CdistBackward0",
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
    "PdistBackward0",
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
