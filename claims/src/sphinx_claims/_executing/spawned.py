"""Run each job in a newly started process, for systems on which forking is not safe.

This is slower than forking, with the same results. The process is started as
`python -m sphinx_claims._executing.spawned`. It reads the job from standard input. It writes
messages to the original standard output, one pickle after another. The first message is None. It
means that all modules are imported and the time of the job begins.
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
    """A context in which jobs run, each in a new process that imports `preload` first."""

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
        """Run `job(*arguments)` for at most `seconds`. Return the messages that it yielded."""
        if self._is_stopped:
            raise RuntimeError("nothing is executed any more: it was stopped")
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**QUIET, **os.environ, **STRICT},
            start_new_session=True,  # Ctrl-C must reach this process only
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
    """Start and return workers of a kind, "fork" or "spawn". By default, it is `usual_kind()`."""
    return KINDS[kind or usual_kind()](preload)


def usual_kind() -> str:
    """Return "fork" or "spawn": the fastest kind of workers that is safe on this system.

    On macOS, a forked process may crash in the system libraries that NumPy uses.
    """
    return "fork" if hasattr(os, "fork") and sys.platform != "darwin" else "spawn"


def _communicate(
    process: subprocess.Popen[bytes], order: tuple[Any, ...], timer: Timer
) -> tuple[Any, ...]:
    """Send a process its job `order`, and return the messages of the job.

    Start `timer` when the job begins.
    """
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
    """Yield at most `most` messages. Stop after a `JobEnd`, or before an unreadable message."""
    for _ in range(most):
        try:
            message = pickle.load(messages)  # noqa: S301 - sent by our own process
        except Exception:  # noqa: BLE001 - an unreadable message ends the job
            return
        yield message
        if isinstance(message, JobEnd):
            return


def _end_late(process: subprocess.Popen[bytes], is_late: Event) -> None:
    if process.poll() is None:
        is_late.set()
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all processes that it has started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        # This is a command of Windows.
        command = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
        with contextlib.suppress(OSError):
            subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - it kills only a child
    process.kill()


def _main() -> NoReturn:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        preload, function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - sent by our own process
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
