"""Optimizers and other objects of a running program, found by the garbage collector."""

import gc
from collections.abc import Iterable
from typing import TypeVar

from torch import Tensor
from torch.optim import Optimizer

Kind = TypeVar("Kind")


def parameters_of(optimizers: Iterable[Optimizer]) -> dict[int, Tensor]:
    """Return the parameters that some optimizers hold, by their identities."""
    return {
        id(one): one
        for optimizer in optimizers
        for group in optimizer.param_groups
        for one in group["params"]
    }


def living(kind: type[Kind]) -> list[Kind]:
    """Return all living objects of a class."""
    return [one for one in gc.get_objects() if issubclass(type(one), kind)]
