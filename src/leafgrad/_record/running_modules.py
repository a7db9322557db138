"""Hooks on all modules that record which module is running."""

from threading import get_ident
from typing import Any
from weakref import ref

from torch.nn import Module

from leafgrad import _autograd
from leafgrad._record.log import Log
from leafgrad._record.module_paths import ModuleCall, OutermostModule, join
from leafgrad._record.torch_functions import name_arguments


class RunningModules:
    """The stack of running modules in one thread, recorded into a log."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.thread = get_ident()
        self.stack: list[ModuleCall] = []
        self.paths: dict[Module, str] = {}

    def begin(self, module: Module, _: Any) -> None:
        """Record that a module starts, with its path in the outermost module.

        The path of the outermost module is empty, as in ``named_modules()``. A module that is not
        registered there gets the path of its caller and its class name.
        """
        if get_ident() != self.thread:
            return
        if not self.stack:
            self.paths = {inner: path for path, inner in module.named_modules()}
        caller = self.stack[-1] if self.stack else None
        outermost = self._outermost(module) if caller is None else caller.outermost
        kind = type(module).__name__
        path, unregistered_in = self.paths.get(module), None
        if path is None and caller is not None:
            path, unregistered_in = join(caller.path, kind), caller
        self.stack.append(ModuleCall(ref(module), outermost, path or "", unregistered_in, kind))
        self.log.modules.append((_autograd.next_sequence_nr(), self.stack[-1]))

    def _outermost(self, module: Module) -> int:
        """Return the index of an outermost module in the log; add it at its first call."""
        known = [one.module() for one in self.log.outermost]
        if module in known:
            return known.index(module)
        has_children = next(module.children(), None) is not None
        self.log.outermost.append(OutermostModule(ref(module), type(module).__name__, has_children))
        return len(known)

    def end(self, module: Module, args: Any, kwargs: Any, *result: Any) -> None:
        """Record that a module ends, unless a hook stopped it before it started.

        If the module raised an error, PyTorch passes None instead of the keyword arguments.
        """
        if get_ident() != self.thread or not self.stack or self.stack[-1].module() is not module:
            return
        self.stack.pop()
        caller = self.stack[-1] if self.stack else None
        self.log.modules.append((_autograd.next_sequence_nr(), caller))
        if caller is None:
            self.paths = {}
            with _autograd.unobserved():
                self.log.note_inputs(
                    name_arguments(module.forward, args, kwargs if result else None)
                )
            self.log.drop_if_large()
