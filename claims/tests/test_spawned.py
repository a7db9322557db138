"""Where no process can be forked, pages run in spawned ones, and are judged as ever."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sphinx_claims.__main__ import main
from sphinx_claims._config import Config
from sphinx_claims._executing.spawned import SpawnedWorkers, workers
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.prover import judge_page, prove
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._page import Problem
from sphinx_claims._reading.read import parse_page

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked here")
Judge = Callable[..., PageVerdict]

PAGE = """\
:::{claim} numbers/one
One is one.
:::

```{code-cell} python
x = 1
print(x)
#> 1
assert x == 1
```

```{code-cell} python
LINE
```

```{code-cell} python
assert x == 2
```
"""
GARBAGE = """\
import os

for line in 3, 4, 5:
    try: os.write(line, b"..")
    except OSError: pass
os._exit(0)
"""
SLEEPS = "import time; time.sleep(1000)"
ENDS = {
    "exit": ("import os; os._exit(3)", "its process ended with exit code 3"),
    "kill": pytest.param(
        "import os; os.kill(os.getpid(), 9)",
        "its process died of SIGKILL",
        marks=pytest.mark.skipif(sys.platform == "win32", reason="no signals"),
    ),
    "garbage": (GARBAGE, "its process ended with exit code 0"),
    "loop": ("while True: pass", "it ran longer than 1 s"),
    "child": (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPS!r}])",
        "it ran longer than 1 s",
    ),
    "cut-off": (f"import os; os.closerange(3, 100); {SLEEPS}", "it ran longer than 1 s"),
}


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Judge]:
    with workers((), "spawn") as spawned:

        def judged(text: str) -> PageVerdict:
            never_ends = "while True" in text or "sleep" in text
            config = Config(root=tmp_path, timeout=1 if never_ends else 10)
            return judge_page(parse_page(text, "page.md"), config, spawned)

        yield judged


def test_a_page_is_judged_as_in_a_forked_process(judge: Judge) -> None:
    verdict = judge(PAGE.replace("LINE", "import sys; y = input"))
    found = "claim is FALSE: x == 2, where x is 1"
    assert verdict.problems == (Problem(17, found),)
    assert [(check.kind, check.passed) for check in verdict.checks] == [
        ("assert", True),
        ("output", True),
        ("assert", False),
    ]


@pytest.mark.parametrize(("line", "end"), ENDS.values(), ids=ENDS)
def test_a_page_that_dies_or_hangs_is_red_at_the_cell_that_does(
    line: str, end: str, judge: Judge
) -> None:
    verdict = judge(PAGE.replace("LINE", line))
    rest = "what follows it was not executed (1)"
    assert verdict.problems == (Problem(13, f"the page stopped here: {end}; {rest}"),)


def test_no_file_of_a_page_grows_without_end(judge: Judge) -> None:
    pytest.importorskip("resource")
    verdict = judge(PAGE.replace("LINE", "import os; os.truncate(1, 2**31)"))
    assert verdict.problems[0].message.startswith("OSError: [Errno 27] File too large")


@needs_fork
def test_what_a_page_forks_says_nothing(judge: Judge) -> None:
    verdict = judge(PAGE.replace("LINE", "import os\nif not os.fork(): os._exit(0)\n_ = os.wait()"))
    assert [problem.line for problem in verdict.problems] == [19]


def test_the_setting_asks_for_them_and_they_are_all_there_is_without_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with workers((), None) as usual:
        assert isinstance(usual, SpawnedWorkers) is (
            not hasattr(os, "fork") or sys.platform == "darwin"
        )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text("{claim}`1 + 1 == 2`\n")
    (tmp_path / "pyproject.toml").write_text("[tool.claims]\nprocesses = 'spawn'\n")
    assert main(["verify", "page.md"]) == 0
    monkeypatch.delattr(os, "fork", raising=False)
    (tmp_path / "pyproject.toml").write_text("[tool.claims]\n")
    assert main(["verify", "page.md"]) == 0
    assert isinstance(workers((), None), SpawnedWorkers)
    assert capsys.readouterr().out.count("1 page, 0 claims, 1 check: all true") == 2
    with pytest.raises(RuntimeError, match="no process can be forked here: let them be spawned"):
        Workers(())


def test_a_module_that_cannot_be_preloaded_is_an_error_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.md").write_text("{claim}`1 + 1 == 2`\n")
    config = Config(root=tmp_path, preload=("no_such_module",), processes="spawn")
    gone = r"the process that executes pages is gone \(exit code 1\)"
    with pytest.raises(RuntimeError, match=gone):
        prove(config, [tmp_path / "page.md"], report=lambda _: None)
    reason = "ModuleNotFoundError: No module named 'no_such_module'"
    told = capfd.readouterr().err.splitlines()
    assert told == [f"preload in [tool.claims]: no_such_module cannot be imported: {reason}"]


def test_nothing_runs_once_it_was_stopped(tmp_path: Path) -> None:
    spawned = SpawnedWorkers(())
    spawned.stop()
    with pytest.raises(RuntimeError, match="nothing is executed any more"):
        judge_page(parse_page("{claim}`1 == 1`\n", "page.md"), Config(root=tmp_path), spawned)
