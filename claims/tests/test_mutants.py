"""Which changes of a page are tried, what becomes of them, and what is said of a claim then."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sphinx_claims.__main__ import main
from sphinx_claims._config import Config
from sphinx_claims._executing.processes import usual_kind
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.history import read_history
from sphinx_claims._mutating.causes import CAUSES
from sphinx_claims._mutating.mutants import mutants, names_needed
from sphinx_claims._mutating.mutate import mutate_page
from sphinx_claims._mutating.outcomes import MutantOutcome, MutatedClaim
from sphinx_claims._page import Cell, Doctest, Inline, Step
from sphinx_claims._reading.read import parse_page
from sphinx_claims._sphinx.ledger_page import mutants_killed

pytestmark = [
    pytest.mark.skipif(usual_kind() == "spawn", reason="of forked processes"),
    pytest.mark.usefixtures("shared_processes"),
]

OF_TORCH = Path(__file__).parents[2] / "docs" / "_faults.py"

Building = Any
Mutated = Callable[[str], MutatedClaim]
WorkersFor = Callable[[str], Workers]

CELL = "```{{code-cell}} python\n{0}\n```\n"
CLAIM = ":::{claim} a/b\nA sentence.\n:::\n\n" + CELL.replace("{{", "{").replace("}}", "}")
SQUARE = """\
import torch
x = torch.tensor(3.0, requires_grad=True)
(x**2).backward()
assert x.grad.item() == 6.0"""


def cell(source: str, raises: str | None = None, warns: str | None = None) -> Cell:
    return Cell(line=11, fence=10, source=source, raises=raises, warns=warns)


CHANGES: dict[str, tuple[Step, list[str]]] = {
    "assert": (
        cell("assert x == [6.0, 'a', None], 'message'"),
        [
            "check 11 negated `x == [6.0, 'a', None]`",
            "check 11 constant 6.0 -> 7.0 in `x == [6.0, 'a', None]`",
            "check 11 constant 6.0 -> 6.005999999999999 in `x == [6.0, 'a', None]`",
            "check 11 constant 'a' -> 'b' in `x == [6.0, 'a', None]`",
            "check 11 constant None -> 0 in `x == [6.0, 'a', None]`",
        ],
    ),
    "truth": (
        cell("assert x is True"),
        ["check 11 negated `x is True`", "check 11 constant True -> False in `x is True`"],
    ),
    "huge": (
        cell("assert x == 1e30"),
        [
            "check 11 negated `x == 1e+30`",
            "check 11 constant 1e+30 -> 2e+30 in `x == 1e+30`",
            "check 11 constant 1e+30 -> 1.0009999999999999e+30 in `x == 1e+30`",
        ],
    ),
    "bounds-and-tolerances": (
        cell("assert 0 < abs(x - z) <= 2 * 1e-3 and isclose(x, y, abs_tol=0.1)"),
        [
            "check 11 negated `0 < abs(x - z) <= 2 * 0.001 and isclose(x, y, abs_tol=0.1)`",
        ],
    ),
    "distance": (
        cell("assert abs(x - 3.0) < 0.1"),
        [
            "check 11 negated `abs(x - 3.0) < 0.1`",
            "check 11 constant 3.0 -> 4.0 in `abs(x - 3.0) < 0.1`",
        ],
    ),
    "other-than": (cell("assert x is not None"), ["check 11 negated `x is not None`"]),
    "expected-in-a-call": (
        cell("assert torch.equal(f(2), torch.tensor([6]))"),
        [
            "check 11 negated `torch.equal(f(2), torch.tensor([6]))`",
            "check 11 constant 2 -> 3 in `torch.equal(f(2), torch.tensor([6]))`",
            "check 11 constant 6 -> 7 in `torch.equal(f(2), torch.tensor([6]))`",
        ],
    ),
    "input-of-a-test": (
        cell("assert size(make(4)) == 2\nassert x[0] == ones(1, True).sum(dim=0)\nassert g(h(5))"),
        [
            "check 11 negated `size(make(4)) == 2`",
            "check 12 negated `x[0] == ones(1, True).sum(dim=0)`",
            "check 13 negated `g(h(5))`",
            "check 11 constant 2 -> 3 in `size(make(4)) == 2`",
            "subject 12 constant 0 -> 1 in `x[0] == ones(1, True).sum(dim=0)`",
            "subject 13 constant 5 -> 6 in `g(h(5))`",
            "subject 11 constant 4 -> 5 in `size(make(4)) == 2`",
            "subject 12 constant 0 -> 1 in `x[0] == ones(1, True).sum(dim=0)`",
            "subject 12 constant 1 -> 2 in `x[0] == ones(1, True).sum(dim=0)`",
            "subject 12 constant True -> False in `x[0] == ones(1, True).sum(dim=0)`",
        ],
    ),
    "formatted": (cell("assert x == f'{y:.3f}'"), ["check 11 negated `x == f'{y:.3f}'`"]),
    "inputs": (
        cell("y = f(2.0, True, 'a', None, 1j)\nassert y"),
        [
            "check 12 negated `y`",
            "subject 11 constant 2.0 -> 3.0",
            "subject 11 constant True -> False",
            "subject 11 constant 1j -> (1+1j)",
        ],
    ),
    "statements": (
        cell("x = x.f()\nunused = g()\ny = g()\ny += x\nx.a = y\ndel x\ny\ny.f()\nprint(y)"),
        [
            "subject 11 deleted `x = x.f()`",
            "subject 12 deleted `unused = g()`",
            "subject 14 deleted `y += x`",
            "subject 15 deleted `x.a = y`",
            "subject 16 deleted `del x`",
            "subject 18 deleted `y.f()`",
        ],
    ),
    "statements-in-blocks": (
        cell("def f(x):\n    if x:\n        x.f()\n    return x"),
        ["subject 13 deleted `x.f()`"],
    ),
    "dropped-calls": (
        cell("y = (x + z).detach()\nassert y.clone()\ny.retain_grad()"),
        [
            "check 12 negated `y.clone()`",
            "subject 13 deleted `y.retain_grad()`",
            "subject 11 dropped `.detach()` in `(x + z).detach()`",
            "subject 12 dropped `.clone()` in `y.clone()`",
        ],
    ),
    "grad-modes": (
        cell(
            "with open(x), torch.no_grad():\n    y = x\n\n@cache\n@torch.inference_mode()\n"
            "def f():\n    return y"
        ),
        ["subject 11 removed `torch.no_grad()`", "subject 15 removed `torch.inference_mode()`"],
    ),
    "pins": (
        cell("print(x)\n#> 2.9, yes\n#> ..."),
        ["check 12 output '2.9, yes' -> '2.9, yet'", "check 13 output '...' -> '...x'"],
    ),
    "raises": (
        cell("f()\ng()", raises="ValueError: ^no z, [.]+9"),
        [
            "subject 11 deleted `f()`",
            'check 10 :raises: "ValueErros: ^no z, [.]+9"',
            'check 10 :raises: "ValueError: ^no a, [.]+9"',
            'check 10 :raises: "ValueError: ^no z, [.]+0"',
        ],
    ),
    "warns": (
        cell("f()", warns="UserWarning: Z|y"),
        [
            "subject 11 deleted `f()`",
            'check 10 :warns: "UserWarninh: Z|y"',
            'check 10 :warns: "UserWarning: A|z"',
        ],
    ),
    "examples": (
        Doctest(
            line=11,
            source="  >>> y = f(\n  ...     2)\n  >>> y.f()\n  4\n  text\n  >>> assert y == 1\n",
        ),
        [
            "subject 12 constant 2 -> 3",
            "check 13 output '4\\ntext' -> '4\\ntexu'",
            "check 16 negated `y == 1`",
            "check 16 constant 1 -> 2 in `y == 1`",
        ],
    ),
    "inline-claim": (
        Inline(line=11, role="claim", source="x.detach() == 6"),
        [
            "check 11 negated `x.detach() == 6`",
            "check 11 constant 6 -> 7 in `x.detach() == 6`",
            "subject 11 dropped `.detach()` in `x.detach()`",
        ],
    ),
    "inline-value": (Inline(line=11, role="value", source="x + 1"), []),
}


@pytest.mark.parametrize(("step", "words"), CHANGES.values(), ids=CHANGES)
def test_these_changes_are_tried(step: Step, words: list[str]) -> None:
    (found,) = mutants([step])
    assert [f"{mutant.group} {mutant.line} {mutant.words}" for mutant in found] == words


SOURCES = {
    "é = f(\n    2,\n    'a'\n)  # why\nassert é == '''b\nc''', 1": [
        "é = f(\n    2,\n    'a'\n)  # why\nassert not (é == '''b\nc'''), 1\n",
        "é = f(\n    3,\n    'a'\n)  # why\nassert é == '''b\nc''', 1\n",
        "é = f(\n    2,\n    'a'\n)  # why\nassert é == 'b\\nd' \\\n, 1\n",
    ],
    "x.f(\n); y = 1\ny": ["x.f(\n); y = 2\ny\n", "pass \\\n; y = 1\ny\n"],
}


@pytest.mark.parametrize(("source", "changed"), SOURCES.items())
def test_a_change_leaves_every_line_in_its_place(source: str, changed: list[str]) -> None:
    (found,) = mutants([cell(source)])
    sources = [mutant.step.source for mutant in found]
    assert [source for source in sources if "1.001" not in source][: len(changed)] == changed
    for text in sources:
        compile(text, "page", "exec")


def test_a_changed_example_stands_where_the_example_stood() -> None:
    source = "  >>> x.f(\n  ...     2)\n  >>> y\n  4\n"
    (found,) = mutants([Doctest(line=1, source=source)])
    assert [mutant.step.source for mutant in found] == [
        "  >>> x.f(\n  ...     3)\n  >>> y\n  4\n",
        "  >>> pass \\\n  ... \n  >>> y\n  4\n",
        "  >>> x.f(\n  ...     2)\n  >>> y\n  5\n",
    ]


def test_evidence_needs_the_names_that_it_reads_before_it_binds_them() -> None:
    steps: list[Step] = [cell("z = x + 1\nx = z"), Doctest(line=1, source=">>> y = x\n>>> w + y\n")]
    assert names_needed(steps) == ["x", "w"]


@pytest.fixture
def mutated(workers_for: WorkersFor, tmp_path: Path) -> Mutated:
    def mutate(text: str) -> MutatedClaim:
        page = parse_page(text, "page.md")
        ids, tally = {claim.id for claim in page.claims}, tmp_path / "tally"
        faults = OF_TORCH if "torch" in text else None
        given = (page, tmp_path, ids, 20.0, tally, faults)
        outcome = workers_for(text).run(mutate_page, *given, seconds=120)
        assert outcome.failure is None
        (claim,) = outcome.messages
        assert tally.stat().st_size >= len(claim.outcomes)
        return claim  # type: ignore[no-any-return]

    return mutate


def ends(claim: MutatedClaim, *words: str) -> list[str]:
    """Return how the mutants with these words ended."""
    return [
        mutant.end for word in words for mutant in claim.outcomes if mutant.words.startswith(word)
    ]


@pytest.mark.covered_elsewhere
def test_a_claim_whose_checks_notice_what_it_is_about_can_fail(mutated: Mutated) -> None:
    claim = mutated(CLAIM.replace("{0}", SQUARE))
    assert list(claim.problems) == []
    assert claim.can_fail
    assert {mutant.end for mutant in claim.outcomes if mutant.group == "check"} == {"check"}
    assert ends(claim, "constant 3.0", "constant 2 ->", "deleted") == ["check", "check", "crash"]
    assert ends(claim, "that backward runs twice") == ["check"]
    assert ends(claim, "that backward does nothing") == ["crash"]
    assert claim.killed == len(claim.outcomes) - len(list(claim.survivors))


VAIN = {
    "about-nothing": ("assert len('ab') == 2", "no check notices any of 0 changes of its subject"),
    "too-wide": ("x = 3\nassert abs(x - 3) < 100", "no check notices any of 1 changes"),
    "crashes-only": ("x = [[5]]\nassert x[0]", "no check notices any of 2 changes of its subject"),
}


@pytest.mark.parametrize(("source", "message"), VAIN.values(), ids=VAIN)
def test_a_claim_that_notices_no_change_cannot_fail(
    source: str, message: str, mutated: Mutated
) -> None:
    *_, problem = mutated(CLAIM.replace("{0}", source)).problems
    assert problem.line == 1
    assert problem.message.startswith(f"claim a/b cannot fail: {message}")


WIDE = {
    "tolerance": (
        "import math\nx = 6.0\nassert math.isclose(x, 6.0, rel_tol=0.01)",
        "constant 6.0 -> 6.005999999999999 in `math.isclose(x, 6.0, rel_tol=0.01)`",
    ),
    "distance": (
        "x = 6.0\nassert x > 0\nassert abs(x - 6.0) < 100",
        "constant 6.0 -> 7.0 in `abs(x - 6.0) < 100`",
    ),
    "alternative": ("x = 1\nassert x in {1, 2}", "constant 2 -> 3 in `x in {1, 2}`"),
}


@pytest.mark.parametrize(("source", "words"), WIDE.values(), ids=WIDE)
def test_a_check_that_holds_of_another_value_cannot_fail(
    source: str, words: str, mutated: Mutated
) -> None:
    claim = mutated(CLAIM.replace("{0}", source))
    messages = [problem.message for problem in claim.problems]
    assert f"claim a/b has a check that cannot fail: {words}" in messages


MIXED = """\
# Page

```{code-cell} python
import torch
x = torch.tensor(3.0, requires_grad=True)
z = x**2
n = 1
```

:::{claim} a/b
A sentence, and {claim}`n == 1`.
:::

```{code-cell} python
:raises: "RuntimeError: a second time"
z.backward()
z.backward()
```

```pycon
>>> x.grad.item()
6.0
>>> z.item()
9.0
>>> w = torch.tensor(1.0)
>>> assert w.item() == 1.0
```

```{code-cell} python
print(n + 1)
#> 2
```

# Another section

```{code-cell} python
raise SystemExit
```
"""


@pytest.mark.covered_elsewhere
def test_every_kind_of_evidence_is_mutated_and_no_more_than_the_evidence(mutated: Mutated) -> None:
    claim = mutated(MIXED)
    assert list(claim.problems) == []
    assert ends(claim, "negated `n == 1`", "output '6.0'", "output '2'") == ["check"] * 3
    assert ends(claim, ":raises:") == ["crash", "check"]
    assert ends(claim, "`z + 1` in the place of `z`", "deleted `z.backward()`") == ["check"] * 2
    assert ends(claim, "that no graph is ever freed") == ["check"]
    assert ends(claim, "that backward does nothing") == ["check"]
    assert ends(claim, "that hooks") == []
    assert [mutant.line for mutant in claim.outcomes if mutant.words == "constant 1.0 -> 2.0"] == [
        25
    ]


STRAY = {
    "another-type-is-raised": (
        ':raises: "ZeroDivisionError: zero"\nx = 0\n1 / [5, 1 - 1][x + 1]',
        "constant 0 -> 1",
        "crash",
    ),
    "nothing-is-raised": (
        ':raises: "ZeroDivisionError: zero"\nx = 0\n1 / x',
        "constant 0",
        "check",
    ),
    "another-message": (
        ':raises: "IndexError: list index"\nx = 1\n[0][x] if x == 1 else (0,)[x]',
        "constant 1 -> 2",
        "check",
    ),
    "it-breaks-before-the-output": ("x = [5][0]\nprint(5)\n#> 5", "constant 0 -> 1", "crash"),
    "an-assert-is-passed-over": ("for x in [5][:1]:\n    assert x == 5", "constant 1", "alive"),
    "an-assert-is-not-reached": ("x = 5\nif x == 5:\n    assert x", "constant 5 -> 6", "crash"),
    "an-undeclared-warning": (
        "import warnings\nx = 0\nif x:\n    warnings.warn('x')\nassert x < 5",
        "constant 0 -> 1",
        "crash",
    ),
}


@pytest.mark.covered_elsewhere
@pytest.mark.parametrize(("source", "words", "end"), STRAY.values(), ids=STRAY)
def test_a_check_fails_only_where_it_was_made_and_came_out_false(
    source: str, words: str, end: str, mutated: Mutated
) -> None:
    claim = mutated(CLAIM.replace("{0}", source))
    found = [
        mutant.end
        for mutant in claim.outcomes
        if mutant.group == "subject" and words in mutant.words
    ]
    assert found[0] == end


def test_an_example_that_crashes_is_no_check_that_fails(mutated: Mutated) -> None:
    page = ":::{claim} a/b\nA sentence.\n:::\n\n```pycon\n>>> x = 0\n>>> [5][x]\n5\n```\n"
    assert ends(mutated(page), "constant 0", "output") == ["crash", "check"]


@pytest.mark.covered_elsewhere
def test_what_a_mutant_does_reaches_nobody_else(mutated: Mutated) -> None:
    source = """\
import os
n, m, path, free = 0, 3, 1, 8
os.write(1, b"!" * n)
if m != 3:
    os.kill(os.getpid(), 9)
while path != 1:
    pass
print("!" * 10**6 * n)
assert n == 0"""
    claim = mutated(CLAIM.replace("{0}", source))
    assert ends(claim, "constant 3 -> 4", "constant 8 -> 9") == ["died", "alive"]
    assert "time" in ends(claim, "constant 1 -> 2")
    assert ends(claim, "constant 0 -> 1")[0] in {"check", "crash"}


FAULTS = {
    "in-a-copy": ("assert seen is None", "fails in a copy (check)"),
    "after-copies": ("assert not seen", "is not true once its mutants were tried"),
}


@pytest.mark.parametrize(("check", "fault"), FAULTS.values(), ids=FAULTS)
def test_evidence_that_does_not_hold_twice_is_not_mutated(
    check: str, fault: str, mutated: Mutated
) -> None:
    source = "from pathlib import Path\nseen = Path('seen').exists()\nPath('seen').write_text('')"
    (problem,) = mutated(CLAIM.replace("{0}", f"{source}\n{check}")).problems
    assert problem.message == f"claim a/b cannot be mutated: its evidence {fault}"


SLOW_WITH_OTHER_VALUES = """\
import time
idle, calls = 5, []
def slow(n):
    calls.append(n)
    time.sleep(0.4 * bool(calls[1:]))
    return n
assert all(slow(n) == 3 for n in [3])"""


@pytest.mark.covered_elsewhere
def test_checks_that_are_slow_with_other_values_are_watched_to_the_end(mutated: Mutated) -> None:
    claim = mutated(CLAIM.replace("{0}", SLOW_WITH_OTHER_VALUES))
    assert "unknown" not in {mutant.cause for mutant in claim.outcomes}


NOTICED_THE_SECOND_TIME = """\
from pathlib import Path
n, mode, seen = 3, 1, Path("seen")
if mode != 1:
    n += seen.exists()
    seen.write_text("")
assert n == 3"""


def test_a_change_that_a_check_notices_the_second_time_is_no_gap(mutated: Mutated) -> None:
    claim = mutated(CLAIM.replace("{0}", NOTICED_THE_SECOND_TIME))
    causes = {mutant.cause for mutant in claim.outcomes}
    assert "again" in causes
    assert not causes & {"accepted", "unknown"}


def test_what_copies_write_is_not_held_against_the_page(mutated: Mutated) -> None:
    source = "import os\nif n:\n    os.write(2, b'!')\n    os._exit(1)\nassert n == 0"
    page = CELL.format("n = 0\nm = 1") + CLAIM.replace("{0}", f"n = 0\n{source}")
    assert mutated(page + CELL.format("assert m == 1")).fault is None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[str]]:
    status = main(["mutate", *options])
    return status, capsys.readouterr().out.splitlines()


def test_a_site_is_told_page_by_page_and_claim_by_claim(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = "[tool.claims]\npackage = 'torch'\npages = ['docs']\nmutants = 'kept.json'\n"
    (folder / "pyproject.toml").write_text(
        f"{config}[tool.claims.survivors]\n'c/d' = 'It says nothing.'\n'g/h' = 'Gone.'\n"
    )
    right, vain = (
        CLAIM.replace("{0}", "x = 1\nassert x == 1"),
        CLAIM.replace("{0}", "assert len('a') == 1"),
    )
    pages = {
        "right": right,
        "feeble": vain.replace("a/b", "e/f"),
        "allowed": vain.replace("a/b", "c/d"),
        "false": right.replace("a/b", "i/j").replace("== 1", "== 2"),
        "plain": "# No claim\n",
        "skipped": right.replace("a/b", "k/l\n:until: 1.0\n").replace("== 1", "== 2"),
    }
    (folder / "docs").mkdir()
    for name, text in pages.items():
        (folder / "docs" / f"{name}.md").write_text(text)
    status, told = run(capsys, "--json", "kept.json", "--survivors")
    assert status == 1
    lines = sorted(line.partition("  (")[0] for line in told[:5])
    assert lines == [
        "false     docs/false.md",
        "killed    docs/right.md",
        "killed    docs/skipped.md",
        "survived  docs/allowed.md",
        "survived  docs/feeble.md",
    ]
    red = "claim is FALSE: x == 2, where x is 1"
    gone = "survivors in [tool.claims] allows claim g/h, which is on no true page"
    assert told[5:-1] == [
        f"docs/false.md:7: prove the page first, it is not true: {red}",
        "docs/feeble.md:1: claim e/f cannot fail: no check notices any of 0 changes of its subject",
        f"pyproject.toml:1: {gone}",
    ]
    assert told[-1].startswith("5 pages, 3 claims, 19 of 19 mutants killed, 0 gaps: 3 problems (")
    kept = json.loads((folder / "kept.json").read_text())
    assert [
        (key, count["made"], count["killed"], count["can_fail"]) for key, count in kept.items()
    ] == [
        ("c/d", 6, 6, False),
        ("e/f", 6, 6, False),
        ("a/b", 7, 7, True),
    ]


NUMBER = CAUSES["number"][1]


@pytest.mark.covered_elsewhere
def test_some_pages_can_be_mutated_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pyproject.toml").write_text(
        "[tool.claims]\nsurvivors = { 'a/b' = 'No.', 'c/d' = 'Elsewhere.' }\n"
    )
    (folder / "page.md").write_text(CLAIM.replace("{0}", "x, y = 1, 2\nassert x == 1"))
    status, told = run(capsys, "page.md", "--survivors")
    assert (status, told[1:-1]) == (
        1,
        [
            f"page.md:6: claim a/b does not notice constant 2 -> 3 (equivalent: {NUMBER})",
            f"    1 equivalent: {NUMBER}",
            "page.md:1: claim a/b can fail: survivors in [tool.claims] need not allow it",
        ],
    )
    (folder / "pyproject.toml").write_text("[tool.claims]\n")
    status, told = run(capsys, "page.md")
    assert status == 0
    assert told[0].startswith("killed    page.md  (1 claim, 7 of 8 mutants killed, 0 gaps, ")
    assert told[1].startswith("1 page, 1 claim, 7 of 8 mutants killed, 0 gaps: all can fail (")


def test_a_page_that_ends_its_process_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text("[tool.claims]\n")
    source = (
        "import os\nif 'CUDA_VISIBLE_DEVICES' in os.environ:\n    os._exit(3)\nassert os.sep == '/'"
    )
    (folder / "inside.md").write_text(CLAIM.replace("{0}", source))
    (folder / "outside.md").write_text(
        CELL.format(source) + CLAIM.replace("{0}", "assert 1 + 1 == 2").replace("a/b", "c/d")
    )
    status, told = run(capsys, "inside.md", "outside.md")
    assert (status, told[2:-1]) == (
        1,
        [
            "inside.md:1: claim a/b cannot be mutated: its evidence fails in a copy (died)",
            "outside.md:1: no mutants: its process ended with exit code 3",
        ],
    )


def test_the_number_of_mutants_is_told_while_they_run(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "pyproject.toml").write_text("[tool.claims]\n")
    slow = CELL.format("import time\ntime.sleep(0.5)")
    (folder / "page.md").write_text(slow + CLAIM.replace("{0}", "assert 1 + 1 == 2"))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["mutate", "page.md"]) == 1
    out = capsys.readouterr().out
    assert "0 mutants\r" in out


LEDGER = CLAIM.replace("{0}", "x = 1\nassert x == 1") + "\n```{claims-ledger}\n```\n"


def test_the_ledger_shows_counts_of_claims_that_have_not_changed(build: Building) -> None:
    toml = "mutants = 'kept.json'\n"
    file = build.folder / "kept.json"
    assert build(toml=toml, index=LEDGER) == (0, "")
    (claim,) = build.ledger()["claims"]
    assert claim["mutants"] is None
    assert "1 check · not mutated since it changed" in build.page()

    count = {"made": 4, "killed": 3, "can_fail": True}
    file.write_text(json.dumps({"a/b": {"digest": claim["digest"], **count}}))
    assert build(toml=toml, index=LEDGER) == (0, "")
    assert build.ledger()["claims"][0]["mutants"] == count
    assert build.ledger()["claims"][0]["mutants"]["can_fail"] is True
    assert build.ledger()["mutants"] == {"made": 4, "killed": 3, "can_fail": 1}
    assert build.page().count("3 of 4 mutants killed") == 2

    sorts = {"equivalent": 1, "outside": 0, "gaps": 0}
    file.write_text(json.dumps({"a/b": {"digest": claim["digest"], **count, **sorts}}))
    assert build(toml=toml, index=LEDGER) == (0, "")
    assert build.ledger()["mutants"] == {**count, **sorts, "can_fail": 1}
    told = "3 of 4 changes to the evidence noticed, 1 equivalent, 0 gaps"
    assert build.page().count(told) == 2

    assert build(toml=toml, index=LEDGER.replace("x = 1", "x = 1 + 0")) == (0, "")
    assert build.ledger()["claims"][0]["mutants"] is None


def test_a_ledger_without_mutants_says_nothing_of_them(build: Building) -> None:
    assert build(index=LEDGER) == (0, "")
    assert build.ledger()["mutants"] is None
    assert "mutant" not in build.page()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a/b": 1}', '{"a/b": {"digest": "x"}}'])
def test_a_file_that_is_none_of_ours_tells_of_no_claim(text: str, tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text(text)
    assert read_history(Config(root=tmp_path, mutants="kept.json")).mutants == {}
    assert read_history(Config(root=tmp_path, mutants="missing.json")).mutants == {}


def test_a_reader_is_told_of_a_count() -> None:
    assert mutants_killed({"made": 3, "killed": 2}) == "2 of 3 mutants killed"
    count = {"made": 15, "killed": 11, "equivalent": 1, "outside": 2, "gaps": 1}
    told = "11 of 13 changes to the evidence noticed, 1 equivalent, 1 gap"
    assert mutants_killed(count) == told


def test_a_fate_tells_whether_the_claim_survived() -> None:
    assert MutantOutcome(line=1, group="check", words="", end="alive").survived
    assert not MutantOutcome(line=1, group="check", words="", end="died").survived
