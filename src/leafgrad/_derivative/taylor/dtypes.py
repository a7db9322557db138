"""Dtypes of coefficients: single precision, or double where a value or an order asks for it."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


def is_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether a device computes with a dtype of coefficients: Apple's have no double."""
    return dtype != torch.float64 or device.type != "mps"


@cache
def wider(one: torch.dtype, two: torch.dtype) -> torch.dtype:
    """Return the floating dtype that holds more."""
    return one if torch.finfo(one).bits >= torch.finfo(two).bits else two


def at_least(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a tensor ``[*shape]`` that is as precise as this dtype, with its graph."""
    if value.dtype == dtype or wider(value.dtype, dtype) == value.dtype:
        return value
    return value.to(dtype)
