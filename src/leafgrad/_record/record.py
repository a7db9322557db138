"""`record`: record the module and the line of code that create each graph node."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import Lock

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import register_optimizer_step_pre_hook

from leafgrad import _autograd
from leafgrad._arguments.signature import public_function
from leafgrad._graph.nodes import Source, Write
from leafgrad._messages import message
from leafgrad._record.call_recorder import CallRecorder
from leafgrad._record.log import Log
from leafgrad._record.running_modules import RunningModules
from leafgrad._record.value_recorder import ValueRecorder


class Recording:
    """The line and module of each node, and the in-place writes, as `record` saw them.

    Pass it to `trace_graph` or `diagnose`. You can read it at any time, even inside the block. It
    keeps no tensor, node or module alive.
    """

    def __init__(self, log: Log) -> None:
        """Wrap a log."""
        self._log = log

    @property
    def log(self) -> Log:
        """The data of the recording, including the last optimizer step.

        :meta private:
        """
        self._log.finish_step()
        if self._log.is_full:
            raise RuntimeError(message("errors.record.full", most=self._log.max_entries))
        return self._log

    @property
    def sources(self) -> tuple[Source, ...]:
        """The lines that created nodes, ordered by the first node that each line created."""
        return self.log.sources()

    @property
    def modules(self) -> tuple[str, ...]:
        """The paths of the modules that ran, ordered by their first call.

        A path begins in the outermost module that was called. If you called several modules that
        have submodules, the path begins with a class name, as in ``"Encoder.0"``. A trace with
        ``names=`` shows the paths in the named modules instead.
        """
        return tuple(dict.fromkeys(self.log.paths({}).values()))

    @property
    def writes(self) -> tuple[Write, ...]:
        """The in-place writes, in the order in which they ran."""
        return tuple(self.log.writes)


def log_of(recording: object) -> Log:
    """Return the log of a recording, or an empty log for None."""
    match recording:
        case None:
            return _NOTHING
        case Recording():
            return recording.log
        case _:
            raise TypeError(
                f"recording must be what record() gave, not {type(recording).__name__}; "
                "name it as in `with record() as recording:`"
            )


_NOTHING = Log(0)


_lock = Lock()
_users: list[None] = []
_stance = ExitStack()


@contextmanager
def force_eager() -> Iterator[None]:
    """Run compiled functions eagerly while any thread is inside this context.

    PyTorch has one setting for all threads: the first context changes it, and the last one restores
    it. If the compiler was not imported, nothing is compiled, and importing it would be slow.
    """
    with _lock:
        if not _users and "torch._dynamo" in sys.modules:
            _stance.enter_context(torch.compiler.set_stance("force_eager"))
        _users.append(None)
    try:
        yield
    finally:
        with _lock:
            _users.pop()
            if not _users:
                _stance.close()


@contextmanager
def _recording(*, values: bool) -> Iterator[Recording]:
    log = Log(_autograd.next_sequence_nr())
    if not torch.is_grad_enabled():
        log.switches.append(("no_grad() or set_grad_enabled(False)", None))
    with ExitStack() as entered:
        entered.enter_context(force_eager())
        modules = RunningModules(log)
        entered.callback(register_module_forward_pre_hook(modules.begin).remove)
        end = register_module_forward_hook(modules.end, with_kwargs=True, always_call=True)
        entered.callback(_autograd.remove_hook_on_all, end)
        calls = entered.enter_context(CallRecorder(log))
        entered.callback(calls.finish_step)
        entered.callback(register_optimizer_step_pre_hook(calls.begin_step).remove)
        entered.enter_context(_autograd.watched_parameters(calls.note_parameter))
        if values:
            entered.enter_context(ValueRecorder(log))
        yield Recording(log)


@public_function(
    refusal="record() must start outside of a function that torch.compile compiles, not within: "
    "call the compiled function inside of the `with record()` block",
)
def record(*, values: bool = False) -> AbstractContextManager[Recording]:
    """Record which module and which line of code create each node, and all in-place writes.

    Run your code inside ``with record() as recording:`` and pass the recording to `trace_graph` or
    `diagnose`. For a whole training loop, use `debug` instead: a recording of more than 300,000
    calls drops its entries, and reading it raises an error.

    Args:
        values: Whether to summarize the result of each call, for ``trace_graph(..., values=True)``.
            This reads all data once more, and waits for each operation on a GPU.

    Returns:
        A context manager. The value after ``as`` is a `Recording`.

    Example:
        >>> import torch
        >>> from leafgrad import record, trace_graph
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh())
        >>> with record() as recording:
        ...     y = model(torch.ones(1, 2))
        >>> trace = trace_graph(y, recording=recording)
        >>> [(node.name, node.module) for node in trace.nodes[:2]]
        [('TanhBackward0', '1'), ('AddmmBackward0', '0')]
        >>> trace.nodes[0].source.line
        2

    Raises:
        TypeError: If `values` is not a bool, or if you pass a positional argument, such as the
            model.

    Note:
        Only the thread that entered the block is recorded. Recordings can be nested, and exceptions
        propagate. A recording stores the sequence numbers of nodes, so it keeps no tensor and no
        node alive.

        Inside the block, code compiled by `torch.compile` runs uncompiled, because compiled code
        has no lines. PyTorch may issue warnings about hooks, which name lines of leafgrad. The
        recording has no line for operations of TorchScript, or for a custom function that calls no
        PyTorch function. To see where such a custom function is defined, read
        `TracedNode.custom_function`.
    """
    if not isinstance(values, bool):
        raise TypeError(f"values must be a bool, not {type(values).__name__}; True reads all data")
    return _recording(values=values)
