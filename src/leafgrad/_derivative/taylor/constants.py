"""Constant tensors that are created once and cached."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar, TypeVarTuple

import torch
from torch import Tensor

from leafgrad import _autograd

Given = TypeVarTuple("Given")
Made = TypeVar("Made")


def make_once(make: Callable[[*Given], Made]) -> Callable[[*Given], Made]:
    """Wrap `make` so that its results are cached, except inside a dispatch mode or a transform.

    Tensors that are created there, such as fake tensors, cannot be used outside.
    """
    kept = lru_cache(maxsize=1024)(make)

    def constant(*given: *Given) -> Made:
        return make(*given) if _autograd.is_intercepted() else kept(*given)

    return constant


@make_once
def number(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the Python number `value` as a cached tensor without axes.

    Operations on it are faster than on the number, which PyTorch would convert each time.
    """
    with torch.inference_mode(mode=False):
        return torch.tensor(value, dtype=dtype, device=device)
