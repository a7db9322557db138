"""The process from which the processes of all pages are forked. It has imported all modules.

Usage: `python -m sphinx_claims._executing.forkserver SOCKET MODULE...`. For each pair of file
descriptors received on the socket, it forks a supervisor, which forks the process of one job.
"""

import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Any, NoReturn

from sphinx_claims._executing.job import import_all, limit_files, run_job


def serve(control: socket.socket) -> None:
    """Fork a supervisor for each job until the other end of `control` is closed."""
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if not descriptors:
            return _reap(0)
        if os.fork() == 0:
            try:
                control.close()
                _supervise(*map(Connection, descriptors))
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        _reap(os.WNOHANG)


def _supervise(orders: Connection, messages: Connection) -> None:
    """Run one job in a new process. Send its exit code to `orders`, or None after a timeout.

    The job sends its messages to `messages`.
    """
    function, arguments, seconds = orders.recv()
    job = os.fork()
    if job == 0:
        orders.close()
        _work(messages, function, arguments)
    with contextlib.suppress(BrokenPipeError):
        orders.send(job)  # If this process dies, the caller can kill the job.
    messages.close()
    ended, ending = Pipe(duplex=False)
    waiting = Thread(target=lambda: ending.send(os.waitpid(job, 0)[1]))
    waiting.start()
    has_ended = ended in wait([ended, orders], seconds)
    if not has_ended:
        with contextlib.suppress(ProcessLookupError):
            os.kill(job, signal.SIGKILL)  # its process group may not exist yet
    # macOS raises an error if all processes of the group are zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(job, signal.SIGKILL)  # This also kills all children of the job.
    with contextlib.suppress(BrokenPipeError):
        orders.send(os.waitstatus_to_exitcode(ended.recv()) if has_ended else None)
    waiting.join()  # The thread writes to a pipe that is closed below.


def _work(
    messages: Connection, function: Callable[..., Iterator[Any]], arguments: tuple[Any, ...]
) -> NoReturn:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    limit_files()
    gc.enable()
    run_job(messages.send, function, arguments)


def _reap(options: int) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _main(descriptor: str, *preload: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # This saves a fifth of the time of a large import.
    import_all(preload)
    gc.freeze()
    serve(socket.socket(fileno=int(descriptor)))
    os._exit(0)  # Python's own shutdown takes longer than a page


if __name__ == "__main__":
    _main(*sys.argv[1:])
