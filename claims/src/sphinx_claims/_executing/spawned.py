"""Run each job in a new process, where processes cannot be forked.

That is slower, and as right. It is started as `python -m sphinx_claims._executing.spawned`: the
order comes on standard input, and what was standard output takes the messages, one pickle after
the other. The first is None: everything is imported, and the time of the job begins.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from threading import Event, Timer
from typing import IO, Any, NoReturn

from sphinx_claims._executing.job import JobEnd, Outcome, import_all, limit_files, outcome, run_job
from sphinx_claims._executing.workers import QUIET, STRICT, Workers

_COMMAND = (sys.executable, "-P", "-m", "sphinx_claims._executing.spawned")


class SpawnedWorkers(Workers):
    """A context in which jobs run, each in a process that imports `preload` before it begins."""

    def __init__(self, preload: Sequence[str]) -> None:
        self._preload = tuple(preload)
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill all running jobs and start no more."""
        self._is_stopped = True
        for process in tuple(self._processes):
            _kill(process)

    def run(self, job: Callable[..., Iterator[Any]], *arguments: Any, seconds: float) -> Outcome:
        """Run `job(*arguments)` for at most `seconds`; return what it yielded until it ended."""
        if self._is_stopped:
            raise RuntimeError("nothing is executed any more: it was stopped")
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**QUIET, **os.environ, **STRICT},
            start_new_session=True,  # Ctrl-C is for this process
        )
        self._processes.add(process)
        is_late = Event()
        timer = Timer(seconds, _end_late, (process, is_late))
        timer.daemon = True
        try:
            received = _communicate(process, (self._preload, job, arguments), timer)
            code = process.wait()
        finally:
            timer.cancel()
            _kill(process)
            self._processes.discard(process)
        return outcome(received, None if is_late.is_set() else code, seconds)


KINDS = {"fork": Workers, "spawn": SpawnedWorkers}


def workers(preload: Sequence[str], kind: str | None) -> Workers:
    """Start workers of a `kind`, by default the fastest safe one."""
    return KINDS[kind or usual_kind()](preload)


def usual_kind() -> str:
    """Return the fastest kind that is safe on this system.

    On macOS a forked process may crash in the system's libraries, which NumPy computes with.
    """
    return "fork" if hasattr(os, "fork") and sys.platform != "darwin" else "spawn"


def _communicate(
    process: subprocess.Popen[bytes], order: tuple[Any, ...], timer: Timer
) -> tuple[Any, ...]:
    """Send a process its job, start `timer` when the job begins, and return its messages."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("a process must have both pipes")
    with process.stdout as messages:
        with contextlib.suppress(OSError), process.stdin as orders:
            pickle.dump(order, orders)
        ready = [*_receive(messages, most=1)]
        if not ready:
            code = process.wait()
            raise RuntimeError(f"the process that executes pages is gone (exit code {code})")
        timer.start()
        return tuple(_receive(messages))


def _receive(messages: IO[bytes], most: int = sys.maxsize) -> Iterator[Any]:
    """Yield at most `most` messages; stop at the last one or at the first unreadable one."""
    for _ in range(most):
        try:
            message = pickle.load(messages)  # noqa: S301 - of our own process, as pages are
        except Exception:  # noqa: BLE001 - that is its end
            return
        yield message
        if isinstance(message, JobEnd):
            return


def _end_late(process: subprocess.Popen[bytes], is_late: Event) -> None:
    if process.poll() is None:
        is_late.set()
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it has started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        command = ["taskkill", "/F", "/T", "/PID", str(process.pid)]  # of Windows
        with contextlib.suppress(OSError):
            subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - its own child
    process.kill()


def _main() -> NoReturn:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        preload, function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own process's
    except (EOFError, pickle.UnpicklingError):  # the parent ended before it sent a job
        sys.exit(1)
    messages = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)

    def send(message: Any) -> None:
        pickle.dump(message, messages)
        messages.flush()

    import_all(preload)
    limit_files()
    send(None)
    run_job(send, function, arguments)


if __name__ == "__main__":
    _main()
