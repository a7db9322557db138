"""A page that hangs or dies is reported at the cell that caused it, and other pages are judged."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import needs_fork
from tests.proving import (
    Config,
    Judge,
    PageVerdict,
    Problem,
    SpawnedWorkers,
    Workers,
    find_docstrings,
    forked,
    judge_page,
    parse_page,
    workers,
)

JudgeBy = Callable[[str], Judge]

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
GARBAGE = "import os\nfor n in range(3, 20):\n  try: os.write(n, b'..')\n  except OSError: pass\n"
GARBAGE += "os._exit(0)"
ENDS = {
    "import ctypes; ctypes.string_at(0)": "its process died of SIGSEGV",
    "import os; os._exit(3)": "its process ended with exit code 3",
    "import os; os._exit(0)": "its process ended with exit code 0",
    "import os; os.kill(os.getpid(), 9)": "its process died of SIGKILL",
    "import os; os.kill(os.getpid(), 40)": "its process died of signal 40",
    "import sys; sys.setrecursionlimit(10**9); x = []\nfor _ in range(10**6): x = [x]\nrepr(x)": (
        "its process died of SIGSEGV"
    ),
    "import os, time; time.sleep(0.5); os.kill(os.getppid(), 9); time.sleep(1)": (
        "it killed the process that started it"
    ),
    GARBAGE: "its process ended with exit code 0",
}
LOOPS = {
    "while True: pass": "python",
    "import subprocess; subprocess.run(['sleep', '1000'])": "child",
    "import signal, time; signal.signal(signal.SIGTERM, lambda *_: 0); time.sleep(1000)": "deaf",
    "import os; os.kill(os.getpid(), 19)": "stopped",
    "import os, time; os.closerange(3, 100); time.sleep(1000)": "cut off",
    "import time\nclass Slow:\n  def __repr__(self): time.sleep(1000)\nSlow()": "repr",
    "while True: print('again')": "print",
}
ENDS |= dict.fromkeys(LOOPS, "it ran longer than 1 s")
SPAWNED = ["import os; os._exit(3)", GARBAGE, "while True: pass", [*LOOPS][1], [*LOOPS][4]]
SPAWNED += ["import os; os.kill(os.getpid(), 9)"] * (sys.platform != "win32")


@pytest.fixture
def judge_by(judge: Judge, tmp_path: Path) -> Iterator[JudgeBy]:
    """Judge pages in processes of one kind, forked or spawned."""
    with workers((), "spawn") as spawned:

        def judged(text: str, timeout: float) -> PageVerdict:
            config = Config(root=tmp_path, timeout=timeout)
            return judge_page(parse_page(text, "page.md"), config, spawned)

        yield lambda kind: judge if kind == "fork" else judged


@pytest.mark.parametrize(
    ("kind", "line"),
    [*(pytest.param("fork", line, marks=forked) for line in ENDS)]
    + [("spawn", line) for line in SPAWNED],
)
def test_page_that_dies_or_hangs_is_reported_at_the_cell_that_caused_it(
    kind: str, line: str, judge_by: JudgeBy
) -> None:
    verdict = judge_by(kind)(PAGE.format(line), timeout=1 if "longer" in ENDS[line] else 20)
    found = f"the page stopped here: {ENDS[line]}; what follows it was not executed (1)"
    assert verdict.problems == (Problem(7, found),)
    assert [check.passed for check in verdict.checks] == [True]


SHOWN = """\
```{{code-cell}} python
x = 1
print(x)
#> 1
assert x == 1
{0}
```

```{{code-cell}} python
assert x == 2
```
"""


def test_page_has_the_same_verdict_in_a_spawned_process(judge_by: JudgeBy) -> None:
    verdict = judge_by("spawn")(SHOWN.format("import sys; y = input"), timeout=30)
    assert verdict.problems == (Problem(10, "claim is FALSE: x == 2, where x is 1"),)
    assert [(check.kind, check.passed) for check in verdict.checks] == [
        ("assert", True),
        ("output", True),
        ("assert", False),
    ]


@needs_fork
def test_child_that_a_spawned_page_forks_sends_no_record(judge_by: JudgeBy) -> None:
    forking = "import os\nif not os.fork(): os._exit(0)\n_ = os.wait()"
    verdict = judge_by("spawn")(SHOWN.format(forking), timeout=30)
    assert [problem.line for problem in verdict.problems] == [12]


def test_processes_are_spawned_if_configured_or_if_the_system_cannot_fork(
    claims: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_fork = hasattr(os, "fork") and sys.platform != "darwin"
    with workers((), None) as usual:
        assert isinstance(usual, SpawnedWorkers) is not has_fork
    page = "{claim}`1 + 1 == 2`\n"
    assert claims("verify", "page.md", toml="processes = 'spawn'\n", page=page).status == 0
    monkeypatch.delattr(os, "fork", raising=False)
    assert isinstance(workers((), None), SpawnedWorkers)
    with pytest.raises(RuntimeError, match="no process can be forked here: let them be spawned"):
        Workers(())


UNFIT = {
    "1 / 0": "ZeroDivisionError: division by zero",
    "import no_such_module": "ModuleNotFoundError: No module named 'no_such_module'",
    "import sys; sys.exit(3)": "SystemExit: 3",
}


@pytest.mark.parametrize("source", UNFIT)
@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_module_that_cannot_be_preloaded_is_an_error_in_one_line(
    source: str, kind: str, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unfit.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    gone = r"the process that executes pages is gone \(exit code 1"
    with workers(["unfit"], kind) as broken, pytest.raises(RuntimeError, match=gone):
        broken.run(find_docstrings, "leafgrad", tmp_path, seconds=30)
    told = f"preload in [tool.claims]: unfit cannot be imported: {UNFIT[source]}"
    assert capfd.readouterr().err.splitlines() == [told]


@forked
def test_forking_module_is_read_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = '"""\n>>> 1 + 1\n2\n"""\n'
    (tmp_path / "forks.py").write_text(f"{examples}\n__all__ = []\nimport os\n\nos.fork()\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    with Workers([]) as running:
        outcome = running.run(find_docstrings, "forks", tmp_path, seconds=30)
    assert [page.path for page in outcome.messages] == ["forks.py"]
    assert outcome.failure is None


LONG = [
    "raise ValueError('x' * 10**7)",
    "import warnings; warnings.warn('x' * 10**7)",
    "import sys; sys.stderr.write('x ' * 10**5);",
    "import os; n = os.write(1, b'y' * 3_000_000)",
    "import threading\ny = threading.Timer(0, int, ['x' * 9999])\ny.start(); y.join()",
    "assert 'x' * 10**7 == 'y'",
    "'x' * 10**7",
]


@pytest.mark.parametrize("line", LONG)
def test_message_about_a_long_value_is_shortened(line: str, judge: Judge) -> None:
    (problem,) = judge(PAGE.format(line).replace("x == 2", "x == 1")).problems
    assert problem.line == 7
    assert 20 < len(problem.message) < 600
