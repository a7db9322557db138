"""Check whether the values of a tensor can be read at this point."""

from __future__ import annotations

import torch
from torch import Tensor

from leafgrad import _autograd


def may_read(tensor: Tensor) -> bool:
    """Check whether the values of a tensor can be read. Reading them waits for the device.

    They cannot be read inside a dispatch mode or a transform, or while a CUDA graph is captured.
    """
    if _autograd.is_intercepted():
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
