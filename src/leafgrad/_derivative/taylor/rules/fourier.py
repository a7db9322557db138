"""Rules for Fourier transforms. They are linear, so each coefficient is transformed separately.

The transforms run along axes of the shape of ``[K, *shape]``. The normalisation is the saved one.
The forward pass has already cut off or padded the ends of an axis.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.series import Series

# Nodes save the normalisation as a number: 0 divides by 1, 1 by sqrt(n), 2 by n. These are the
# names of `torch.fft` for it, which are swapped for inverse transforms.
_FORWARD = {0: "backward", 1: "ortho", 2: "forward"}
_BACK = {0: "forward", 1: "ortho", 2: "backward"}


def _of_real(step: Step, x: Series) -> Series:
    """Return the Fourier transform of a real series along the saved axes.

    If the saved transform is one-sided, return only the first half of the last of these axes.
    """
    transform = torch.fft.rfftn if step.saved("onesided") else torch.fft.fftn
    norm = _FORWARD[step.saved("normalization")]
    return _transformed(step, x, lambda stack, dims: transform(stack, dim=dims, norm=norm))


def _of_complex(step: Step, x: Series) -> Series:
    """Return the Fourier transform of a complex series, or the inverse, along the saved axes."""
    is_forward = step.saved("forward")
    transform = torch.fft.fftn if is_forward else torch.fft.ifftn
    norm = (_FORWARD if is_forward else _BACK)[step.saved("normalization")]
    return _transformed(step, x, lambda stack, dims: transform(stack, dim=dims, norm=norm))


def _to_real(step: Step, x: Series) -> Series:
    """Return the real series whose one-sided Fourier transform along the saved axes is x."""
    sizes, norm = [step.shape[dim] for dim in step.dims(x)], _BACK[step.saved("normalization")]
    return _transformed(
        step, x, lambda stack, dims: torch.fft.irfftn(stack, s=sizes, dim=dims, norm=norm)
    )


def _transformed(step: Step, x: Series, transform: Callable[[Tensor, list[int]], Tensor]) -> Series:
    """Return the series whose stack is `transform` of the stack of x along the saved axes."""
    dims = step.dims(x)
    if x.indices:
        stack = transform(x.full(*dims), dims)
    else:  # PyTorch cannot transform an empty tensor.
        stack = x.stack.new_empty(x.stack.shape, dtype=step.wide(step.results[0].dtype))
    return x.changed(stack, shape=step.shape)


RULES: dict[str, Rule] = {
    "FftR2CBackward0": Rule(_of_real, is_for_complex=True),
    "FftC2CBackward0": Rule(_of_complex, is_for_complex=True),
    "FftC2RBackward0": Rule(_to_real, is_for_complex=True),
}
