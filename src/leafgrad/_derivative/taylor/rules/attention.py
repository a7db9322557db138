"""The rule for scaled dot-product attention, which PyTorch computes in one node.

For queries ``[..., heads, n, e]``, keys ``[..., heads, m, e]`` and values ``[..., heads, m, v]``,
the result is

    softmax(scale * query @ key^T + mask) @ value,  [..., heads, n, v]
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor.jet import Jet, softmax_from
from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import unsupported_if


def _attention(
    step: Step, q: Series | None, k: Series | None, v: Series | None, mask: Series | None = None
) -> Series | None:
    """Return the series of scaled dot-product attention, ``[K, ..., heads, n, v]``.

    The scores ``[..., heads, n, m]`` and their softmax are recomputed, because the node does not
    save them. Raise `Unsupported` for dropout. None stands for a series that is zero.
    """
    unsupported_if(step.saved("dropout_p") != 0, "dropout")
    query = step.jet("query", q)
    key, value = (_for_all_heads(step.jet(*of), query) for of in (("key", k), ("value", v)))
    scale = step.saved("scale")
    scale = query.value.shape[-1] ** -0.5 if scale is None else scale
    turned = key.to(key.value.mT, Series.transposed) * scale
    scores = _masked(step, query @ turned, mask)
    weights = _softmax(scores.value)
    shares = scores.to(weights, lambda series: softmax_from(weights, series, [-1]))
    return (shares @ value).series


def _for_all_heads(shared: Jet, query: Jet) -> Jet:
    """Return a key or value ``[..., heads, m, e]`` with one head for each head of the query.

    A head that several heads of the query share is repeated.
    """
    count = query.value.shape[-3] // shared.value.shape[-3]
    if count == 1:
        return shared

    def repeated(series: Series) -> Series:
        stack = series.full(-3).repeat_interleave(count, -3)
        shape = (*series.shape[:-3], series.shape[-3] * count, *series.shape[-2:])
        return series.changed(stack, shape=shape)

    return shared.to(shared.value.repeat_interleave(count, -3), repeated)


def _masked(step: Step, scores: Jet, series: Series | None) -> Jet:
    """Return the scores ``[..., heads, n, m]`` after masking: masked ones are minus infinity."""
    for name in ("attn_mask", "attn_bias"):
        if _autograd.keeps(step.node, name) and (mask := step.saved(name)) is not None:
            return scores + Jet(mask, series)
    if not step.saved("is_causal"):
        return scores
    later = torch.ones_like(scores.value, dtype=torch.bool).triu(1)
    return Jet(scores.value.masked_fill(later, -math.inf), scores.series)


def _softmax(scores: Tensor) -> Tensor:
    """Return the softmax of ``[..., n, m]`` along m. Rows that are completely masked are zero."""
    nothing = scores.isneginf().all(-1, keepdim=True)
    return scores.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)


RULES: dict[str, Rule] = {
    "ScaledDotProductFlashAttentionForCpuBackward0": Rule(_attention),
    # The nodes of other devices save the same values under the same names.
    "ScaledDotProductFlashAttentionBackward0": Rule(_attention),
    "ScaledDotProductEfficientAttentionBackward0": Rule(_attention),
    "ScaledDotProductCudnnAttentionBackward0": Rule(_attention),
    "ScaledDotProductFusedAttentionOverrideableBackward0": Rule(_attention),
}
