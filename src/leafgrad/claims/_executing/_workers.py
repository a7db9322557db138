"""Run jobs in processes of their own, all forked from one that has imported what they need."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

from leafgrad.claims._executing._job import Outcome, outcome

_QUIET = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
_LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Of memory, where Linux has them: there is less to copy for each process that is forked."""

_STRICT = {
    "PYTHONHASHSEED": "",  # a page must not depend on the order of a set
    "PYTHONINSPECT": "",
    "PYTHONOPTIMIZE": "",  # which would strip the asserts
    "PYTHONUTF8": "1",  # as on most machines, whatever the locale of this one
    "PYTHONWARNINGS": "",
}


class Workers:
    """A context in which jobs run, each in a fresh copy of a process that imported `preload`."""

    def __init__(self, preload: Sequence[str]) -> None:
        if not hasattr(os, "fork"):
            message = "pages are executed in forked processes: use Linux, macOS or WSL"
            raise RuntimeError(message)
        self._control, theirs = socket.socketpair()
        with theirs:
            command = [
                "-P",
                "-m",
                "leafgrad.claims._executing._zygote",
                str(theirs.fileno()),
                *preload,
            ]
            self._zygote = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, *command],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**_QUIET, **_LARGE_PAGES, **os.environ, **_STRICT},
                process_group=0,  # Ctrl-C is for this process: the others see it end
            )
        self._running: set[Connection] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._control.close()
        self._zygote.wait()

    def stop(self) -> None:
        """Kill what runs, in whatever threads, and begin nothing more."""
        self._control.shutdown(socket.SHUT_RDWR)
        for orders in tuple(self._running):
            with (
                contextlib.suppress(OSError),  # it has just ended by itself
                socket.socket(fileno=os.dup(orders.fileno())) as end,
            ):
                end.shutdown(socket.SHUT_RDWR)

    def run(self, job: Callable[..., Iterator[Any]], *arguments: Any, seconds: float) -> Outcome:
        """Run `job(*arguments)` for at most `seconds`; return what it yielded until it ended."""
        (orders, theirs), (messages, writer) = Pipe(), Pipe(duplex=False)
        with orders, messages:
            self._running.add(orders)
            received: tuple[Any, ...] = ()
            try:
                with theirs, writer:
                    self._hand_over(theirs, writer)
                orders.send((job, arguments, seconds))
                received = tuple(_received(messages, orders))
                return outcome(received, orders.recv(), seconds)
            except (EOFError, ConnectionError):
                if not self._lives():
                    raise self._broken() from None
                return Outcome(messages=received, failure="it killed the process that started it")
            finally:
                self._running.discard(orders)

    def _hand_over(self, *ends: Connection) -> None:
        try:
            socket.send_fds(self._control, [b"."], [end.fileno() for end in ends])
        except ConnectionError:
            raise self._broken() from None

    def _lives(self) -> bool:
        """Tell whether there can be other jobs, although this one was cut off."""
        try:
            self._zygote.wait(1)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _broken(self) -> RuntimeError:
        self._control.close()
        code = self._zygote.wait()
        return RuntimeError(f"the process that executes pages is gone (exit code {code})")


def _received(messages: Connection, orders: Connection) -> Iterator[Any]:
    """Yield messages until there can be no more: the pipe is closed, or the job has ended."""
    while messages in wait([messages, orders]):
        try:
            yield messages.recv()
        except Exception:  # noqa: BLE001 - whatever a page has put on the line is its end
            return
