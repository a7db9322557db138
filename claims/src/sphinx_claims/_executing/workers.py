"""Run each job (see `job`) in a new process, forked from one that has imported the modules."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Self

from sphinx_claims._executing.job import Outcome, outcome

QUIET = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
_LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Ask Linux for large memory pages, because forking then has less to copy."""

STRICT = {
    "PYTHONHASHSEED": "",  # a page must not depend on the order of a set
    "PYTHONINSPECT": "",
    "PYTHONOPTIMIZE": "",  # with optimization, Python would remove the asserts
    "PYTHONUTF8": "1",  # a page must not depend on the locale
    "PYTHONWARNINGS": "",
}


class Workers:
    """A context in which jobs run, each forked from a process that has imported `preload`."""

    def __init__(self, preload: Sequence[str]) -> None:
        if not hasattr(os, "fork"):
            message = "no process can be forked here: let them be spawned"
            raise RuntimeError(message)
        self._control, theirs = socket.socketpair()
        for end in (self._control, theirs):
            end.settimeout(None)  # another extension may have set a default timeout
        with theirs:
            ours = ("-P", "-m", "sphinx_claims._executing.forkserver", str(theirs.fileno()))
            self._forkserver = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, *ours, *preload],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**QUIET, **_LARGE_PAGES, **os.environ, **STRICT},
                process_group=0,  # Ctrl-C must reach this process only
            )
        self._running: set[Connection] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):  # another child may have inherited the socket
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        self._forkserver.wait()

    def stop(self) -> None:
        """Kill all running jobs and start no more."""
        with contextlib.suppress(OSError):  # the other end is closed already
            self._control.shutdown(socket.SHUT_RDWR)
        for orders in tuple(self._running):
            with (
                contextlib.suppress(OSError),  # the job has just ended
                socket.socket(fileno=os.dup(orders.fileno())) as end,
            ):
                end.shutdown(socket.SHUT_RDWR)

    def run(self, job: Callable[..., Iterator[Any]], *arguments: Any, seconds: float) -> Outcome:
        """Run `job(*arguments)` for at most `seconds`. Return the messages that it yielded."""
        (orders, theirs), (messages, writer) = Pipe(), Pipe(duplex=False)
        with orders, messages:
            self._running.add(orders)
            received: tuple[Any, ...] = ()
            process = None
            try:
                with theirs, writer:
                    self._hand_over(theirs, writer)
                orders.send((job, arguments, seconds))
                process = orders.recv()
                received = tuple(_receive(messages, orders))
                return outcome(received, orders.recv(), seconds)
            except (EOFError, ConnectionError):
                _kill(process)
                if not self._is_alive():
                    raise self._error() from None
                failure = "it killed the process that started it"
                return Outcome(messages=received, failure=failure)
            finally:
                self._running.discard(orders)

    def _hand_over(self, *ends: Connection) -> None:
        try:
            socket.send_fds(self._control, [b"."], [end.fileno() for end in ends])
        except OSError:  # the other end or, by another thread, this end is closed
            raise self._error() from None

    def _is_alive(self) -> bool:
        """Return whether the fork server still runs, after a job lost its connection to it."""
        try:
            self._forkserver.wait(1)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _error(self) -> RuntimeError:
        self._control.close()
        code = self._forkserver.wait()
        return RuntimeError(f"the process that executes pages is gone (exit code {code})")


def _kill(process: int | None) -> None:
    """Kill a job and all processes that it has started.

    `process` is the id of the job; None if it has not started.
    """
    if process:
        for kill in (os.kill, os.killpg):  # its process group may not exist yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(process, signal.SIGKILL)


def _receive(messages: Connection, orders: Connection) -> Iterator[Any]:
    """Yield messages until the pipe is closed or the job has ended.

    Something arrives in the pipe `orders` when the job has ended.
    """
    while messages in wait([messages, orders]):
        try:
            yield messages.recv()
        except Exception:  # noqa: BLE001 - an unreadable message ends the job
            return
