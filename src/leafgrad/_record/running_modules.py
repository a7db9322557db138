"""Which module is running: PyTorch's own hooks on all modules tell, for as long as it is asked."""

from threading import get_ident
from typing import Any
from weakref import ref

from torch.nn import Module

from leafgrad import _autograd
from leafgrad._record.log import Log
from leafgrad._record.module_paths import ModuleCall, OutermostModule, join
from leafgrad._record.torch_functions import name_arguments


class RunningModules:
    """The modules that are running in one thread, from the outermost to the innermost."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.thread = get_ident()
        self.stack: list[ModuleCall] = []
        self.paths: dict[Module, str] = {}

    def begin(self, module: Module, _: Any) -> None:
        """Note which module runs: by its path in the outermost one, or by its class.

        The outermost one's own path is empty, as in ``named_modules()``.
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
        """Return the number of an outermost module, the same however often it is called."""
        known = [one.module() for one in self.log.outermost]
        if module in known:
            return known.index(module)
        has_children = next(module.children(), None) is not None
        self.log.outermost.append(OutermostModule(ref(module), type(module).__name__, has_children))
        return len(known)

    def end(self, module: Module, args: Any, kwargs: Any, *result: Any) -> None:
        """Go back to the module that called; one that never began has nothing to end.

        PyTorch passes no keyword arguments, but only a result, of a call that failed.
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
