"""The making of parameters, which no mode is shown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

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
