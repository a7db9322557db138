"""Code and numbers of a sentence must occur in its evidence; messages show other occurrences."""

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
        ("`'a'.isupper()` is `False`.", "assert not 'a'.isupper()"),
        ("`words.sort()` returns `None`.", "assert words.sort() is None"),
        ("Words (Knuth, 1968) and words (1984), see Knuth et al. 1973, sort.", "assert words[1:]"),
        ("Without `strip` and instead of `rstrip`, it is a.", "assert words[1] == 'a'"),
        ("The flag is `reverse=True`.", "for reverse in (True, False):\n    assert words"),
    ],
)
def test_sentence_is_accepted_if_its_code_and_numbers_occur_in_the_evidence(
    judge: Judge, sentence: str, evidence: str
) -> None:
    assert judge(PAGE.format(sentence, evidence)).problems == ()


@pytest.mark.parametrize(
    ("sentence", "evidence", "missing"),
    [
        ("`reverse=False` begins with b.", "assert words[0] == 'b'", "`reverse=False`"),
        ("`math.cos` of 0 is one.", "assert math.exp(0) == 1", "`math.cos`"),
        ("`'a'.isupper()` is `True`.", "assert not 'a'.isupper()", "`True`"),
        (
            "It raises `KeyError`.",
            "try:\n    words[9]\nexcept IndexError:\n    assert words",
            "Key",
        ),
        ("There are 2 words. In 3 lines.", "assert len(words) == 2", "3"),
    ],
)
def test_code_and_numbers_of_a_sentence_that_its_evidence_lacks_are_reported(
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


def test_failures_with_the_same_cause_are_reported_once(judge: Judge) -> None:
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
