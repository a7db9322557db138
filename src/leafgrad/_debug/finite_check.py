"""Noticing numbers that are not finite, without waiting for an accelerator."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from leafgrad import _autograd


class FiniteCheck:
    """Checks tensors at each step for next to nothing.

    On a CPU the answer is there at once. On an accelerator the norm of a step is copied while the
    program goes on, and is read at a later step, once it has arrived. It is the maximum norm, which
    does not overflow; on a CPU that one takes seven times as long as the usual norm.
    """

    def __init__(self) -> None:
        """Start without a norm on its way."""
        self.on_the_way: list[tuple[Tensor, torch.Event]] = []

    def has_failed(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether any number of these, or of an earlier call, is known not to be finite."""
        with _autograd.unobserved(), torch.no_grad():
            plain = [one for one in map(_plain, tensors) if one.numel()]
            if not plain:
                return False
            if plain[0].device.type == "cpu":
                norm = _autograd.joint_norm(plain, 2)
                return not math.isfinite(norm.item()) and not all_finite(plain)
            norm = _autograd.joint_norm(plain, math.inf)
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
