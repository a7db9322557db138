"""Code and numbers of a sentence must occur in its evidence; messages show what came instead."""

from collections.abc import Callable
from typing import Any

import pytest

Judge = Callable[..., Any]
SETUP = """\
```{{code-cell}} python
import math

words = ["b", "a"]
words.sort(reverse=True)
```

"""
PAGE = SETUP + ":::{{claim}} a/b\n{0}\n:::\n\n```{{code-cell}} python\n{1}\n```\n"


@pytest.mark.parametrize(
    ("sentence", "evidence"),
    [
        ("`sort(reverse=True)` begins with b.", "assert words[0] == 'b'"),
        ("`list.sort` begins with b.", "assert words[0] == 'b'"),
        ("`'a'.isupper()` is `False`.", "assert not 'a'.isupper()"),
        ("`'A'.isupper()` is `True`.", "assert 'A'.isupper()"),
        ("`words.sort()` returns `None`.", "assert words.sort() is None"),
        ("It is about 1.41.", "root = math.sqrt(2)\nassert root\nprint(root)"),
        ("A third is 33%.", "share = 0.33\nassert share < 1 / 3"),
        ("In Python 3.11 as in Table 7, `math.pi` is more than 3.", "assert math.pi > 3"),
        ("Words (Knuth, 1968) and words (1984), see Knuth et al. 1973, sort.", "assert words[1:]"),
        ("It takes 4 MB, 4000 kB or 3.8 MiB.", "size = 4e6\nassert size > 1"),
        ("All are 1.", "import numpy as np\nassert (np.ones(3) > 0.5).all()"),
        ("It takes 3 ms, or 3000 µs.", "time = 0.003\nassert time > 0"),
        ("The rest is 5.55e-17.", "rest = 0.1 + 0.2 - 0.3\nassert rest\nprint(rest)"),
        ("Without `strip` and instead of `rstrip`, it is a.", "assert words[1] == 'a'"),
        ("At 5% a year, 1,000,000 grow.", "grown = 10**6 * 1.05\nassert grown > 10**6"),
        ("A quarter is 0.25.", "quarter = 1 / 4\nassert quarter < 1"),
        ("The flag is `reverse=True`.", "for reverse in (True, False):\n    assert words"),
    ],
)
def test_mentioned_code_and_numbers_occur(judge: Judge, sentence: str, evidence: str) -> None:
    assert judge(PAGE.format(sentence, evidence)).problems == ()


@pytest.mark.parametrize(
    ("sentence", "evidence", "missing"),
    [
        ("`reverse=False` begins with b.", "assert words[0] == 'b'", "`reverse=False`"),
        ("`math.cos` of 0 is one.", "assert math.exp(0) == 1", "`math.cos`"),
        ("`'a'.isupper()` is `True`.", "assert not 'a'.isupper()", "`True`"),
        ("`'A'.isupper()` is `False`.", "assert 'A'.isupper()", "`False`"),
        (
            "It raises `KeyError`.",
            "try:\n    words[9]\nexcept IndexError:\n    assert words",
            "Key",
        ),
        ("The root of 2 is about 1.42.", "print(math.sqrt(2))", "1.42"),
        ("At 6% a year, it grows.", "grown = 100 * 1.05\nassert grown > 100", "6%"),
        ("It is 100,000.", "size = 10**6\nassert size > 1", "100,000"),
        ("There are 3 words.", "assert len(words) == 2", "3"),
        ("All are 1.", "import numpy as np\nassert (np.zeros(3) < 0.5).all()", "1"),
        ("There are 2 words. In 3 lines.", "assert len(words) == 2", "3"),
        ("It takes 5 MB.", "size = 4e6\nassert size > 5e3", "5 MB"),
        ("There are (99) words.", "assert len(words) == 2", "99"),
        ("The rest is 5.56e-17.", "print(0.1 + 0.2 - 0.3)\nassert words", "5.56e-17"),
    ],
)
def test_mentioned_code_and_numbers_that_are_missing_are_red(
    judge: Judge, sentence: str, evidence: str, missing: str
) -> None:
    (problem,) = judge(PAGE.format(sentence, evidence)).problems
    assert missing in problem.message


def test_long_outputs_are_shown_from_first_difference(judge: Judge) -> None:
    lines = "\n".join(f"line {n}" for n in range(20))
    page = f"```pycon\n>>> for n in range(20):\n...     print('line', n)\n{lines}\n```\n"
    (problem,) = judge(page.replace("line 15", "line 150")).problems
    assert "expected (from line 16 on):\n        line 150\n" in problem.message
    assert "got (from line 16 on):\n        line 15\n" in problem.message


def test_failures_with_one_cause_are_one_line(judge: Judge) -> None:
    page = """\
```{code-cell} python
import no_such_module
value = 2
```

```pycon
>>> value + 1
3
>>> no_such_module.x
4
```

{claim}`value == 2`
"""
    (problem,) = judge(page).problems
    assert problem.line == 2
    assert "No module named 'no_such_module' (3 more lines fail" in problem.message
