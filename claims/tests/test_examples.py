"""`>>>` examples, doctest's directives and docstrings run as doctest and Sphinx run them."""

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sphinx_claims.__main__ import main

Judge = Callable[..., Any]
HALF = """\
```pycon
>>> a = 1
>>> b = 2
>>> def half(n):
...     return 1 / n
```

"""
ZERO = """\
```pycon
>>> half(0)
Traceback (most recent call last):
    ...
ZeroDivisionError: division by zero
```
"""


def problems(verdict: Any) -> list[tuple[int, str]]:
    return [(problem.line, problem.message) for problem in verdict.problems]


@pytest.mark.parametrize(
    "second",
    [
        ZERO,
        (
            "```pycon\n>>> import inspect\n>>> print(inspect.getsource(half), end='')\n"
            "def half(n):\n    return 1 / n\n```\n"
        ),
        (
            "```pycon\n>>> import traceback\n>>> try:\n...     half(0)\n"
            "... except ZeroDivisionError:\n...     'return 1 / n' in traceback.format_exc()\n"
            "True\n```\n"
        ),
        "```{code-cell} python\n:raises: 'ZeroDivisionError: division by zero'\nhalf(0)\n```\n",
        (
            "```pycon\n>>> def twice(n):\n...     return half(n - 1) if n < 2 else twice(n - 1)\n"
            ">>> twice(3)\nTraceback (most recent call last):\n    ...\n"
            "ZeroDivisionError: division by zero\n```\n"
        ),
        (
            "```pycon\n>>> import dataclasses\n>>> @dataclasses.dataclass\n... class Point:\n"
            "...     x: int = half(1)\n>>> Point()\nPoint(x=1.0)\n"
            ">>> exec('class C: y = half(2)')\n>>> C.y\n0.5\n```\n"
        ),
    ],
    ids=["raises", "getsource", "traceback", "cell", "recursion", "dataclass"],
)
def test_function_from_another_fence_is_found(judge: Judge, second: str) -> None:
    verdict = judge(HALF + second)
    assert problems(verdict) == []
    assert verdict.checks


def test_warning_from_another_fence_has_its_line(judge: Judge) -> None:
    warns = "```pycon\n>>> import warnings\n>>> def f():\n...     warnings.warn('old')\n```\n\n"
    assert problems(judge(warns + "```pycon\n>>> f()\n```\n")) == [
        (4, "undeclared warning: UserWarning: old")
    ]


TESTED = """\
```{testsetup}
from math import sqrt
```

```{doctest}
>>> sqrt(4)
2.0
```

```{testcode}
for n in (1, 4):
    print(sqrt(n))
```

Then it prints:

```{testoutput}
1.0
2.0
```

```{testcode}
[][0]
```

```{testoutput}
Traceback (most recent call last):
    ...
IndexError: list index out of range
```
"""


GROUP = """\
>>> def fail():
...     raise ExceptionGroup("two of them", [ValueError("a"), KeyError("b")])
>>> fail()
  + Exception Group Traceback (most recent call last):
  |   File "...", line 2, in fail
  | ExceptionGroup: two of them (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: a
    +---------------- 2 ----------------
    | KeyError: 'b'
    +------------------------------------
"""


def test_directives_of_sphinx_doctest_run(judge: Judge) -> None:
    verdict = judge(TESTED)
    assert problems(verdict) == []
    assert len(verdict.checks) == 3


def test_directives_of_sphinx_doctest_are_shown(build: Any) -> None:
    flag = "\n```{doctest}\n>>> [1, 2]  # doctest: +ELLIPSIS\n[1, ...]\n```\n"
    assert build(index=f"# Page\n\n{TESTED}{flag}") == (0, "")
    assert "testsetup" not in build.page()
    rst = "# Page\n\n```{eval-rst}\n>>> 1\n   1\n```\n"
    status, told = build(index=rst)
    assert status == 1
    assert "this example is not executed" in told


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (TESTED.replace("out of", "within"), 23, "got: IndexError: list index out"),
        (TESTED.replace("1.0\n2.0", "1.0\n3.0"), 11, "3.0"),
        ("```{testcode}\nprint(1)\n```\n", 2, "1"),
        ("```{testoutput}\n1\n```\n", 1, "{testoutput} must follow"),
        (f"```pycon\n{GROUP.replace('Error: a', 'Error: c')}```\n", 4, "ValueError: a"),
        ("```{doctest}\n1\n```\n", 1, "{doctest} must hold >>> examples"),
        ("```{doctest}\n:options: +NO_FLAG\n>>> 1\n1\n```\n", 1, "NO_FLAG"),
    ],
)
def test_directives_of_sphinx_doctest_are_compared(
    judge: Judge, text: str, line: int, message: str
) -> None:
    ((found, said),) = problems(judge(text))
    assert found == line
    assert message in said


@pytest.mark.parametrize(
    "text",
    [
        "```{doctest}\n:options: +ELLIPSIS\n>>> list(range(30))\n[0, ..., 29]\n```\n",
        "```pycon\n>>> print('a  b')  # doctest: +NORMALIZE_WHITESPACE\na b\n```\n",
        (
            "```pycon\n>>> int('a')  # doctest: +IGNORE_EXCEPTION_DETAIL\n"
            "Traceback (most recent call last):\nValueError: whatever\n```\n"
        ),
        "```pycon\n>>> 1  # doctest: +SKIP\n2\n```\n",
        "```{testcode}\n:skipif: True\nprint(1)\n```\n",
        "```{doctest}\n:pyversion: < 3\n>>> 1\n2\n```\n",
        "```{testcode}\n:hide:\nx = 1\n```\n",
        "```{doctest}\n>>> class A: pass\n>>> A\n<class 'A'>\n```\n",
        f"```pycon\n{GROUP}```\n",
    ],
)
def test_options_and_flags_of_doctest_hold(judge: Judge, text: str) -> None:
    assert problems(judge(text)) == []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Write files and run `claims verify` beside them; PYTHONPATH has their folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")

    def run(table: str, **files: str) -> int:
        (tmp_path / "pyproject.toml").write_text(f"[tool.claims]\n{table}")
        for name, text in files.items():
            (tmp_path / name.replace("_DOT_", ".")).write_text(textwrap.dedent(text))
        return main(["verify"])

    return run


MODULE = '''
    """A module without __all__."""
    from math import *
    from collections import OrderedDict

    BASE = 10

    def public():
        """
        >>> public() + BASE
        11
        """
        return 1

    class Kind:
        def method(self):
            """
            >>> Kind().method()
            2
            """
            return RESULT
'''


def test_docstrings_without_all_and_without_pages_are_judged(
    project: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    module = MODULE.replace("RESULT", "2")
    assert project("docstrings = ['bare', 'bare']\n", bare_DOT_py=module) == 0
    assert "2 pages, 0 claims, 2 checks: all true" in capsys.readouterr().out
    assert project("docstrings = ['bare']\n", bare_DOT_py=MODULE.replace("RESULT", "3")) == 1
    assert "bare.py:18" in capsys.readouterr().out


def test_setup_and_flags_of_the_table_hold_for_all_examples(
    project: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    table = """\
pages = ["page.md"]
doctest_global_setup = "from math import sqrt"
doctest_default_flags = ["NORMALIZE_WHITESPACE"]
"""
    page = "```pycon\n>>> [sqrt(4), 0]\n[2.0,\n 0]\n```\n"
    assert project(table, page_DOT_md=page) == 0
    wrong = table.replace("NORMALIZE", "NORMAL")
    assert project(wrong, page_DOT_md=page) == 2
    assert "doctest_default_flags" in capsys.readouterr().err
    broken = table.replace("from math", "from maths")
    assert project(broken, page_DOT_md=page) == 1
    assert "doctest_global_setup" in capsys.readouterr().out


def test_error_of_the_prover_is_red_on_its_page_only(
    project: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise KeyError("inside")

    monkeypatch.setattr("sphinx_claims._reading.read.read_fence", fail)
    assert project("pages = ['a.md', 'b.md']", a_DOT_md=HALF, b_DOT_md="{claim}`1 == 1`\n") == 1
    told = capsys.readouterr().out
    assert "a.md:1: the prover failed on this page: KeyError: 'inside'" in told
    assert "true   b.md" in told
