"""A claim must be true within its range of versions, and is checked to be false outside it."""

from importlib import metadata

import pytest

from tests.proving import Claim, ClaimVerdict, Judge, PageVerdict, broken_bound, parse_page

PAGE = """
```{{code-cell}} python
def one() -> int:
    return 1

def is_two(number):
    assert number == 2
```

:::{{claim}} numbers/two
{options}

So it is.
:::

{evidence}

## Next

:::{{claim}} numbers/three
Three is three.
:::

```{{code-cell}} python
assert one() + 2 == 3
is_two(2)
```
"""
LINE = 10
TORCH = metadata.version("torch").partition("+")[0]
FALSE = "claim is FALSE: one() == 2, where one() is 1"


def cell(source: str, options: str = "") -> str:
    return f"```{{code-cell}} python\n{options}\n\n{source}\n```"


def page(options: str, evidence: str) -> str:
    return PAGE.format(options=options, evidence=evidence)


def of_two(verdict: PageVerdict) -> ClaimVerdict:
    return next(claim for claim in verdict.claims if claim.claim.id == "numbers/two")


# --- Version ranges


RANGES = """\
2.13.0    -     -     inside
2.9.1     2.10  -     since
2.13.0    -     2.13  until
2.11.0    2.12  2.13  since
2.13.0rc1 2.13  -     since
2.13.0rc1 2.13.0.dev0 -     inside
-         2.13  2.14  inside
"""


@pytest.mark.parametrize("case", RANGES.splitlines())
def test_since_is_inclusive_and_until_exclusive(case: str) -> None:
    torch, since, until, expected = (None if word == "-" else word for word in case.split())
    claim = Claim(line=1, id="a/b", statement="It is so.", since=since, until=until)
    assert (broken_bound(claim, torch) or "inside") == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (":since: two", ":since: must be a version, as in 2.12, not 'two'"),
        (":until:", ":until: must be a version, as in 2.12, not ''"),
        (":since: 2.13.0+cpu", ":since: must be a version, as in 2.12, not '2.13.0+cpu'"),
        (":since: 99\n:until: 99", ":since: must be a version before :until:, not 99"),
        (":form: 2", "a claim's options are key, kind, scope, since, sources, until, not 'form'"),
    ],
)
def test_invalid_version_range_is_reported(options: str, message: str, judge: Judge) -> None:
    problems = judge(page(options, cell("assert one() == 1"))).problems
    assert [(problem.line, problem.message) for problem in problems] == [(LINE, message)]


def test_version_2_10_is_not_read_as_a_number() -> None:
    (claim, _) = parse_page(page(":since: 2.10\n:until: '2.20'", ""), "page.md").claims
    assert (claim.since, claim.until) == ("2.10", "2.20")


# --- Inside the range


@pytest.mark.parametrize(("value", "word"), [(1, "true"), (2, "false")])
def test_claim_inside_its_versions_is_judged_as_usual(value: int, word: str, judge: Judge) -> None:
    verdict = judge(page(":since: 1.0\n:until: 99", cell(f"assert one() == {value}")))
    assert [problem.message for problem in verdict.problems] == [FALSE] * (value == 2)
    assert of_two(verdict).word == word


# --- Outside the range

FAILING = {
    "an assert": cell("assert one() == 2"),
    "one check of two": cell("assert one() == 1") + "\n\n" + cell("assert one() == 2"),
    "an exception before the assert": cell("two = one(2)\nassert two == 2"),
    "an exception that does not come": cell("one()", ':raises: "ValueError: two"'),
    "a pin": cell("one()\n#> 2"),
    "an example": "```pycon\n>>> one()\n2\n```",
    "a sentence": "{claim}`one() == 2`",
}


@pytest.mark.parametrize("evidence", FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("options", [":since: 99", ":until: 1.0"])
def test_claim_that_fails_outside_its_versions_is_skipped(
    options: str, evidence: str, judge: Judge
) -> None:
    verdict = judge(page(options, evidence))
    assert verdict.problems == ()
    assert [claim.word for claim in verdict.claims] == ["skipped", "true"]
    assert not all(check.passed for check in of_two(verdict).evidence)
    assert set(of_two(verdict).evidence) < set(verdict.checks)


HOLDING = {
    "an assert": cell("assert one() == 1"),
    "an assert that is never evaluated": cell("if one() == 2:\n    assert one() == 2"),
    "an assert, with a warning": cell("import warnings\nwarnings.warn('1')\nassert one() == 1"),
    "an exception that is announced": cell("one(2)", ':raises: "TypeError: takes 0"'),
}


@pytest.mark.parametrize("evidence", HOLDING.values(), ids=HOLDING)
@pytest.mark.parametrize(("options", "bound"), [(":since: 99", "since"), (":until: 1.0", "until")])
def test_claim_that_holds_outside_its_versions_is_reported(
    options: str, bound: str, evidence: str, judge: Judge
) -> None:
    verdict = judge(page(options, evidence))
    message = (
        f"claim numbers/two holds on torch {TORCH} too: "
        f"`:{bound}:` is wrong or its evidence is too weak"
    )
    assert [(problem.line, problem.message) for problem in verdict.problems] == [(LINE, message)]
    assert of_two(verdict).word == "false"


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        (cell("one()"), "claim numbers/two has no evidence"),
        (cell("assert one() == 2\n") + "\n\n```{clam} a/b\n```", "{clam} is not executed"),
        (cell("import os\nis_two(1)") + "\n\n" + cell("os._exit(0)"), "the page stopped here"),
        (cell("import os\nos._exit(0)"), "the page stopped here"),
    ],
    ids=["nothing", "unknown directive", "death", "death alone"],
)
def test_missing_evidence_is_reported_outside_the_versions_too(
    evidence: str, message: str, judge: Judge
) -> None:
    verdict = judge(page(":since: 99", evidence))
    (problem,) = (problem for problem in verdict.problems if problem.line >= LINE)
    assert problem.message.startswith(message)
    assert of_two(verdict).word == "false"


def test_version_range_excuses_only_its_own_evidence(judge: Judge) -> None:
    evidence = cell("def check():\n    assert one() == 2\ncheck()") + "\n\n## There\n\n"
    verdict = judge(page(":since: 99", evidence + cell("check()")))
    assert [problem.message for problem in verdict.problems] == [FALSE]
    text = page(":since: 99", cell("import atexit\natexit.register(is_two, one())\nis_two(3)"))
    ended = judge(text.partition("## Next")[0])
    assert [claim.word for claim in ended.claims] == ["skipped"]
    messages = [problem.message for problem in ended.problems]
    assert "claim is FALSE: number == 2, where number is 1" in messages
