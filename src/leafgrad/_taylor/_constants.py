"""Constant tensors, made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVarTuple

from torch import Tensor

from leafgrad import _autograd

Given = TypeVarTuple("Given")


def made_once(make: Callable[[*Given], Tensor]) -> Callable[[*Given], Tensor]:
    """Keep what a function makes, except within a mode, as that of fake tensors, or a transform.

    What is made there is of no use outside.
    """
    kept = lru_cache(maxsize=1024)(make)

    def constant(*given: *Given) -> Tensor:
        return make(*given) if _autograd.is_intercepted() else kept(*given)

    return constant
