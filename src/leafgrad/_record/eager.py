"""Letting what `torch.compile` made run as it was written."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

import torch

_lock = Lock()
_users: list[object] = []
_stance = ExitStack()


@contextmanager
def force_eager() -> Iterator[None]:
    """Run compiled code as it was written, for as long as anyone in any thread is inside.

    PyTorch has one switch for all threads, so the first to come sets it and the last to go sets it
    back. Where the compiler was not loaded nothing is compiled, and to load it would take long.
    """
    user = object()
    with _lock:
        if not _users and "torch._dynamo" in sys.modules:
            _stance.enter_context(torch.compiler.set_stance("force_eager"))
        _users.append(user)
    try:
        yield
    finally:
        with _lock:
            _users.remove(user)
            if not _users:
                _stance.close()
