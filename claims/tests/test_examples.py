"""`>>>` examples, doctest's directives and docstrings run as in doctest and Sphinx."""

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

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


SHOWS_SOURCE = """\
```pycon
>>> import inspect, traceback
>>> print(inspect.getsource(half), end='')
def half(n):
    return 1 / n
>>> try:
...     half(0)
... except ZeroDivisionError:
...     'return 1 / n' in traceback.format_exc()
True
```
"""
CALLS = """\
```pycon
>>> def twice(n):
...     return half(n - 1) if n < 2 else twice(n - 1)
>>> twice(3)
Traceback (most recent call last):
    ...
ZeroDivisionError: division by zero
>>> exec('class C: y = half(2)')
>>> C.y
0.5
```
"""
IN_CELL = "```{code-cell} python\n:raises: 'ZeroDivisionError: division by zero'\nhalf(0)\n```\n"


@pytest.mark.parametrize("second", [ZERO, SHOWS_SOURCE, CALLS, IN_CELL], ids=range(4))
def test_example_uses_function_from_another_fence_and_its_source(judge: Judge, second: str) -> None:
    verdict = judge(HALF + second)
    assert problems(verdict) == []
    assert verdict.checks


def test_warning_is_reported_at_the_line_of_the_function_in_another_fence(judge: Judge) -> None:
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


def test_directives_of_sphinx_doctest_are_executed(judge: Judge) -> None:
    verdict = judge(TESTED)
    assert problems(verdict) == []
    assert len(verdict.checks) == 3


def test_directives_of_sphinx_doctest_are_shown(build: Any) -> None:
    flag = "\n```{doctest}\n>>> [1, 2]  # doctest: +ELLIPSIS\n[1, ...]\n```\n"
    assert build(index=f"# Page\n\n{TESTED}{flag}") == (0, "")
    assert "testsetup" not in build.page()


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
def test_wrong_directive_of_sphinx_doctest_is_reported_at_its_line(
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
def test_options_and_flags_of_doctest_are_applied(judge: Judge, text: str) -> None:
    assert problems(judge(text)) == []


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


def test_docstrings_of_module_without_all_are_judged_in_project_without_pages(claims: Any) -> None:
    for result, line in ((2, "2 pages, 0 claims, 2 checks: all true"), (3, "bare.py:18")):
        module = textwrap.dedent(MODULE.replace("RESULT", str(result)))
        run = claims("verify", toml="docstrings = ['bare', 'bare']\n", **{"bare.py": module})
        assert (run.status, line in run.text) == (result - 2, True)


DECORATED = '''
import functools
def traced(function):
    @functools.wraps(function)
    def call(*arguments):
        return function(*arguments)
    return call
@traced
def one():
    """>>> 1
    2
    """
@traced
def two():
    """>>> 1
    3
    """
'''


def test_docstrings_of_functions_that_share_a_wrapper_are_judged(claims: Any) -> None:
    run = claims("verify", toml="docstrings = ['bare']\n", **{"bare.py": DECORATED})
    assert run.status == 1
    assert "2 pages, 0 claims, 2 checks: 2 problems" in run.text


def test_configured_setup_and_flags_apply_to_all_examples(claims: Any) -> None:
    table = """\
pages = ["page.md"]
doctest_global_setup = "from math import sqrt"
doctest_default_flags = ["NORMALIZE_WHITESPACE"]
"""
    page = "```pycon\n>>> [sqrt(4), 0]\n[2.0,\n 0]\n```\n"
    assert claims("verify", toml=table, page=page).status == 0
    broken = claims("verify", toml=table.replace("from math", "from maths"), page=page)
    assert (broken.status, "doctest_global_setup" in broken.text) == (1, True)


def test_crash_of_the_prover_is_reported_for_one_page_only(claims: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("sphinx_claims._reading.read.read_fence", lambda *_: {"": 0}["inside"])
    run = claims("verify", toml="pages = ['a.md', 'b.md']", a=HALF, b="{claim}`1 == 1`\n")
    assert run.status == 1
    assert "a.md:1: the prover failed on this page: KeyError: 'inside'" in run.text
    assert "true   b.md" in run.text
