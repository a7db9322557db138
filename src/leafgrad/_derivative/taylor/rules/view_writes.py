"""Rules for in-place writes to views, and for strided views.

The nodes of these operations do not expose the positions of the moved elements. But their backward
only moves elements, so a probe shows the positions. The probe is a gradient ``[*shape]`` whose
elements are numbered from 1 on. The gradient that returns to an input contains, for each element i
of this input, the number p(i) of the result's element that it moved to, or 0. With flat positions,
the coefficients ``[K, *shape]`` of the result are

    a write into a view      y_k[p(i)] = source_k[i], and base_k where the base got its own number
    a view by strides        y_k[p(i)] = x_k[i]

The kinds of nodes that the backward records show whether it only moves elements.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor.jet import add
from leafgrad._derivative.taylor.readable import may_read
from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import unsupported_if

# The nodes in the graph of the backward of a copy or of a sum. They only move elements, so the
# probe's numbers arrive unchanged. If the graph has another node, the rule is not used.
_PLACES_ALONE = {
    "AccumulateGrad",
    "AsStridedBackward0",
    "CloneBackward0",
    "CopyBackwards",
    "CopySlices",
    "SqueezeBackward1",
    "ToCopyBackward0",
}


def _write_view(step: Step, base: Series | None, source: Series | None = None) -> Series | None:
    """Return the base ``[K, *shape]`` with the elements of a view overwritten by the source.

    None stands for a series that is zero.
    """
    probe, (to_base, *to_source) = send_probe(step)
    if base is not None:
        is_kept = to_base == probe
        unsupported_if(not (is_kept | (to_base == 0)).all(), "moves")
        base = base.masked(is_kept)
    if source is None:
        return base
    places = to_source[0].long() - 1  # the flat position in the result of each source element
    unsupported_if(len(places.unique()) < places.numel(), "writes-twice")
    zeros = source.stack.new_zeros(len(source.indices), probe.numel())
    flat = zeros.index_copy(1, places.flatten(), source.full().flatten(1))
    return add(base, source.changed(flat.unflatten(1, step.shape), shape=step.shape))


def _view_by_strides(step: Step, x: Series) -> Series:
    """Return the elements of a view such as that of `as_strided`, ``[K, *shape]``.

    Raise `Unsupported` if an element appears twice in the view. Then the backward adds gradients,
    so it does more than move elements.
    """
    _, (numbers,) = send_probe(step)
    found = numbers.flatten().long()
    shown = found.nonzero().squeeze(1)
    places = torch.empty_like(shown).index_copy(0, found[shown] - 1, shown).reshape(step.shape)
    stack = x.full().flatten(1).index_select(1, places.flatten())
    return x.changed(stack.unflatten(1, step.shape), shape=step.shape)


def send_probe(step: Step) -> tuple[Tensor, list[Tensor]]:
    """Return the numbers of a probe ``[*shape]``, and the numbers that arrive at each input.

    The probe is a gradient with numbered elements, sent through the node's backward. It shows where
    each element was moved (see the module docstring). Raise `Unsupported` if the backward does more
    than move elements.
    """
    # Inside a backward pass, PyTorch computes only the gradients that this pass needs, so the probe
    # might not arrive at an input.
    unsupported_if(step.is_in_backward, "checkpoint")
    (result,) = step.results
    count = torch.Size(result.shape).numel()
    with torch.enable_grad(), torch.inference_mode(mode=False):
        probe = torch.arange(1, count + 1, dtype=torch.float64, device=result.device)
        unsupported_if(not may_read(probe), "unseen")
        probe = probe.to(result.dtype).reshape(result.shape)
        unsupported_if(count * torch.finfo(result.dtype).eps >= 1, "too-many-elements")
        sent = _autograd.call_backward(step.node, probe.requires_grad_())
    present = [gradient for gradient in sent if gradient is not None]
    roots = [gradient.grad_fn for gradient in present if gradient.grad_fn is not None]
    kinds = {*map(_autograd.node_name, _autograd.walk(roots))}
    moves_alone = kinds <= _PLACES_ALONE and len(roots) == len(present)
    unsupported_if(not moves_alone, "moves")
    zero = torch.zeros(())
    return _numbers(probe), [zero if g is None else _numbers(g) for g in sent]


def _numbers(probe: Tensor) -> Tensor:
    """Return the element numbers in a probe ``[*shape]``, without graph and as real numbers."""
    return probe.detach().real if probe.is_complex() else probe.detach()


def _overwrite(_: Step, __: Series | None, source: Series | None) -> Series | None:
    """Return the series of the source, ``[K, *shape]``, because it overwrites the whole tensor.

    None stands for a series that is zero.
    """
    return source


RULES: dict[str, Rule] = {
    "AsStridedBackward0": Rule(_view_by_strides, is_for_complex=True),
    "CopyBackwards": Rule(_overwrite, rowwise=True, is_for_complex=True),
    "CopySlices": Rule(_write_view, is_for_complex=True),
}
