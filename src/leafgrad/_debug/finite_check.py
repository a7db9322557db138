"""Noticing numbers that are not finite, without waiting for an accelerator."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from leafgrad import _autograd


class FiniteCheck:
    """Checks tensors at each step for next to nothing.

    On a CPU the answer is there at once. On an accelerator the sum of a step is copied while the
    program goes on, and is read at a later step, once it has arrived.
    """

    def __init__(self) -> None:
        """Start without a sum on its way."""
        self.on_the_way: list[tuple[Tensor, torch.Event]] = []

    def has_failed(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether any number of these, or of an earlier call, is known not to be finite."""
        with _autograd.unobserved(), torch.no_grad():
            plain = [_plain(one) for one in tensors]
            if not plain:
                return False
            norm = _autograd.sum_of_norms(plain)
            if norm.device.type == "cpu":
                return not math.isfinite(norm.item()) and not all_finite(plain)
            return self._read_later(norm)

    def _read_later(self, norm: Tensor) -> bool:
        event = torch.Event(device=norm.device)
        self.on_the_way.append((norm.to("cpu", non_blocking=True), event))
        event.record()
        arrived = [one for one, event in self.on_the_way if event.query()]
        del self.on_the_way[: len(arrived)]
        return not all(math.isfinite(one.item()) for one in arrived)


def _plain(tensor: Tensor) -> Tensor:
    """Return the numbers of this process, as a dense tensor."""
    local: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local.coalesce().values() if local.is_sparse else local


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether all numbers are finite: a norm in half precision may overflow as well."""
    with _autograd.unobserved(), torch.no_grad():
        return all(bool(_plain(one).isfinite().all()) for one in tensors)
