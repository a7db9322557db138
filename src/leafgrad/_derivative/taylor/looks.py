"""Whether numbers may be looked at, which waits for the device that they are on."""

from __future__ import annotations

import torch
from torch import Tensor

from leafgrad import _autograd


def may_look(tensor: Tensor) -> bool:
    """Return whether a tensor, of any shape, holds numbers, and not those of a mode or transform.

    While a CUDA graph is captured, nothing is computed yet.
    """
    if _autograd.is_intercepted():
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
