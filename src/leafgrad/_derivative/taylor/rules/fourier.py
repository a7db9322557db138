"""Rules for Fourier transforms, which are linear: each coefficient is transformed by itself.

They take ``[K, *shape]`` along axes of the shape. How they are scaled,
and what is cut off or added at the ends of an axis, was settled in the forward.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.series import Series

# What a sum is divided by, as nodes number it: nothing, the root of the number of its terms, or
# that number. Of a transform forward it is called so, and the other way round of one back.
_FORWARD = {0: "backward", 1: "ortho", 2: "forward"}
_BACK = {0: "forward", 1: "ortho", 2: "backward"}


def _of_real(step: Step, x: Series) -> Series:
    """Return the transform of real ``[K, *shape]``, half of the last axis if it is one-sided."""
    transform = torch.fft.rfftn if step.saved("onesided") else torch.fft.fftn
    norm = _FORWARD[step.saved("normalization")]
    return _transformed(step, x, lambda stack, dims: transform(stack, dim=dims, norm=norm))


def _of_complex(step: Step, x: Series) -> Series:
    """Return the transform of complex ``[K, *shape]``, forward or back."""
    is_forward = step.saved("forward")
    transform = torch.fft.fftn if is_forward else torch.fft.ifftn
    norm = (_FORWARD if is_forward else _BACK)[step.saved("normalization")]
    return _transformed(step, x, lambda stack, dims: transform(stack, dim=dims, norm=norm))


def _to_real(step: Step, x: Series) -> Series:
    """Return the real ``[K, *shape]`` whose transform, one-sided, these are."""
    sizes, norm = [step.shape[dim] for dim in step.dims(x)], _BACK[step.saved("normalization")]
    return _transformed(
        step, x, lambda stack, dims: torch.fft.irfftn(stack, s=sizes, dim=dims, norm=norm)
    )


def _transformed(step: Step, x: Series, transform: Callable[[Tensor, list[int]], Tensor]) -> Series:
    """Return the transform of ``[K, *shape]`` along the saved axes."""
    dims = step.dims(x)
    if x.indices:
        stack = transform(x.full(*dims), dims)
    else:  # of nothing, PyTorch knows no transform
        stack = x.stack.new_empty(x.stack.shape, dtype=step.wide(step.results[0].dtype))
    return x.changed(stack, shape=step.shape)


RULES: dict[str, Rule] = {
    "FftR2CBackward0": Rule(_of_real, is_for_complex=True),
    "FftC2CBackward0": Rule(_of_complex, is_for_complex=True),
    "FftC2RBackward0": Rule(_to_real, is_for_complex=True),
}
