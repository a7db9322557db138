"""`--update` rewrites outdated outputs in place, and prints the diff."""

import sys
from pathlib import Path

import pytest

from sphinx_claims.__main__ import main

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
MODULE = '"""Sums.\n\n    >>> 1 + 1\n    3\n"""\n\n__all__ = []\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *sys.path]))
    (tmp_path / "page.md").write_text(OLD)
    (tmp_path / "sums.py").write_text(MODULE)
    table = "[tool.claims]\npages = ['page.md']\ndocstrings = ['sums']\n"
    (tmp_path / "pyproject.toml").write_text(table)
    return tmp_path


def test_update_rewrites_outputs_and_leaves_errors(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--update"]) == 1
    assert (folder / "page.md").read_text() == NEW
    assert (folder / "sums.py").read_text() == MODULE.replace("    3", "    2")
    printed = capsys.readouterr().out
    assert "-  3\n+  2\n" in printed
    assert "ZeroDivisionError: division by zero" in printed
    assert "1 problem (" in printed
    assert main(["verify", "--update"]) == 1
    assert "@@" not in capsys.readouterr().out
