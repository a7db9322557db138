"""Dtypes of coefficients ``[K, *shape]``: single precision, or double where one asks for it."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


def is_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether a device computes with a dtype of coefficients: Apple's have no double."""
    return dtype != torch.float64 or device.type != "mps"


@cache
def wider(one: torch.dtype, two: torch.dtype) -> torch.dtype:
    """Return the dtype that is as precise as either, and complex where one of them is."""
    return torch.promote_types(one, two)


def at_least(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a tensor ``[*shape]`` that holds what this dtype does, with its graph."""
    return value if value.dtype == dtype else value.to(wider(value.dtype, dtype))
