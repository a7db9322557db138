"""The process that all pages are forked from: it has imported everything and run nothing.

Started as `python -m leafgrad.claims._zygote SOCKET MODULE...`; for each two file descriptors that
arrive on the socket it forks a supervisor, which forks the process in which one job runs.
"""

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from leafgrad.claims._job import JobEnd


def serve(control: socket.socket) -> None:
    """Fork a supervisor for each job until the other end of `control` is closed."""
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if not descriptors:
            return
        if os.fork() == 0:
            try:
                control.close()
                _supervise(*map(Connection, descriptors))
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        _reap()


def _supervise(orders: Connection, messages: Connection) -> None:
    """Run one job in a process of its own; answer with its exit code, None if it took too long."""
    function, arguments, seconds = orders.recv()
    job = get_context("fork").Process(target=_work, args=(messages, function, arguments))
    job.start()
    messages.close()
    if job.sentinel in wait([job.sentinel, orders], seconds):
        job.join(seconds)
    code = job.exitcode
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: all are zombies
        os.killpg(job.pid or 0, signal.SIGKILL)  # and all that it has started
    job.kill()
    job.join()
    with contextlib.suppress(BrokenPipeError):
        orders.send(code)


def _work(
    messages: Connection, function: Callable[..., Iterator[Any]], arguments: tuple[Any, ...]
) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    failure = None
    try:
        for message in function(*arguments):
            messages.send(message)
    except BaseException as error:  # noqa: BLE001 - the other end tells of it
        failure = traceback.format_exception_only(error)[-1].strip()
    messages.send(JobEnd(failure))
    os._exit(0)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _main(descriptor: str, *preload: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in ("leafgrad.claims._execute", *preload):
            try:
                importlib.import_module(module)
            except ImportError as error:
                sys.exit(f"every module to preload must be importable: {error}")
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(descriptor)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
