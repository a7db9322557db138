"""What `torch.func` wraps around a tensor."""

from __future__ import annotations

from collections.abc import Callable

import torch

is_wrapped: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor

_is_of_old_vmap: Callable[[torch.Tensor], bool] = torch._C._functorch.is_legacy_batchedtensor


def is_batch(gradient: torch.Tensor) -> bool:
    """Say whether a gradient is a batch of them, as ``is_grads_batched`` and `torch.func` send.

    No operation may write such a tensor into a plain one, nor have it for its ``out``.
    """
    return is_wrapped(gradient) or _is_of_old_vmap(gradient)


def functorch_wrapper(tensor: torch.Tensor) -> str | None:
    """Name the `torch.func` transform that wraps the tensor and its level, or give None."""
    if not is_wrapped(tensor):
        return None
    functorch = torch._C._functorch
    level = functorch.maybe_get_level(tensor)
    running = {entry.level(): entry.key() for entry in functorch.get_interpreter_stack() or ()}
    return f"{running[level].name.lower()}, level {level}" if level in running else "ended"


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """Give the tensor inside a `torch.func` wrapper, one level deeper."""
    return torch._C._functorch.get_unwrapped(tensor)


def without_wrappers(tensor: torch.Tensor) -> torch.Tensor:
    """Give the tensor inside all `torch.func` wrappers, the tensor itself where it has none."""
    while is_wrapped(tensor):
        tensor = unwrapped(tensor)
    return tensor
