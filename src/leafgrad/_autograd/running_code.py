"""Recognize PyTorch's own code while it runs: optimizers, gradient modes, hooks and parameters."""

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
"""The function that every gradient mode calls. A `TorchFunctionMode` sees these calls."""


def stepping_optimizer(frame: FrameType) -> str | None:
    """Return the class name of the optimizer whose ``step()`` a frame wraps, None for other frames.

    PyTorch wraps the ``step()`` of every optimizer class when an optimizer is created.
    """
    code = frame.f_code
    if code.co_name != "wrapper" or code.co_filename != _OPTIMIZER:
        return None
    optimizer: Any = frame.f_locals["args"][0]
    return type(optimizer).__name__


def is_plain_optimizer(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether the optimizer's step runs only PyTorch's own code and creates no graph."""
    hooks = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
    is_own = type(optimizer).__module__.startswith("torch.optim.")
    return is_own and not any(hooks) and not optimizer.defaults.get("differentiable")


_OPTIMIZER = torch.optim.Optimizer.profile_hook_step.__code__.co_filename


def is_grad_mode(file: str) -> bool:
    """Return whether a file contains PyTorch's code for gradient modes or module calls."""
    return file in _GRAD_MODE


_GRAD_MODE = {
    torch.no_grad.__enter__.__code__.co_filename,
    torch.utils._contextlib.context_decorator.__code__.co_filename,
    torch.nn.Module.__call__.__code__.co_filename,
}


def remove_hook_on_all(handle: RemovableHandle) -> None:
    """Remove a global module hook that was registered with ``with_kwargs=True``.

    ``remove()`` leaves an entry in ``_global_forward_hooks_with_kwargs``. PyTorch then still
    assumes hooks: module calls are slower, and compiled modules warn.
    """
    handle.remove()
    vars(module)["_global_forward_hooks_with_kwargs"].pop(handle.id, None)


Note = Callable[[torch.Tensor, torch.Tensor], None]


class _Watching(threading.local):
    """The callbacks that `watched_parameters` set in this thread, the innermost last."""

    def __init__(self) -> None:
        self.notes: list[Note] = []


_watching = _Watching()
_lock = threading.Lock()
_users: list[object] = []


@contextmanager
def watched_parameters(note: Note) -> Iterator[None]:
    """Call `note(data, parameter)` whenever this thread creates a parameter.

    ``nn.Parameter(tensor)`` shares the tensor's memory and drops its graph, and no mode sees this.
    So the ``__call__`` of the metaclass is replaced while any thread is in this context. In other
    threads, the replacement calls nothing else. Replacing a method of `torch.Tensor` instead would
    invalidate Python's method caches for all tensors.
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
    """Create an instance of a parameter class, and notify the callbacks of this thread."""
    made = type.__call__(cls, *args, **kwargs)
    data = args[0] if args else kwargs.get("data")
    if isinstance(data, torch.Tensor):
        for note in _watching.notes:
            note(data, made)
    return made
