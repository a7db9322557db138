"""`--update` rewrites outdated outputs in place, and prints the diff."""

from pathlib import Path
from typing import Any

OLD = """\
- An item:

  ```pycon
  >>> 1 + 1
  3
  >>> print("a\\n\\nb")
  >>> int("a")
  Traceback (most recent call last):
      ...
  ValueError: bad 'a'
  >>> 1 / 0
  0
  ```

```{testcode}
print(2)
```

```{testoutput}
1
```

```{code-cell} python
print(1)  #> 2
for n in (2, 3):
    print(n)
#> 1
```
"""
NEW = (
    OLD.replace("  3\n", "  2\n")
    .replace('b")\n', 'b")\n  a\n  <BLANKLINE>\n  b\n')
    .replace("bad 'a'", "invalid literal for int() with base 10: 'a'")
    .replace("{testoutput}\n1", "{testoutput}\n2")
    .replace("#> 2", "#> 1")
    .replace("    print(n)\n#> 1", "    print(n)\n#> 2\n#> 3")
)
MODULE = '''\
"""Sums.

    >>> 1 + 1
    3
"""

__all__ = ["two"]


def moved(function):
    function.__code__ = function.__code__.replace(co_firstlineno=1)
    return function


@moved
def two():
    """
    >>> two()
    3
    """
    return 2
'''


def test_update_rewrites_outputs_but_not_errors(claims: Any) -> None:
    table = "pages = ['page.md']\ndocstrings = ['sums']\n"
    run = claims("verify", "--update", toml=table, page=OLD, **{"sums.py": MODULE})
    assert run.status == 1
    assert Path("page.md").read_text() == NEW
    assert Path("sums.py").read_text() == MODULE.replace("    3", "    2")
    assert "-  3\n+  2\n" in run.text
    assert "ZeroDivisionError: division by zero" in run.text
    assert "1 problem (" in run.text
    again = claims("verify", "--update")
    assert (again.status, "@@" in again.text) == (1, False)
