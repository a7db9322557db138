"""The numbers that PyTorch gives to nodes, one after the other in each thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch.autograd.graph import Node

OF_NO_OPERATION = 2**64 - 1


def sequence_nr(node: Node) -> int | None:
    """Give the node's number, by which backward goes; None for a node that stands for a leaf."""
    number: int = node._sequence_nr()
    return None if number == OF_NO_OPERATION else number


def sequence_nrs(numbers: Iterable[int]) -> list[int | None]:
    """Give what `sequence_nr` does of many nodes, by what they say themselves."""
    return [None if number == OF_NO_OPERATION else number for number in numbers]


# The number that the next node of this thread will get. As it is: a recording asks all the time.
next_sequence_nr: Callable[[], int] = torch._C._autograd._get_sequence_nr
