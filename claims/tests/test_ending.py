"""Processes that a page starts end with the page; those that left its group do not delay it."""

from pathlib import Path

import pytest

from tests.processes import is_running, wait
from tests.proving import Judge, forked

pytestmark = forked


def _page(*cells: str) -> str:
    return "\n".join(f"```{{code-cell}} python\n{cell}\n```\n" for cell in cells)


NEVER = {
    "thread": "import threading, time; threading.Thread(target=time.sleep, args=[99]).start()",
    "process": "import multiprocessing as m, time\n"
    "m.get_context('fork').Process(target=time.sleep, args=[99]).start()",
    "exit-function": "import atexit, time; x = atexit.register(time.sleep, 99)",
    "finalizer": "import time\nclass Slow:\n  def __del__(self): time.sleep(99)\nslow = Slow()",
}


@pytest.mark.parametrize("cell", NEVER.values(), ids=NEVER)
def test_endless_thread_or_process_is_reported_at_the_last_cell(cell: str, judge: Judge) -> None:
    (problem,) = judge(_page(cell, "y = 1"), timeout=1).problems
    assert problem.message == "the page stopped here: it ran longer than 1 s"
    assert problem.line == 3 + len(cell.splitlines()) + 2


STRAGGLERS = {
    "forked": "if os.fork() == 0:\n  time.sleep(99)",
    "forked-in-a-session": "if os.fork() == 0:\n  os.setsid()\n  time.sleep(99)",
    "daemon": "m.get_context('fork').Process(target=time.sleep, args=[99], daemon=True).start()",
    "program": "x = subprocess.Popen(['sleep', '99'], start_new_session=True); x.returncode = 0",
}


@pytest.mark.parametrize("cell", STRAGGLERS.values(), ids=STRAGGLERS)
def test_child_process_left_running_does_not_delay_the_verdict(cell: str, judge: Judge) -> None:
    imports = "import multiprocessing as m, os, subprocess, time"
    assert judge(_page(imports, cell, "assert os.getpid() > 0"), timeout=20).problems == ()


def test_forked_process_ends_with_its_page(judge: Judge, tmp_path: Path) -> None:
    write = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    child = f"import os, time\nx = os.fork()\nif x == 0:\n  {write}\n  time.sleep(99)"
    judge(_page(child, "time.sleep(0.5)"))
    child_id = int((tmp_path / "pid").read_text())
    wait(lambda: not is_running(child_id))
