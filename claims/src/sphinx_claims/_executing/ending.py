"""The end of a page, as Python ends a program: threads, child processes, exit functions.

A page's process is left by `os._exit`, so that nothing of the process that it was forked from is
ended twice; all of this would then never be seen.
"""

import atexit
import multiprocessing
import threading


def begin() -> None:
    """Forget the exit functions of what was imported before the page began."""
    atexit._clear()  # noqa: SLF001 - as multiprocessing does where it forks


def end() -> None:
    """Wait for threads and processes, and call the exit functions."""
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 - ends idle executors too
    for process in multiprocessing.active_children():
        if not process.daemon:
            process.join()
    atexit._run_exitfuncs()  # noqa: SLF001 - and as it does where it ends
