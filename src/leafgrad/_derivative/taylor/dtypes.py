"""Dtypes of coefficients ``[K, *shape]``: single or double precision."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


def is_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Check whether a device supports `dtype`: MPS has no double precision."""
    return dtype != torch.float64 or device.type != "mps"


@cache
def wider(one: torch.dtype, two: torch.dtype) -> torch.dtype:
    """Return a dtype at least as precise as both, and complex if one of them is complex."""
    return torch.promote_types(one, two)


def at_least(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert `value` ``[*shape]`` to at least the precision of `dtype`. Its graph is kept."""
    return value if value.dtype == dtype else value.to(wider(value.dtype, dtype))
