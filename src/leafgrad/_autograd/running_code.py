"""What PyTorch's own code is doing, by the frames that run it."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

SET_GRAD_ENABLED: Callable[[bool], None] = torch._C._set_grad_enabled
"""What each way to switch gradients on or off calls, and a `TorchFunctionMode` is shown."""


def stepping_optimizer(frame: FrameType) -> str | None:
    """Return the class of the optimizer whose step this frame of PyTorch's wraps, None for others.

    Each subclass of `torch.optim.Optimizer` has its ``step()`` wrapped when one is made.
    """
    code = frame.f_code
    if code.co_name != "wrapper" or code.co_filename != _OPTIMIZER:
        return None
    optimizer: Any = frame.f_locals["args"][0]
    return type(optimizer).__name__


def is_plain_optimizer(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether only code of PyTorch's own runs in an optimizer's step, unrecorded."""
    hooks = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
    is_own = type(optimizer).__module__.startswith("torch.optim.")
    return is_own and not any(hooks) and not optimizer.defaults.get("differentiable")


_OPTIMIZER = torch.optim.Optimizer.profile_hook_step.__code__.co_filename


def is_grad_mode(file: str) -> bool:
    """Return whether a file is of what switches gradients on and off, or of a module's call."""
    return file in _GRAD_MODE


_GRAD_MODE = {
    torch.no_grad.__enter__.__code__.co_filename,
    torch.utils._contextlib.context_decorator.__code__.co_filename,
    torch.nn.Module.__call__.__code__.co_filename,
}
