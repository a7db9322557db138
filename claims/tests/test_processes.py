"""A page that hangs or dies is red at the cell where it did so, and no other page suffers."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sphinx_claims._executing.docstrings import find_docstrings
from sphinx_claims._executing.spawned import usual_kind
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._page import Problem

pytestmark = [
    pytest.mark.skipif(usual_kind() == "spawn", reason="of forked processes"),
]

PAGE = """\
```{{code-cell}} python
x = 1
assert x == 1
```

```{{code-cell}} python
{0}
```

```{{code-cell}} python
assert x == 2
```
"""

GARBAGE = """\
import os
for line in range(3, 20):
    try: os.write(line, b"....")
    except OSError: pass
os._exit(0)
"""

DEATHS = {
    "segfault": ("import ctypes; ctypes.string_at(0)", "its process died of SIGSEGV"),
    "exit": ("import os; os._exit(3)", "its process ended with exit code 3"),
    "exit-without-error": ("import os; os._exit(0)", "its process ended with exit code 0"),
    "kill": ("import os; os.kill(os.getpid(), 9)", "its process died of SIGKILL"),
    "terminate": ("import os; os.kill(os.getpid(), 15)", "its process died of SIGTERM"),
    "abort": ("import os; os.abort()", "its process died of SIGABRT"),
    "alarm": ("import signal as s; s.alarm(1); s.pause()", "its process died of SIGALRM"),
    "unnamed-signal": ("import os; os.kill(os.getpid(), 40)", "its process died of signal 40"),
    "stack": (
        "import sys; sys.setrecursionlimit(10**9); x = []\nfor _ in range(10**6): x = [x]\nrepr(x)",
        "its process died of SIGSEGV",
    ),
    "supervisor": (
        "import os, time; time.sleep(0.5); os.kill(os.getppid(), 9); time.sleep(1)",
        "it killed the process that started it",
    ),
    "garbage-on-the-line": (GARBAGE, "its process ended with exit code 0"),
}


@pytest.mark.parametrize(("line", "end"), DEATHS.values(), ids=DEATHS)
def test_a_page_whose_process_dies_is_red_at_the_cell_that_killed_it(
    line: str, end: str, judge: Callable[..., PageVerdict]
) -> None:
    verdict = judge(PAGE.format(line))
    rest = "what follows it was not executed (1)"
    assert verdict.problems == (Problem(7, f"the page stopped here: {end}; {rest}"),)
    assert [check.passed for check in verdict.checks] == [True]


LOOPS = {
    "python": "while True: pass",
    "sleep": "import time; time.sleep(1000)",
    "child": "import subprocess; subprocess.run(['sleep', '1000'])",
    "deaf": "import signal, time; signal.signal(signal.SIGTERM, lambda *_: 0); time.sleep(1000)",
    "stopped": "import os; os.kill(os.getpid(), 19)",
    "cut-off": "import os, time; os.closerange(3, 100); time.sleep(1000)",
    "endless-repr": (
        "import time\nclass Endless:\n  def __repr__(self): time.sleep(1000)\nEndless()"
    ),
    "endless-print": "while True: print('again')",
}


@pytest.mark.parametrize("line", LOOPS.values(), ids=LOOPS)
def test_a_page_that_never_ends_is_red_at_the_cell_that_hangs(
    line: str, judge: Callable[..., PageVerdict]
) -> None:
    (problem,) = judge(PAGE.format(line), timeout=0.5).problems
    assert problem.line == 7
    assert problem.message.startswith("the page stopped here: it ran longer than 0.5 s")


UNFIT = {
    "1 / 0": "ZeroDivisionError: division by zero",
    "import no_such_module": "ModuleNotFoundError: No module named 'no_such_module'",
    "import sys; sys.exit(3)": "SystemExit: 3",
}


@pytest.mark.parametrize(("source", "reason"), UNFIT.items())
def test_a_module_that_cannot_be_preloaded_is_an_error_in_one_line(
    source: str,
    reason: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "unfit.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    with (
        Workers(["unfit"]) as broken,
        pytest.raises(RuntimeError, match=r"the process that executes pages is gone \(exit code 1"),
    ):
        broken.run(find_docstrings, "leafgrad", tmp_path, seconds=30)
    told = capfd.readouterr().err.splitlines()
    assert told == [f"preload in [tool.claims]: unfit cannot be imported: {reason}"]


def test_a_run_whose_process_was_killed_is_an_error(tmp_path: Path) -> None:
    with Workers([]) as killed:
        assert killed.run(find_docstrings, "keyword", tmp_path, seconds=30).failure is None
        killed._forkserver.kill()
        killed._forkserver.wait()
        with pytest.raises(RuntimeError, match=r"the process that executes pages is gone \(exit"):
            killed.run(find_docstrings, "keyword", tmp_path, seconds=30)


def test_a_process_that_was_forked_meanwhile_keeps_nobody_waiting() -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    started = time.monotonic()
    with Workers(()) as running:
        other = subprocess.Popen(sleep, pass_fds=[running._control.fileno()])
    assert time.monotonic() - started < 50
    other.kill()
    other.wait()


def test_a_module_that_forks_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = '"""\n>>> 1 + 1\n2\n"""\n'
    (tmp_path / "forks.py").write_text(f"{examples}\n__all__ = []\nimport os\n\nos.fork()\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    with Workers([]) as workers:
        outcome = workers.run(find_docstrings, "forks", tmp_path, seconds=30)
    assert [page.path for page in outcome.messages] == ["forks.py"]
    assert outcome.failure is None


LONG = {
    "error": "raise ValueError('x' * 10**7)",
    "warning": "import warnings; warnings.warn('x' * 10**7)",
    "stderr": "import sys; sys.stderr.write('x ' * 10**5);",
    "behind": "import os; n = os.write(1, b'y' * 3_000_000)",
    "thread": "import threading\ny = threading.Timer(0, int, ['x' * 9999])\ny.start(); y.join()",
    "assert": "assert 'x' * 10**7 == 'y'",
    "value": "'x' * 10**7",
}


@pytest.mark.parametrize("line", LONG.values(), ids=LONG)
def test_a_red_line_stays_readable(line: str, judge: Callable[..., PageVerdict]) -> None:
    (problem,) = judge(PAGE.format(line).replace("x == 2", "x == 1")).problems
    assert problem.line == 7
    assert 20 < len(problem.message) < 600
