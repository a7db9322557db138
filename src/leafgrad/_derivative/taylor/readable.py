"""Check whether the values of a tensor can be read here, which waits for its device."""

from __future__ import annotations

import torch
from torch import Tensor

from leafgrad import _autograd


def may_read(tensor: Tensor) -> bool:
    """Return whether a tensor holds values that can be read.

    Inside a dispatch mode or a transform it holds none, nor while a CUDA graph is captured.
    """
    if _autograd.is_intercepted():
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
