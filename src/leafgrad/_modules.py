"""Which module is running: PyTorch's own hooks on all modules tell, for as long as it is asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from torch.nn import Module
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from leafgrad import _autograd
from leafgrad._log import Log


@contextmanager
def watched_modules(log: Log) -> Iterator[None]:
    """Note the path of each module of this thread when it starts, and who goes on when it ends."""
    running = _Running(log)
    begin = register_module_forward_pre_hook(running.begin)
    end = register_module_forward_hook(running.end, always_call=True)
    try:
        yield
    finally:
        begin.remove()
        end.remove()


class _Running:
    """The modules that are running in one thread, from the outermost to the innermost."""

    def __init__(self, log: Log) -> None:
        self.events = log.modules
        self.trim = log.trim
        self.thread = get_ident()
        self.stack: list[tuple[Module, str]] = []
        self.paths: dict[Module, str] = {}

    def begin(self, module: Module, _: Any) -> None:
        """Name the module by its path in the outermost one, and what is not in there by its class.

        The outermost one's own path is empty, as in ``named_modules()``.
        """
        if get_ident() != self.thread:
            return
        if not self.stack:
            self.paths = {inner: path for path, inner in module.named_modules()}
        path = self.paths.get(module)
        if path is None:
            path = f"{self.stack[-1][1]}.{type(module).__name__}".removeprefix(".")
        self.stack.append((module, path))
        self.events.append((_autograd.next_sequence_nr(), path))

    def end(self, module: Module, *_: Any) -> None:
        """Go back to the module that called; one that never began has nothing to end."""
        if get_ident() != self.thread or not self.stack or self.stack[-1][0] is not module:
            return
        self.stack.pop()
        if self.stack:
            self.events.append((_autograd.next_sequence_nr(), self.stack[-1][1]))
        else:
            self.events.append((_autograd.next_sequence_nr(), None))
            self.paths = {}
            self.trim()
