"""A check that compares a thing with itself is no evidence."""

import pytest

from tests.proving import Judge

PAGE = """
:::{{claim}} a/b
It is so.
:::

```{{code-cell}} python
x, y, f = 1, 1, int
assert {}
```
"""


@pytest.mark.parametrize("check", ["x == x", "(x) is x", "1 == 1", "(x, 'text')"])
def test_check_that_cannot_fail_is_not_evidence(check: str, judge: Judge) -> None:
    (problem, *_) = judge(PAGE.format(check)).problems
    assert problem.message.startswith("this check is no evidence: ")


@pytest.mark.parametrize("check", ["not x != x", "f() == f()", "x == y", "x == 1 or y"])
def test_check_that_can_fail_is_evidence(check: str, judge: Judge) -> None:
    assert judge(PAGE.format(check)).problems == ()
