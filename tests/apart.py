"""A process that has imported only PyTorch and forks for each program."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# On such a stack, freeing about 3,000 steps of a graph recursively overflows.
SMALL_STACK = ["/bin/sh", "-c", 'ulimit -s 512 && exec "$0" "$@"']
PYTHON_ON_A_SMALL_STACK = [*([] if sys.platform == "win32" else SMALL_STACK), sys.executable]

Run = subprocess.CompletedProcess[str]
RunApart = Callable[[str], Run]

FORKING = """
import gc, json, os, sys
import torch

gc.freeze()  # children do not collect inherited objects
for line in sys.stdin:
    program, *files = json.loads(line)
    if not os.fork():
        for number, file in enumerate(files, 1):
            os.dup2(os.open(file, os.O_WRONLY), number)
        exec(program, {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@contextmanager
def forking(folder: Path) -> Iterator[RunApart]:
    """Start a process on a small stack that imports only PyTorch and forks for each program.

    Importing PyTorch takes longer than most programs.
    """
    command = [*PYTHON_ON_A_SMALL_STACK, "-W", "ignore::DeprecationWarning", "-c", FORKING]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as parent:  # type: ignore[call-overload]

        def run(program: str) -> Run:
            files = [folder / "stdout", folder / "stderr"]
            for file in files:
                file.write_bytes(b"")
            print(json.dumps([program, *map(str, files)]), file=parent.stdin, flush=True)
            status = int(parent.stdout.readline())
            return Run(program, status, *(file.read_text("utf-8") for file in files))

        yield run
        parent.stdin.close()


def run_in_a_process(program: str) -> Run:
    """Run a program in a new process."""
    command = [*PYTHON_ON_A_SMALL_STACK, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False)
