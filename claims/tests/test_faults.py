"""A project's own faults: how they are read, planted and noticed."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from sphinx_claims.__main__ import main
from sphinx_claims._executing.processes import usual_kind
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims.faults import Fault, read_faults

pytestmark = [
    pytest.mark.skipif(usual_kind() == "spawn", reason="of forked processes"),
    pytest.mark.usefixtures("shared_processes"),
]

Judge = Callable[[str], PageVerdict]

FAULTS = """\
import math
from fractions import Fraction

from sphinx_claims.faults import Faults

FAULTS = Faults()
SUBJECTS = (Fraction,)


@FAULTS.replace("math.sqrt", "math.no_such_function")
def roots_are_off_by_one_percent(sqrt):
    return lambda number: 1.01 * sqrt(number)


@FAULTS.replace("math.sqrt", when=lambda options: False)
def roots_are_never_wrong(sqrt):
    return lambda number: "wrong"


@FAULTS.replace("fractions.Fraction.numerator")
def numerators_read_one_more(numerator):
    return property(lambda fraction: numerator.__get__(fraction) + 1)
"""
PAGE = """\
```{code-cell} python
import math
from fractions import Fraction

half = Fraction(1, 2)
```

:::{claim} roots/four
The root of four is two.
:::

```{code-cell} python
assert ROOT
```

:::{claim} fractions/half
A half has a numerator of 1.
:::

```{code-cell} python
assert half.numerator == 1
```
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faults.py").write_text(FAULTS)
    (tmp_path / "pyproject.toml").write_text("[tool.claims]\nfaults = 'faults.py'\n")
    (tmp_path / "page.md").write_text(PAGE.replace("ROOT", "abs(math.sqrt(4) - 2) < 1"))
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_what_no_check_notices_is_a_survivor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutate", "page.md", "--survivors"]) == 1
    _, *told, _ = capsys.readouterr().out.splitlines()
    why = "(gap: a check accepts another value of `math.sqrt(4)`)"
    vain = "cannot fail: no check notices any of 2 changes of its subject"
    assert told == [
        f"page.md:8: claim roots/four does not notice that roots are off by one percent {why}",
        f"page.md:13: claim roots/four does not notice `math.sqrt(4)` off by a tenth {why}",
        "    2 gap: a check accepts another value",
        f"page.md:8: claim roots/four {vain}",
    ]


@pytest.mark.covered_elsewhere
def test_what_a_check_notices_is_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "page.md").write_text(PAGE.replace("ROOT", "math.sqrt(4) == 2"))
    assert main(["mutate", "page.md", "--survivors"]) == 0
    page, summary = capsys.readouterr().out.splitlines()
    assert page.startswith("killed    page.md  (2 claims, 16 of 16 mutants killed, 0 gaps")
    assert summary.startswith("1 page, 2 claims, 16 of 16 mutants killed, 0 gaps: all can fail (")


WRONG = {
    "gone": (None, "error: faults in [tool.claims] must be a file, and faults.py is none"),
    "empty": ("", "no mutants: ValueError: {file} must hold FAULTS, as in FAULTS = Faults()"),
    "broken": ("1 / 0", "no mutants: ZeroDivisionError: division by zero"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_a_module_without_faults_is_told(
    text: str | None, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "faults.py").write_text(text or "")
    if text is None:
        (folder / "faults.py").unlink()
    assert main(["mutate", "page.md"]) != 0
    out, err = capsys.readouterr()
    assert message.replace("{file}", str(folder / "faults.py")) in out + err


def test_only_a_module_of_python_holds_faults(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"faults must be a module of Python \(.py\), not .*md"):
        read_faults(folder / "page.md")


def test_without_a_file_there_are_none() -> None:
    assert read_faults(None) == ((), ())


def test_what_another_version_does_not_have_is_no_part_of_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(math, "sqrt", math.sqrt)  # which puts it back
    targets = ("math.no_such_function", "math.sqrt")
    Fault(name="roots are wrong", targets=targets, replaced=lambda _: lambda _: "wrong").plant()
    assert str(math.sqrt(4)) == "wrong"
    assert not hasattr(math, "no_such_function")
