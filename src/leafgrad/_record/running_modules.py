"""Which module is running: PyTorch's own hooks on all modules tell, for as long as it is asked."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch.nn import Module
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from leafgrad import _autograd
from leafgrad._record.log import Log
from leafgrad._record.module_paths import ModuleCall, OutermostModule, join


@contextmanager
def record_modules(log: Log) -> Iterator[None]:
    """Note the path of each module of this thread when it starts, and who goes on when it ends."""
    running = _Running(log)
    begin = register_module_forward_pre_hook(running.begin)
    end = register_module_forward_hook(running.end, with_kwargs=True, always_call=True)
    try:
        yield
    finally:
        begin.remove()
        _autograd.remove_hook_on_all(end)


class _Running:
    """The modules that are running in one thread, from the outermost to the innermost."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.thread = get_ident()
        self.stack: list[tuple[Module, ModuleCall]] = []
        self.paths: dict[Module, str] = {}
        self.known: dict[tuple[int, str], ModuleCall] = {}
        self.outermost: WeakKeyDictionary[Module, int] = WeakKeyDictionary()

    def begin(self, module: Module, _: Any) -> None:
        """Note which module runs: by its path in the outermost one, or by its class.

        The outermost one's own path is empty, as in ``named_modules()``.
        """
        if get_ident() != self.thread:
            return
        if not self.stack:
            self.paths = {inner: path for path, inner in module.named_modules()}
        call = self._call(module)
        self.stack.append((module, call))
        self.log.modules.append((_autograd.next_sequence_nr(), call))

    def _call(self, module: Module) -> ModuleCall:
        """Return the call of a module, the same one as long as it runs in the same place."""
        caller = self.stack[-1][1] if self.stack else None
        outermost = self._outermost(module) if caller is None else caller.outermost
        path, unregistered_in = self.paths.get(module), None
        if path is None:
            unregistered_in = caller
            path = join(caller.path if caller else "", type(module).__name__)
        call = self.known.get((outermost, path))
        if (
            call is None
            or call.module() is not module
            or call.unregistered_in is not unregistered_in
        ):
            kind = type(module).__name__
            call = ModuleCall(ref(module), outermost, path, unregistered_in, kind)
            self.known[outermost, path] = call
        return call

    def _outermost(self, module: Module) -> int:
        """Return the number of an outermost module, the same however often it is called."""
        number = self.outermost.setdefault(module, len(self.log.outermost))
        if number == len(self.log.outermost):
            has_children = next(module.children(), None) is not None
            outermost = OutermostModule(ref(module), type(module).__name__, has_children)
            self.log.outermost.append(outermost)
        return number

    def end(self, module: Module, args: Any, *more: Any) -> None:
        """Go back to the module that called; one that never began has nothing to end.

        Between the arguments and the result are those by keyword, but not where it has failed.
        """
        if get_ident() != self.thread or not self.stack or self.stack[-1][0] is not module:
            return
        self.stack.pop()
        caller = self.stack[-1][1] if self.stack else None
        self.log.modules.append((_autograd.next_sequence_nr(), caller))
        if caller is None:
            self.paths = {}
            with _autograd.unobserved():
                self.log.note_inputs(_arguments(module, args, *more[:-1]))
            self.log.drop_if_large()


_NO_KEYWORDS: Mapping[str, Any] = MappingProxyType({})


def _arguments(
    module: Module, args: Any, kwargs: Mapping[str, Any] = _NO_KEYWORDS
) -> dict[str, Any]:
    """Return what a module was given, by the names of its arguments as far as it has any."""
    try:
        bound = inspect.signature(module.forward).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):  # what is no function of Python may have no signature
        return {**{f"argument {place}": one for place, one in enumerate(args)}, **kwargs}
    given: dict[str, Any] = bound.arguments
    return given
