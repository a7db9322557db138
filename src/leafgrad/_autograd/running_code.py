"""What PyTorch's own code is doing, by the frames that run it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch.nn.modules import module
from torch.utils.hooks import RemovableHandle

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


def remove_hook_on_all(handle: RemovableHandle) -> None:
    """Remove a hook on all modules, with the note that it takes keyword arguments.

    ``remove()`` alone leaves that note in ``_global_forward_hooks_with_kwargs``, by which PyTorch
    takes it that there are hooks: each call of a module is slower, and a compiled one warns.
    """
    handle.remove()
    vars(module)["_global_forward_hooks_with_kwargs"].pop(handle.id, None)


Note = Callable[[torch.Tensor, torch.Tensor], None]


class _Watching(threading.local):
    """Who is to be told in this thread, the innermost last."""

    def __init__(self) -> None:
        self.notes: list[Note] = []


_watching = _Watching()
_lock = threading.Lock()
_users: list[object] = []


@contextmanager
def watched_parameters(note: Note) -> Iterator[None]:
    """Call `note` with what a parameter of this thread is made of, and with the parameter.

    ``nn.Parameter(tensor)`` takes the tensor's memory and drops its graph, and PyTorch tells no
    mode of it. So the call of the class is stood in for, as long as anyone in any thread is inside;
    in other threads it does what it always does. It is the metaclass that changes: a change of
    `torch.Tensor` or of the class would make Python forget what it knows of all tensors.
    """
    user = object()
    with _lock:
        if not _users:
            _META.__call__ = _call
        _users.append(user)
    _watching.notes.append(note)
    try:
        yield
    finally:
        _watching.notes.remove(note)
        with _lock:
            _users.remove(user)
            if not _users:
                del _META.__call__


_META: Any = type(torch.nn.Parameter)


def _call(cls: type, *args: Any, **kwargs: Any) -> Any:
    made = type.__call__(cls, *args, **kwargs)
    data = args[0] if args else kwargs.get("data")
    if isinstance(data, torch.Tensor):
        for note in _watching.notes:
            note(data, made)
    return made
