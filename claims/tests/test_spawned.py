"""Where no process can be forked, pages run in spawned ones, and are judged as ever."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.proving import (
    Config,
    Judge,
    PageVerdict,
    Problem,
    SpawnedWorkers,
    Workers,
    judge_page,
    parse_page,
    workers,
)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked here")

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


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Judge]:
    with workers((), "spawn") as spawned:

        def judged(text: str) -> PageVerdict:
            return judge_page(parse_page(text, "page.md"), Config(root=tmp_path), spawned)

        yield judged


def test_page_is_judged_alike_in_a_spawned_process(judge: Judge) -> None:
    verdict = judge(PAGE.replace("LINE", "import sys; y = input"))
    found = "claim is FALSE: x == 2, where x is 1"
    assert verdict.problems == (Problem(17, found),)
    assert [(check.kind, check.passed) for check in verdict.checks] == [
        ("assert", True),
        ("output", True),
        ("assert", False),
    ]


@needs_fork
def test_forked_child_of_a_spawned_page_reports_nothing(judge: Judge) -> None:
    verdict = judge(PAGE.replace("LINE", "import os\nif not os.fork(): os._exit(0)\n_ = os.wait()"))
    assert [problem.line for problem in verdict.problems] == [19]


def test_processes_are_spawned_by_setting_or_without_fork(
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
