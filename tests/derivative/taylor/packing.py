"""Saved tensors that can be counted while they are alive."""

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

import torch
from torch import Tensor


class Packed:
    """A saved tensor, which is alive as long as the node that saved it."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


@contextmanager
def packing() -> Iterator[WeakSet[Packed]]:
    """Yield the set of tensors that nodes save within the context and that are still alive."""
    packed: WeakSet[Packed] = WeakSet()

    def pack(tensor: Tensor) -> Packed:
        packed.add(
            kept := Packed(tensor.detach())
        )  # otherwise the saved tensor would hold its own node
        return kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept.tensor):
        yield packed
