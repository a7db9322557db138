"""Which sentences speak of all of a kind, who asks them for a family, and where that is told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sphinx_claims.__main__ import main
from sphinx_claims._config import Config
from sphinx_claims._executing.families import Families
from sphinx_claims._executing.processes import usual_kind
from sphinx_claims._executing.spawned import SpawnedWorkers
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.digest import digest
from sphinx_claims._judging.prover import judge_page
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._mutating.mutate import mutate_page
from sphinx_claims._page import Cell
from sphinx_claims._reading.read import parse_page
from sphinx_claims._reading.universal import universal_word
from sphinx_claims._record import Family

pytest_plugins = ["pytester"]
Building = Any

UNIVERSAL = {
    "Every leaf has one.": "every",
    "Leaves have it everywhere.": "everywhere",
    "This holds for all tensors.": "all",
    "All but one of them are leaves.": "all",
    "A leaf always has one.": "always",
    "Each node knows the next.": "each",
    "A step is taken, and each of them counts.": "each",
    "It takes any tensor.": "any",
    "In any order it is the same.": "any",
    "No tensor has it.": "no",
    "It is so, and no gradient arrives.": "no",
    "It is so for no tensor.": "no",
    "No one reads it.": "no one",
    "None of the tensors has one.": "none",
    "That holds of none of them.": "none",
    "It does nothing.": "nothing",
    "It is never read.": "never",
    "Only leaves have one.": "only",
    "It is a leaf exactly when it has no node.": "exactly",
    "Whatever its dtype, it has one.": "whatever",
    "It is zero wherever it exists.": "wherever",
    "It is one regardless of the mode.": "regardless",
    "It is one no matter which mode is on.": "no matter",
    "It is one whether or not the mode is on.": "whether",
    "It is one whether a leaf asks or not.": "whether",
    "`all(x)` is true\nof every one.": "every",
}
PLAIN = (
    "`x.all()` and ``every(`x`)`` are true, as is {func}`torch.any`.",
    "The sum over $all$ of them is [one](every/page.md).",
    "Not every leaf has one, not all keep it, and it is not always read.",
    "It happens in nearly all cases, and not at all in this one.",
    "All three of them are leaves, all of the 2 are, and each of the two has one.",
    "One for each leaf, and they follow each other.",
    "Each of these ways does it, if each row stands alone and if no tensor requires grad.",
    "It is a leaf no longer, in any case, and needs no more than one, if any.",
    "A tensor has no gradient, and its gradient is None.",
    "It does not only read but write, it is not the only one, and it is read-only.",
    "It has only one element, exactly two of them, and is read only once.",
    "It tells whether it is a leaf or not.",
    "One has a gradient, and the other does not get any.",
)
PAGE = """\
# Numbers

:::{claim} numbers/every
OPTION
Every number is positive.
:::

```{code-cell} python
FAMILY
numbers = [1, 2, 3]
assert all(number > 0 for number in numbers)
```
"""
RULE = (
    'numbers/every says "every", and no cell below runs over a family: '
    "mark one with :family:, or say why with :universal:"
)
NO_CHECK = ":family: numbers must have checks that run over it, and none does: "
TABLE = "[tool.claims]\nuniversal = true\n"


def page(option: str = "", family: str = "") -> str:
    return PAGE.replace("OPTION\n", option).replace("FAMILY\n", family and f"{family}\n\n")


@pytest.mark.parametrize(("statement", "word"), UNIVERSAL.items(), ids=UNIVERSAL)
def test_a_sentence_on_all_of_a_kind_is_told_by_its_word(statement: str, word: str) -> None:
    assert universal_word(statement) == word


@pytest.mark.parametrize("statement", PLAIN)
def test_the_same_words_mean_other_things_elsewhere(statement: str) -> None:
    assert universal_word(statement) is None


# --- Who asks


@pytest.fixture
def judge(workers: Workers, tmp_path: Path) -> Callable[..., PageVerdict]:
    def judged(text: str, *, universal: bool = True) -> PageVerdict:
        config = Config(root=tmp_path, universal=universal)
        return judge_page(parse_page(text, "page.md"), config, workers)

    return judged


def test_nobody_asks_for_a_family_who_has_not_set_it(judge: Callable[..., PageVerdict]) -> None:
    verdict = judge(page(), universal=False)
    assert verdict.problems == ()
    assert verdict.claims[0].quantifier == "every"


def test_a_claim_without_a_family_is_false(judge: Callable[..., PageVerdict]) -> None:
    verdict = judge(page())
    assert [(found.line, found.message) for found in verdict.problems] == [(3, RULE)]
    assert [claim.word for claim in verdict.claims] == ["false"]


def test_a_family_is_checked_where_nobody_asks_for_it(judge: Callable[..., PageVerdict]) -> None:
    text = page(family=":family: numbers").replace("all(", "any(")
    for universal in (True, False):
        (problem,) = judge(text, universal=universal).problems
        assert problem.line == 7
        assert problem.message.startswith(NO_CHECK)


def test_of_a_page_that_stops_nobody_asks_for_a_family(judge: Callable[..., PageVerdict]) -> None:
    (problem,) = judge(page().replace("numbers = ", "import os; os._exit(3); numbers = ")).problems
    assert problem.message.startswith("the page stopped here")


def test_a_cell_that_fails_is_not_asked_for_its_family(judge: Callable[..., PageVerdict]) -> None:
    (problem,) = judge(page(family=":family: numbers").replace("> 0", "> 2")).problems
    assert problem.message.startswith("claim is FALSE")


def test_spawned_processes_tell_of_families_as_well(tmp_path: Path) -> None:
    config = Config(root=tmp_path, universal=True)
    text = page(family=":family: numbers")
    with SpawnedWorkers([]) as workers:
        verdicts = [
            judge_page(parse_page(one, "page.md"), config, workers)
            for one in (text, text.replace("[1, 2, 3]", "[1, 2]"))
        ]
    good, bad = verdicts
    assert good.problems == ()
    assert good.claims[0].families == (Family(line=7, name="numbers", members=3),)
    assert [found.line for found in bad.problems] == [7]


# --- Where it is told


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(TABLE)
    (tmp_path / "page.md").write_text(page())
    return tmp_path


def test_verify_tells_the_line_of_the_claim(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "page.md"]) == 1
    assert f"page.md:3: {RULE}\n" in capsys.readouterr().out
    (folder / "pyproject.toml").write_text(TABLE.replace("true", '"yes"'))
    assert main(["verify", "page.md"]) == 2
    told = capsys.readouterr().err
    assert "universal in [tool.claims] must be true or false, not 'yes'" in told


def test_pytest_tells_the_line_of_the_claim(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml(f'{TABLE}pages = ["page.md"]\n')
    (pytester.path / "page.md").write_text(page())
    result = pytester.runpytest_subprocess("page.md")
    assert f"page.md:3: {RULE}" in result.outlines


def test_the_site_tells_the_line_of_the_claim(build: Building) -> None:
    status, told = build(toml="universal = true\n", index=page())
    assert status == 1
    assert f"index.md:3: ERROR: {RULE}" in told


def test_the_ledger_has_the_family_or_the_reason(build: Building) -> None:
    because = ":universal: it is a definition\n"
    other = page(option=because).replace("numbers/every", "numbers/defined")
    index = page(family=":family: numbers") + other + "\n:::{claim} a/plain\nIt is so.\n:::\n"
    index += "{claim}`1 == int('1')`\n\n```{claims-total}\n```\n\n```{claims-ledger}\n```\n"
    assert build(toml="universal = true\n", index=index) == (0, "")
    ledger = build.ledger()
    assert ledger["universal"] == {"claims": 2, "families": 1, "reasons": 1}
    assert [claim["universal"] for claim in ledger["claims"]] == [
        {"word": "every", "families": [{"name": "numbers", "members": 3}], "because": None},
        {"word": "every", "families": [], "because": "it is a definition"},
        None,
    ]
    html = build.page()
    assert html.count("2 universal (1 over a family, 1 with a reason)") == 2
    assert "over 3 numbers" in html
    assert "universal: it is a definition" in html


# --- What it changes elsewhere


@pytest.mark.skipif(usual_kind() == "spawn", reason="of forked processes")
def test_a_mutant_is_killed_by_a_check_and_not_by_the_size_of_a_family(
    workers: Workers, tmp_path: Path
) -> None:
    family = parse_page(
        page(family=":family: numbers").replace("[1, 2, 3]", "[1, 2, 3]\nnumbers.append(3)"),
        "page.md",
    )
    few = parse_page(
        page(family=":family: numbers").replace("[1, 2, 3]", "[1, 2]\nnumbers.append(3)"),
        "page.md",
    )
    for one in (family, few):
        tally = tmp_path / "tally"
        outcome = workers.run(
            *(mutate_page, one, tmp_path, {"numbers/every"}, 30.0, tally, None), seconds=60
        )
        (claim,) = outcome.messages
        assert claim.fault is None
        ends = {mutant.words: mutant.end for mutant in claim.outcomes}
        assert ends["deleted `numbers.append(3)`"] == "alive"


def test_a_family_and_a_reason_are_part_of_what_was_judged() -> None:
    texts = (page(), page(family=":family: numbers"), page(option=":universal: so it is\n"))
    pages = [parse_page(text, "page.md") for text in texts]
    assert len({digest(one, one.claims[0]) for one in pages}) == 3


def test_what_an_array_of_another_library_cannot_tell_is_passed_over() -> None:
    class Array:
        dtype = "int"

        def __init__(self, number: int) -> None:
            self.number = number

        def __repr__(self) -> str:
            return f"Array({self.number})"

        def stride(self) -> int:
            raise RuntimeError

    families = Families(lambda: 0)
    families.begin(pinned=False)
    cell = Cell(line=2, fence=1, source="", family=("arrays",))
    for _ in families.over("arrays", (), True, range(3)):
        families.noted(3)
    arrays = [Array(number) for number in range(3)]
    (found,) = families.of(cell, {"arrays": arrays})
    assert found == Family(line=1, name="arrays", members=3)
